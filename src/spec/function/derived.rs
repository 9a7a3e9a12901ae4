//! Facts that follow from an entry of the table: from its effects, its groups, and its arguments.

use super::{DOCS, FUNCTIONS, FnId, FnSpec, UndoArgs, look_up_name};
use crate::argument::{ArgSpec, Direction};
use crate::effect::{
    AddedDevice, AddressSpace, Altered, Batch, Bound, Copied, Demand, Effect, End, Followed, Gathered, Grant, HostCall,
    Launched, LookedUp, Made, Named, Object, OtherArgs, Posted, Query, Shared, Signal, Subject, Unbound, Used, Work,
};
use crate::group::{Group, Library};
use crate::results::{Result, ResultSpec};
use core::ops::Range;

/// Finds the first effect of a function that matches a pattern. A `const fn` cannot use iterators.
macro_rules! find {
    ($function:ident, $($pattern:pat $(if $guard:expr)? => $found:expr),+ $(,)?) => {{
        let mut index = 0;
        loop {
            if index == $function.effects().len() {
                break None;
            }
            match $function.effects()[index] {
                $($pattern $(if $guard)? => break Some($found),)+
                _ => index += 1,
            }
        }
    }};
}

/// Declares functions that return the first effect of a kind.
macro_rules! first_effects {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ident -> $has:ty;)*) => {
        impl FnSpec {$(
            $(#[doc = $doc])+
            pub const fn $name(&self) -> Option<$has> {
                find!(self, Effect::$kind(found, ..) => found)
            }
        )*}
    };
}
first_effects! {
    /// Object whose handle a success returns.
    exports: Exports -> Shared;
    /// Object that a success opens by a handle.
    opens: Opens -> Shared;
    /// Opened object that a success closes.
    closes: Closes -> Named;
    /// The access that a success switches on.
    enables: Enables -> Named;
    /// The access that a success switches off.
    disables: Disables -> Named;
    /// Object of the process that a success ends.
    ends: Ends -> End;
    /// Object of the process that a success creates.
    makes: Makes -> Made;
    /// The access that a success sets.
    grants: Grants -> Grant;
    /// The multicast object that a success makes.
    gathers: Gathers -> Gathered;
    /// The device that a success adds to a multicast object.
    joins: Joins -> AddedDevice;
    /// The memory that a success binds to a multicast object.
    binds: Binds -> Bound;
    /// The memory that a success unbinds from a multicast object.
    unbinds: Unbinds -> Unbound;
    /// Copy that a call makes.
    copies: Copies -> Copied;
    /// Object to which a success adds a reference.
    retains: Retains -> Named;
    /// The copies that a call does at once.
    batch: UsesEach -> Batch;
    /// The argument that names the event which a call records in a stream.
    records: Records -> usize;
    /// The work that is done when a call has returned.
    completes: Completes -> Work;
    /// The event that later work of a stream waits for.
    follows: Follows -> Followed;
    /// The argument that names the stream that a call ends.
    drops: Drops -> usize;
    /// The value in memory that later work of a stream waits for.
    awaits: Awaits -> Signal;
    /// The value that a stream writes to memory.
    signals: Signals -> Signal;
    /// Several waits for values and writes of them.
    posts: Posts -> Posted;
    /// The function of the program that a stream calls.
    runs: Runs -> HostCall;
    /// The kernel that a call launches.
    launches: Launches -> Launched;
    /// The argument that names the graph that a call launches.
    replays: Replays -> usize;
    /// The output that holds a function pointer after a success.
    hands_out: LooksUp -> usize;
}

impl FnSpec {
    /// Returns a sentence about the purpose of the function.
    pub fn doc(&self) -> String {
        let own = if self.is_per_thread() { " The default stream is the thread's own." } else { "" };
        let form = |f: &FnSpec| (f.lookup(), f.is_per_thread());
        let later = FUNCTIONS.iter().filter(|f| form(f) == form(self) && f.since > self.since).map(|f| f.since);
        let before = later.min().filter(|_| !self.lookup().is_empty());
        let before = before.map(|since| format!(" Used before CUDA {}.{}.", since / 1000, since % 1000 / 10));
        format!("{}{own}{}", DOCS[self.id as usize], before.unwrap_or_default())
    }

    /// Returns the name for `cuGetProcAddress`; empty for a function that is not the driver's.
    pub fn lookup(&self) -> &'static str {
        look_up_name(self.name(), self.since)
    }

    /// Returns true if the function belongs to a group.
    pub const fn is_in(&self, group: Group) -> bool {
        self.groups.has(group)
    }

    /// Returns the groups of the function.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        Group::ALL.iter().map(|(group, ..)| *group).filter(|group| self.is_in(*group))
    }

    /// Returns the argument that must have a certain value, so that a call that opens or enables something can
    /// succeed.
    pub fn required_value(&self) -> Option<Demand> {
        self.find_effect(|effect| match effect {
            Effect::Opens(Shared { demand, .. }) | Effect::Enables(_, demand) => demand,
            _ => None,
        })
    }

    /// Returns the context, or primary context, that a successful call ends.
    pub fn ended_context(&self) -> Option<End> {
        self.ends().filter(|end| end.object.is_context())
    }

    /// Returns the argument with the properties of an allocation or a pool, which the call creates or queries.
    pub fn properties_argument(&self) -> Option<usize> {
        self.find_effect(|effect| match effect {
            Effect::Makes(Made { object: Object::Allocation | Object::Pool, of, .. }) => of,
            Effect::Asks(Query { subject: Subject::Memory, device, choice: Some(_), .. }) => Some(device),
            _ => None,
        })
    }

    /// Returns the range of addresses that a call creates, ends, or grants access to: the arguments with its start
    /// and its size.
    pub fn address_range(&self) -> Option<(usize, usize)> {
        self.find_effect(|effect| match effect {
            Effect::Makes(Made { by, size, .. })
            | Effect::Ends(End { by, size, .. })
            | Effect::Grants(Grant { by, size, .. }) => Some((by, size?)),
            _ => None,
        })
    }

    /// Returns the argument that names an allocation which a call maps, exports, or releases.
    pub fn allocation_handle_argument(&self) -> Option<usize> {
        self.find_effect(|effect| match effect {
            Effect::Exports(Shared { object: Object::Allocation, by, .. })
            | Effect::Ends(End { object: Object::Allocation, by, .. }) => Some(by),
            Effect::Makes(Made { object: Object::Mapping, of, .. }) => of,
            _ => None,
        })
    }

    /// Returns the argument with the kind of the shareable handle that a call returns or opens.
    pub fn handle_kind_argument(&self) -> Option<usize> {
        self.args()[self.exports().or(self.opens())?.handle].handle_kind_argument()
    }

    /// Returns the array that a call reads: its argument, and the argument with its number of elements.
    pub fn input_array(&self) -> Option<(usize, usize)> {
        let mut args = self.args().iter().enumerate();
        args.find_map(|(index, arg)| Some((index, arg.count_argument().filter(|_| arg.direction == Direction::In)?)))
    }

    /// Returns true if a call reads or writes device memory, and does nothing else.
    pub const fn uses_memory(&self) -> bool {
        self.is_in(Group::Copy)
    }

    /// Returns the argument that names memory which a call frees, from a pool or not.
    pub const fn freed_memory_argument(&self) -> Option<usize> {
        find!(self, Effect::Ends(End { object: Object::Pointer, by, .. }) => by)
    }

    /// Returns true if a call writes to device memory, and its arguments or structures name the bytes.
    pub(super) const fn writes_memory(&self) -> bool {
        match self.effects() {
            [Effect::Uses(used)] => {
                let is_filled = used.size.is_none() || used.element.is_some();
                is_filled || matches!(used.others, OtherArgs::FromHost(_))
            }
            effects => matches!(effects, [Effect::Copies(_) | Effect::UsesEach(_) | Effect::Replays(_)]),
        }
    }

    /// Returns true if a call reads, writes, frees, or unmaps bytes that its arguments or structures name.
    pub(super) const fn needs_order(&self) -> bool {
        let reads = matches!(self.effects(), [Effect::Uses(Used { others: OtherArgs::ToHost(_), .. })]);
        let unmaps = find!(self, Effect::Ends(End { object: Object::Mapping, .. }) => ());
        self.writes_memory() || reads || self.freed_memory_argument().is_some() || unmaps.is_some()
    }

    /// Returns true if a call takes an address of device memory that must exist, to use or free it.
    pub const fn uses_or_frees(&self) -> bool {
        self.uses_memory() || self.freed_memory_argument().is_some()
    }

    /// Returns true if a call copies between any two addresses, including host memory.
    pub const fn takes_any_address(&self) -> bool {
        matches!(self.effects(), [Effect::Copies(Copied { sides: AddressSpace::Anything, .. })])
    }

    /// Returns the context that a call creates: the arguments that name the context and its device.
    pub const fn created_context(&self) -> Option<(usize, usize)> {
        match *self.effects() {
            [Effect::Makes(Made { object: Object::Context, by, of: Some(device), .. })] => Some((by, device)),
            _ => None,
        }
    }

    /// Returns the only range of device memory that a call uses: the arguments with its start and its number
    /// of elements, and the size of an element in bytes. `None` for calls that use rows, or do more.
    pub const fn only_used_range(&self) -> Option<(usize, usize, u64)> {
        match *self.effects() {
            [Effect::Uses(Used { others: OtherArgs::Rows(..), .. })] => None,
            [Effect::Uses(Used { by, size: Some(size), element, .. })] => Some((by, size, self.element_size(element))),
            _ => None,
        }
    }

    /// Returns the size in bytes of the element that an argument holds; 1 if there is no such argument.
    pub const fn element_size(&self, element: Option<usize>) -> u64 {
        match element {
            Some(element) => self.args()[element].value_size() as u64,
            None => 1,
        }
    }

    /// Returns the copy that is the only effect of a call, if its devices follow from the addresses.
    pub const fn only_copied_range(&self) -> Option<Copied> {
        match *self.effects() {
            [Effect::Copies(copied)] if !matches!(copied.sides, AddressSpace::Peers) => Some(copied),
            _ => None,
        }
    }

    /// Returns the ranges of device memory that a call reads or writes, if it does nothing else: the arguments with
    /// the start of each range and its number of elements, the size of an element in bytes, and true if the range is
    /// written.
    pub const fn touched_ranges(&self) -> [Option<(usize, usize, u64, bool)>; 2] {
        if let Some(Copied { to, from, size, .. }) = self.only_copied_range() {
            return [Some((to, size, 1, true)), Some((from, size, 1, false))];
        }
        let Some((by, size, bytes)) = self.only_used_range() else { return [None; 2] };
        match *self.effects() {
            [Effect::Uses(Used { others: OtherArgs::ToHost(_), .. })] => [Some((by, size, bytes, false)), None],
            [Effect::Uses(Used { others: OtherArgs::FromHost(_), .. } | Used { element: Some(_), .. })] => {
                [Some((by, size, bytes, true)), None]
            }
            _ => [None; 2],
        }
    }

    /// Returns true if the addresses show at once that most calls are irrelevant: calls that use memory, or launch.
    pub const fn can_skip_most_calls(&self) -> bool {
        matches!(*self.effects(), [Effect::Launches(_) | Effect::Uses(_) | Effect::UsesEach(_)])
            || self.only_copied_range().is_some()
    }

    /// Returns true if a call creates, changes, or launches a graph, whose nodes may use memory.
    pub(super) const fn uses_nodes(&self) -> bool {
        matches!(self.effects(), [Effect::Replays(_) | Effect::Instantiates(..) | Effect::Alters(_)])
    }

    pub(super) const fn uses_memory_or_nodes(&self) -> bool {
        self.uses_memory() || self.uses_nodes()
    }

    pub(super) const fn launches_or_uses_nodes(&self) -> bool {
        self.is_in(Group::Launch) || self.uses_nodes()
    }

    /// Returns the argument that names the graph whose nodes a call launches, creates, or changes.
    pub fn graph_argument(&self) -> Option<usize> {
        self.find_effect(|effect| match effect {
            Effect::Replays(exec) | Effect::Instantiates(exec, _) | Effect::Alters(Altered { exec, .. }) => Some(exec),
            _ => None,
        })
    }

    /// Returns true if a success changes the nodes of an executable graph, or ends it.
    pub const fn changes_graphs(&self) -> bool {
        let ends = find!(self, Effect::Ends(End { object, .. }) if object.is_context() => ());
        ends.is_some()
            || find!(self, Effect::Instantiates(..) | Effect::Alters(_) | Effect::Discards(_) => ()).is_some()
    }

    /// Returns true if a success finds kernels, or ends some by unloading them or destroying their context.
    pub const fn changes_kernels(&self) -> bool {
        let ends = find!(self, Effect::Ends(End { object, .. }) if object.is_context() => ());
        ends.is_some() || find!(self, Effect::Finds(_) | Effect::Unloads(..) => ()).is_some()
    }

    /// Returns the result of a call that only finds the function of a `CUkernel`. Such a function has the
    /// kernel's parameters in all contexts, so a known one need not be noted again.
    pub const fn found_kernel_function(&self) -> Option<LookedUp> {
        match *self.effects() {
            [Effect::Finds(found @ LookedUp { room: None, .. })]
                if self.args()[found.of].arg_type().ends_with("CUkernel") =>
            {
                Some(found)
            }
            _ => None,
        }
    }

    /// Returns true if a success changes the place of memory: it maps, opens, closes, or frees memory, or
    /// ends a context.
    pub const fn moves_memory(&self) -> bool {
        find!(self, Effect::Ends(_) | Effect::Closes(_) | Effect::Opens(_) | Effect::Makes(_) => ()).is_some()
    }

    /// Returns true if a success releases one reference to a context. Only the last release changes anything.
    pub const fn releases_context(&self) -> bool {
        find!(self, Effect::Ends(End { object, is_counted: true, .. }) if object.is_context() => ()).is_some()
    }

    /// Returns true if a call only submits or prepares device work: a copy, a memset, a launch, a graph, an
    /// event, a wait. Programs make these calls all the time.
    pub const fn is_device_work(&self) -> bool {
        self.uses_memory()
            || self.is_in(Group::Launch)
            || self.is_in(Group::Graph)
            || self.is_in(Group::Event)
            || self.is_in(Group::Order)
    }

    /// Returns the query about devices that a call makes.
    pub fn device_query(&self) -> Option<Query> {
        self.find_effect(|effect| match effect {
            Effect::Asks(query) if !query.subject.is_own() => Some(query),
            _ => None,
        })
    }

    fn find_effect<T>(&self, chosen: impl Fn(Effect) -> Option<T>) -> Option<T> {
        self.effects().iter().copied().find_map(chosen)
    }

    /// Returns the argument with the size in bytes of the call's object: of a creation, an end, a copy, or a grant of
    /// access.
    pub fn size_argument(&self) -> Option<usize> {
        self.find_effect(|effect| match effect {
            Effect::Makes(Made { size, .. }) | Effect::Ends(End { size, .. }) => size,
            Effect::Grants(Grant { size, .. }) => size,
            Effect::Binds(Bound { size, .. }) | Effect::Unbinds(Unbound { size, .. }) => Some(size),
            Effect::Copies(Copied { size, .. }) => Some(size),
            Effect::Uses(Used { others: OtherArgs::Rows(..), .. }) => None,
            Effect::Uses(Used { size, element: None, .. }) => size,
            _ => None,
        })
    }

    /// Returns the function that undoes a successful creation, opening, enabling, or retain, in its newest form, and which
    /// arguments of this function to pass to it: the object's name and, if both take one, the size. `None` if nothing undoes it.
    pub fn undone_by(&self) -> Option<(FnId, UndoArgs)> {
        let newest = |undoes: &dyn Fn(&FnSpec) -> bool| {
            FnId::find_newest(|other| other.library == self.library && undoes(other))
        };
        if let Some(Shared { object, by, .. }) = self.opens() {
            let closes = |other: &FnSpec| other.closes().is_some_and(|closed| closed.object == object);
            let inverse = newest(&|other| closes(other) && other.args().len() == 1)?;
            return Some((inverse, UndoArgs { by, size: None }));
        }
        if let Some(Named { object, by }) = self.enables() {
            let inverse = newest(&|other| other.disables().is_some_and(|access| access.object == object))?;
            return Some((inverse, UndoArgs { by, size: None }));
        }
        let (object, by, size) = match (self.makes(), self.retains()) {
            (Some(Made { object, by, size, .. }), _) => (object, by, size),
            (None, Some(Named { object, by })) if object != Object::Primary => (object, by, None),
            _ => return None,
        };
        let takes = |end: End| if end.size.is_some() { size.map_or(0, |_| 2) } else { 1 };
        let ends = |other: &FnSpec| {
            other.find_effect(|effect| match effect {
                Effect::Ends(end) if end.object == object => Some(end),
                _ => None,
            })
        };
        // A 32-bit address needs the form of the function that takes one.
        let is_as_wide = |other: &FnSpec, end: End| {
            object != Object::Memory || other.args()[end.by].stored_size() == self.args()[by].stored_size()
        };
        let takes_it = |other: &FnSpec, end| takes(end) == other.args().len() && is_as_wide(other, end);
        let inverse = newest(&|other| ends(other).is_some_and(|end| takes_it(other, end)))?;
        let is_sized = ends(inverse.spec()).is_some_and(|end| end.size.is_some());
        Some((inverse, UndoArgs { by, size: size.filter(|_| is_sized) }))
    }

    /// Returns the numbers of the documented results of the function, success first.
    pub fn documented_results(&self) -> impl Iterator<Item = i32> + use<> {
        self.results().iter().copied()
    }

    /// Returns the numbers of failures: first those that are documented, then those that were seen. A fault plan
    /// accepts these.
    pub fn failures(&self) -> impl Iterator<Item = i32> + use<> {
        self.results().iter().chain(self.undocumented_results()).copied().filter(|code| *code != 0)
    }

    /// Returns true if real drivers returned this result, which is undocumented for the function.
    pub fn is_undocumented_result(&self, result: i32) -> bool {
        self.undocumented_results().contains(&result)
    }

    /// Returns true if this result means that the driver had shut down before the call, and thereby ended the
    /// object that the call would end. The CUDA runtime releases primary contexts that late in every process
    /// that exits, so this is no failure.
    pub fn is_after_shutdown(&self, result: i32) -> bool {
        self.is_release() && self.library == Library::Cuda && result == Result::DEINITIALIZED as i32
    }

    /// Returns true if a success takes part in sharing: it exports, opens, or enables.
    pub const fn shares(&self) -> bool {
        self.is_in(Group::Export) || self.is_in(Group::Open) || self.is_in(Group::Enable)
    }

    /// Returns true if even a successful call is recorded with its return addresses.
    pub const fn records_stack_on_success(&self) -> bool {
        let is_memory = self.is_in(Group::Alloc) || self.is_virtual_memory_call() || self.is_pool_call();
        let changes = is_memory || self.is_release() || self.shares() || self.created_context().is_some();
        changes && !self.releases_context()
    }

    /// Returns true if a call changes the state of the process, or copies, or belongs to the runtime. If such
    /// a call is recorded, more is checked before and after it.
    pub const fn is_tracked(&self) -> bool {
        self.shares()
            || self.is_release()
            || self.is_virtual_memory_call()
            || self.is_in(Group::Pool)
            || self.is_in(Group::Alloc)
            || self.is_device_work()
            || self.is_in(Group::Runtime)
    }

    /// Returns true if calls can be so short or frequent that the cost of recording matters. Calls that map,
    /// share, copy, or create driver objects take microseconds, and so do those that find or end kernels.
    pub const fn is_quick(&self) -> bool {
        let is_long = self.shares()
            || self.is_virtual_memory_call()
            || self.is_pool_call()
            || self.is_in(Group::Alloc)
            || self.is_device_work()
            || self.changes_kernels()
            || self.changes_graphs()
            || self.created_context().is_some();
        matches!(self.library, Library::Cuda) && !is_long && !self.is_in(Group::Init)
    }

    /// Returns true if programs often call the function without an effect: a lookup, or a query about a
    /// device.
    pub const fn is_frequent(&self) -> bool {
        self.is_in(Group::Lookup) || self.is_in(Group::Query)
    }

    /// Returns true if calls are so frequent that they are recorded only on request.
    pub const fn is_recorded_on_request(&self) -> bool {
        self.is_frequent() || self.is_in(Group::Alloc)
    }

    /// Returns true if the function is about a pool, and does not only allocate from one. Such calls are few,
    /// and all are recorded.
    pub const fn is_pool_call(&self) -> bool {
        self.is_in(Group::Pool) && !self.is_in(Group::Alloc)
    }

    /// Returns true if a success changes the pools of a process.
    pub fn changes_pools(&self) -> bool {
        let gives_up = |effect: &Effect| matches!(effect, Effect::Closes(closed) if closed.object == Object::Pointer);
        self.is_pool_call() || self.effects().iter().any(gives_up)
    }

    /// Returns true if the function ends objects that programs end often and seldom share. A call is recorded
    /// only if its object is shared.
    pub const fn ends_often(&self) -> bool {
        self.is_in(Group::Lifetime) && !self.is_virtual_memory_call() && !self.is_pool_call()
    }

    /// Returns true if the function is about virtual memory. Such calls are few and slow, and all are
    /// recorded.
    pub const fn is_virtual_memory_call(&self) -> bool {
        self.is_in(Group::Vmm)
    }

    /// Returns true if a success releases something: it closes, disables, or ends it.
    pub const fn is_release(&self) -> bool {
        self.is_in(Group::Release) || self.is_in(Group::Lifetime)
    }

    /// Returns true if a fault plan may change its calls. For runtime functions, the plan changes the
    /// driver's results instead.
    pub const fn is_alterable(&self) -> bool {
        !self.is_in(Group::Runtime)
    }

    /// Returns the entry of a result in its library.
    pub fn result(&self, number: i32) -> Option<&'static ResultSpec> {
        self.library.result(number)
    }

    /// Returns the name of a result in the header of the function's library.
    pub fn result_name(&self, number: i32) -> Option<&'static str> {
        self.result(number).map(ResultSpec::name)
    }

    /// Returns the number of a result of the function's library, as people type it: a number, or a name with or
    /// without its prefix.
    pub fn parse_result(&self, text: &str) -> Option<i32> {
        self.library.parse_result(text).map(|spec| spec.number)
    }

    /// Returns the argument of this name, in upper or lower case, and its index.
    pub fn find_argument(&self, name: &str) -> Option<(usize, &'static ArgSpec)> {
        self.args().iter().enumerate().find(|(_, arg)| arg.name().eq_ignore_ascii_case(name))
    }

    /// Returns the range of an argument in the argument bytes of a call's slot; empty for an array or a text.
    pub fn argument_byte_range(&self, argument: usize) -> Range<usize> {
        let sizes = |arguments: &[ArgSpec]| arguments.iter().map(|arg| arg.stored_size()).sum();
        let at: usize = sizes(&self.args()[..argument.min(self.args().len())]);
        at..at + self.args().get(argument).map_or(0, |arg| arg.stored_size())
    }

    /// Returns a mask of the argument bytes in a recording that belong to device addresses, of which a
    /// program has many different ones. The lowest bit is the first byte.
    pub const fn address_byte_mask(&self) -> u64 {
        let (mut bytes, mut at, mut index) = (0, 0, 0);
        while index < self.args().len() {
            let arg = &self.args()[index];
            let mut byte = 0;
            while byte < arg.stored_size() {
                if matches!(arg.direction, Direction::In) && arg.arg_type().ends_with("CUdeviceptr") && at < 64 {
                    bytes |= 1 << at;
                }
                (byte, at) = (byte + 1, at + 1);
            }
            index += 1;
        }
        bytes
    }

    /// Returns the number of bytes that the arguments have in a recording.
    pub const fn stored_args_size(&self) -> usize {
        let (mut bytes, mut index) = (0, 0);
        while index < self.args().len() {
            bytes += self.args()[index].stored_size();
            index += 1;
        }
        bytes
    }

    /// Returns true if the arguments together do not fit in the slot of a call.
    pub const fn overflows_slot(&self) -> bool {
        self.stored_args_size() > crate::record::slot::ARGS
    }
}

impl Object {
    /// Returns the words for the kinds of objects that can be exported.
    pub fn exportable_words() -> Vec<&'static str> {
        let exports = |object: &Object| {
            let is_of = |shared: Shared| shared.object == *object;
            FUNCTIONS.iter().any(|function| function.exports().is_some_and(is_of))
        };
        Object::ALL.into_iter().filter(exports).map(Object::word).collect()
    }
}
