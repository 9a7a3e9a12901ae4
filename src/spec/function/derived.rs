//! What follows from an entry of the table: from its effects, its groups, and its arguments.

use super::{DOCS, FUNCTIONS, FnId, FnSpec, Given, look_up_name};
use crate::argument::{ArgSpec, Direction};
use crate::effect::{
    Altered, Batch, Beside, Bound, Copied, Demand, Effect, End, Followed, Gathered, Grant, HostCall, Joined,
    Launched, LookedUp, Made, Named, Object, Posted, Question, Shared, Sides, Signal, Subject, Unbound, Used,
    Work,
};
use crate::group::{Group, Library};
use crate::results::{Result, ResultSpec};
use core::ops::Range;

/// Declares what answers with the first effect of a kind.
macro_rules! first_effects {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ident -> $has:ty;)*) => {
        impl FnSpec {$(
            $(#[doc = $doc])+
            pub fn $name(&self) -> Option<$has> {
                self.effect(|effect| if let Effect::$kind(found, ..) = effect { Some(found) } else { None })
            }
        )*}
    };
}
first_effects! {
    /// What a success makes a handle of.
    exports: Exports -> Shared;
    /// What a success opens by a handle.
    opens: Opens -> Shared;
    /// What was opened, and a success gives up.
    closes: Closes -> Named;
    /// The access that a success switches on.
    enables: Enables -> Named;
    /// The access that a success switches off.
    disables: Disables -> Named;
    /// What of the process's own a success ends.
    ends: Ends -> End;
    /// What of the process's own a success makes.
    makes: Makes -> Made;
    /// The access that a success sets.
    grants: Grants -> Grant;
    /// The multicast object that a success makes.
    gathers: Gathers -> Gathered;
    /// The device that a success adds to a multicast object.
    joins: Joins -> Joined;
    /// The memory that a success binds to a multicast object.
    binds: Binds -> Bound;
    /// The memory that a success unbinds from a multicast object.
    unbinds: Unbinds -> Unbound;
    /// What is copied.
    copies: Copies -> Copied;
    /// What a success takes one reference more to.
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
    /// The argument that names the graph that a call launches.
    replays: Replays -> usize;
    /// The output that holds a function pointer after a success.
    hands_out: LooksUp -> usize;
}

impl FnSpec {
    /// One sentence: what it does.
    pub fn doc(&self) -> String {
        let own = if self.is_per_thread() { " The default stream is the thread's own." } else { "" };
        let form = |f: &FnSpec| (f.lookup(), f.is_per_thread());
        let later =
            FUNCTIONS.iter().filter(|f| form(f) == form(self) && f.since > self.since).map(|f| f.since);
        let before = later.min().filter(|_| !self.lookup().is_empty());
        let before = before.map(|since| format!(" Used before CUDA {}.{}.", since / 1000, since % 1000 / 10));
        format!("{}{own}{}", DOCS[self.id as usize], before.unwrap_or_default())
    }

    /// The name that `cuGetProcAddress` is asked for; empty for a function that is not the driver's.
    pub fn lookup(&self) -> &'static str {
        look_up_name(self.name(), self.since)
    }

    /// Whether the function belongs to a group.
    pub const fn is_in(&self, group: Group) -> bool {
        self.groups.has(group)
    }

    /// Its groups.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        Group::names().map(|(group, _)| group).filter(|group| self.is_in(*group))
    }

    /// The argument that must have one value, where what is opened or switched on needs that.
    pub fn demands(&self) -> Option<Demand> {
        self.effect(|effect| match effect {
            Effect::Opens(Shared { demand, .. }) | Effect::Enables(_, demand) => demand,
            _ => None,
        })
    }

    /// The context, or primary context, that a success ends.
    pub fn ends_context(&self) -> Option<End> {
        self.ends().filter(|end| end.object.is_context())
    }

    /// The argument with the properties of an allocation, or of a pool: of one to be made, or of any that is asked about.
    pub fn describes(&self) -> Option<usize> {
        self.effect(|effect| match effect {
            Effect::Makes(Made { object: Object::Allocation | Object::Pool, of, .. }) => of,
            Effect::Asks(Question { subject: Subject::Memory, device, choice: Some(_), .. }) => Some(device),
            _ => None,
        })
    }

    /// The range of addresses that a call makes, ends, or gives access to: the arguments that say where it begins, and its size.
    pub fn range(&self) -> Option<(usize, usize)> {
        self.effect(|effect| match effect {
            Effect::Makes(Made { by, size, .. })
            | Effect::Ends(End { by, size, .. })
            | Effect::Grants(Grant { by, size, .. }) => Some((by, size?)),
            _ => None,
        })
    }

    /// The handle of an allocation that a call maps, exports, or releases: the argument that names it.
    pub fn allocation_handle(&self) -> Option<usize> {
        self.effect(|effect| match effect {
            Effect::Exports(Shared { object: Object::Allocation, by, .. })
            | Effect::Ends(End { object: Object::Allocation, by, .. }) => Some(by),
            Effect::Makes(Made { object: Object::Mapping, of, .. }) => of,
            _ => None,
        })
    }

    /// The kind of a shareable handle that a call makes or opens: the argument that says it.
    pub fn handle_kind(&self) -> Option<usize> {
        self.args()[self.exports().or(self.opens())?.handle].kind()
    }

    /// The array that goes in: its argument, and the one that says how many elements it has.
    pub fn array(&self) -> Option<(usize, usize)> {
        let mut args = self.args().iter().enumerate();
        args.find_map(|(index, arg)| Some((index, arg.count().filter(|_| arg.direction == Direction::In)?)))
    }

    /// Whether a call reads or writes device memory, and does nothing else.
    pub const fn uses_memory(&self) -> bool {
        self.is_in(Group::Copy)
    }

    /// The argument that names memory which a call frees, of a pool or not.
    pub const fn frees(&self) -> Option<usize> {
        let mut index = 0;
        while index < self.effects().len() {
            if let Effect::Ends(End { object: Object::Pointer, by, .. }) = self.effects()[index] {
                return Some(by);
            }
            index += 1;
        }
        None
    }

    /// Whether a call takes an address of device memory that must be there: uses the memory, or frees it.
    pub const fn uses_or_frees(&self) -> bool {
        self.uses_memory() || self.frees().is_some()
    }

    /// Whether a call copies between any two addresses, also of the host.
    pub const fn takes_any_address(&self) -> bool {
        matches!(self.effects(), [Effect::Copies(Copied { sides: Sides::Anything, .. })])
    }

    /// The context that a call creates: the arguments that name it and its device.
    pub const fn creates_context(&self) -> Option<(usize, usize)> {
        match *self.effects() {
            [Effect::Makes(Made { object: Object::Context, by, of: Some(device), .. })] => Some((by, device)),
            _ => None,
        }
    }

    /// The one range of device memory that a call uses: the arguments that say where it begins, and of how many elements, and the
    /// bytes of an element. `None` for calls that use rows, or do more.
    pub const fn uses_one_range(&self) -> Option<(usize, usize, u64)> {
        match *self.effects() {
            [Effect::Uses(Used { beside: Beside::Rows(..), .. })] => None,
            [Effect::Uses(Used { by, size: Some(size), element, .. })] => {
                Some((by, size, self.element_size(element)))
            }
            _ => None,
        }
    }

    /// The bytes of the element that an argument holds; a byte where there is none.
    pub const fn element_size(&self, element: Option<usize>) -> u64 {
        match element {
            Some(element) => self.args()[element].size() as u64,
            None => 1,
        }
    }

    /// The copy that is all that a call does, where its devices show in the addresses alone.
    pub const fn copies_one_range(&self) -> Option<Copied> {
        match *self.effects() {
            [Effect::Copies(copied)] if !matches!(copied.sides, Sides::Peers) => Some(copied),
            _ => None,
        }
    }

    /// The ranges of device memory that a call reads or writes and nothing else: the arguments that say where each begins and how
    /// many elements it has, the bytes of an element, and whether it is written.
    pub const fn touches(&self) -> [Option<(usize, usize, u64, bool)>; 2] {
        if let Some(Copied { to, from, size, .. }) = self.copies_one_range() {
            return [Some((to, size, 1, true)), Some((from, size, 1, false))];
        }
        let Some((by, size, bytes)) = self.uses_one_range() else { return [None; 2] };
        match *self.effects() {
            [Effect::Uses(Used { beside: Beside::ToHost(_), .. })] => [Some((by, size, bytes, false)), None],
            [Effect::Uses(Used { beside: Beside::FromHost(_), .. } | Used { element: Some(_), .. })] => {
                [Some((by, size, bytes, true)), None]
            }
            _ => [None; 2],
        }
    }

    /// Whether a call fills memory with an element.
    pub const fn fills(&self) -> bool {
        matches!(self.effects(), [Effect::Uses(Used { element: Some(_), .. })])
    }

    /// Whether most calls do not matter, which their addresses show at once: those that use one range or two, or launch.
    pub const fn may_go_straight_on(&self) -> bool {
        let launches = matches!(*self.effects(), [Effect::Launches(_)]);
        launches || self.uses_one_range().is_some() || self.copies_one_range().is_some()
    }

    /// Whether a call makes, changes, or launches a graph, and does this with nodes of graphs that use memory.
    pub(super) const fn uses_nodes(&self) -> bool {
        matches!(self.effects(), [Effect::Replays(_) | Effect::Instantiates(..) | Effect::Alters(_)])
    }

    pub(super) const fn uses_memory_or_nodes(&self) -> bool {
        self.uses_memory() || self.uses_nodes()
    }

    pub(super) const fn launches_or_uses_nodes(&self) -> bool {
        self.is_in(Group::Launch) || self.uses_nodes()
    }

    /// The kernel that a call launches.
    pub const fn launches(&self) -> Option<Launched> {
        let mut index = 0;
        while index < self.effects().len() {
            if let Effect::Launches(launched) = self.effects()[index] {
                return Some(launched);
            }
            index += 1;
        }
        None
    }

    /// The argument that names the graph whose nodes a call launches, makes, or changes.
    pub fn uses_graph(&self) -> Option<usize> {
        self.effect(|effect| match effect {
            Effect::Replays(exec) | Effect::Instantiates(exec, _) | Effect::Alters(Altered { exec, .. }) => {
                Some(exec)
            }
            _ => None,
        })
    }

    /// Whether a success changes what nodes a graph has that can be launched, or ends it.
    pub const fn changes_graphs(&self) -> bool {
        let mut index = 0;
        while index < self.effects().len() {
            match self.effects()[index] {
                Effect::Instantiates(..) | Effect::Alters(_) | Effect::Discards(_) => return true,
                Effect::Ends(End { object, .. }) if object.is_context() => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a success finds kernels, or ends some: unloads them, or ends their context.
    pub const fn changes_kernels(&self) -> bool {
        let mut index = 0;
        while index < self.effects().len() {
            match self.effects()[index] {
                Effect::Finds(_) | Effect::Unloads(..) => return true,
                Effect::Ends(End { object, .. }) if object.is_context() => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// What a call finds, if it only finds the function of a `CUkernel`. The functions of a kernel have its parameters in all contexts:
    /// a function that is known already need not be noted again.
    pub const fn finds_of_kernel(&self) -> Option<LookedUp> {
        match *self.effects() {
            [Effect::Finds(found @ LookedUp { room: None, .. })]
                if self.args()[found.of].of().ends_with("CUkernel") =>
            {
                Some(found)
            }
            _ => None,
        }
    }

    /// Whether a success changes where memory is: it maps, opens, closes, or frees some, or ends a context.
    pub const fn moves_memory(&self) -> bool {
        let mut index = 0;
        while index < self.effects().len() {
            match self.effects()[index] {
                Effect::Ends(_) | Effect::Closes(_) | Effect::Opens(_) | Effect::Makes(_) => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a success gives up one reference to a context. Only the last one changes anything.
    pub const fn releases_context(&self) -> bool {
        let mut index = 0;
        while index < self.effects().len() {
            match self.effects()[index] {
                Effect::Ends(End { object, is_counted: true, .. }) if object.is_context() => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a call gives a device work to do, or prepares it, and does nothing else: a copy, a memset, a launch, a graph, an
    /// event, a wait. Programs make these all the time.
    pub const fn is_work(&self) -> bool {
        self.uses_memory()
            || self.is_in(Group::Launch)
            || self.is_in(Group::Graph)
            || self.is_in(Group::Event)
            || self.is_in(Group::Order)
    }

    /// What is asked about devices.
    pub fn asks(&self) -> Option<Question> {
        self.effect(|effect| match effect {
            Effect::Asks(question) if !question.subject.is_own() => Some(question),
            _ => None,
        })
    }

    fn effect<T>(&self, chosen: impl Fn(Effect) -> Option<T>) -> Option<T> {
        self.effects().iter().copied().find_map(chosen)
    }

    /// The argument that says of how many bytes a call is: what it makes, ends, copies or gives access to.
    pub fn sized_by(&self) -> Option<usize> {
        self.effect(|effect| match effect {
            Effect::Makes(Made { size, .. }) | Effect::Ends(End { size, .. }) => size,
            Effect::Grants(Grant { size, .. }) => size,
            Effect::Binds(Bound { size, .. }) | Effect::Unbinds(Unbound { size, .. }) => Some(size),
            Effect::Copies(Copied { size, .. }) => Some(size),
            Effect::Uses(Used { beside: Beside::Rows(..), .. }) => None,
            Effect::Uses(Used { size, element: None, .. }) => size,
            _ => None,
        })
    }

    /// The function that undoes what a success did, in its newest form, and what it is given: the name, or where something
    /// of a size was made, the name and the size.
    pub fn undone_by(&self) -> Option<(FnId, Given)> {
        let newest = |undoes: &dyn Fn(&FnSpec) -> bool| {
            FnId::newest(|other| other.library == self.library && undoes(other))
        };
        if let Some(Shared { object, by, .. }) = self.opens() {
            let closes = |other: &FnSpec| other.closes().is_some_and(|closed| closed.object == object);
            let inverse = newest(&|other| closes(other) && other.args().len() == 1)?;
            return Some((inverse, Given { by, size: None }));
        }
        if let Some(Named { object, by }) = self.enables() {
            let inverse = newest(&|other| other.disables().is_some_and(|access| access.object == object))?;
            return Some((inverse, Given { by, size: None }));
        }
        let (object, by, size) = match (self.makes(), self.retains()) {
            (Some(Made { object, by, size, .. }), _) => (object, by, size),
            (None, Some(Named { object, by })) if object != Object::Primary => (object, by, None),
            _ => return None,
        };
        let takes = |end: End| if end.size.is_some() { size.map_or(0, |_| 2) } else { 1 };
        let ends = |other: &FnSpec| {
            other.effect(|effect| match effect {
                Effect::Ends(end) if end.object == object => Some(end),
                _ => None,
            })
        };
        // An address of 32 bits goes to the form that takes one.
        let is_as_wide = |other: &FnSpec, end: End| {
            object != Object::Memory || other.args()[end.by].stored() == self.args()[by].stored()
        };
        let takes_it = |other: &FnSpec, end| takes(end) == other.args().len() && is_as_wide(other, end);
        let inverse = newest(&|other| ends(other).is_some_and(|end| takes_it(other, end)))?;
        let is_sized = ends(inverse.spec()).is_some_and(|end| end.size.is_some());
        Some((inverse, Given { by, size: size.filter(|_| is_sized) }))
    }

    /// The numbers of its documented results, success first.
    pub fn documented(&self) -> impl Iterator<Item = i32> + use<> {
        self.results().iter().copied()
    }

    /// The numbers of the results with which it fails: the documented ones, then those that were seen. A fault plan takes these.
    pub fn failures(&self) -> impl Iterator<Item = i32> + use<> {
        self.results().iter().chain(self.seen()).copied().filter(|code| *code != 0)
    }

    /// Whether real drivers were seen to return a result that is not documented for it.
    pub fn is_only_seen(&self, result: i32) -> bool {
        self.seen().contains(&result)
    }

    /// Whether a call with this result had nothing left to do: the driver has shut down, and so ended by itself what the
    /// function ends or gives back. The CUDA runtime releases primary contexts that late in every process that exits,
    /// so this is no failure.
    pub fn is_over(&self, result: i32) -> bool {
        self.gives_back() && self.library == Library::Cuda && result == Result::DEINITIALIZED as i32
    }

    /// Whether a success takes part in sharing: exports, opens, or enables.
    pub const fn shares(&self) -> bool {
        self.is_in(Group::Export) || self.is_in(Group::Open) || self.is_in(Group::Enable)
    }

    /// Whether a call carries return addresses even where it succeeds.
    pub const fn carries_frames(&self) -> bool {
        let is_memory = self.is_in(Group::Alloc) || self.is_virtual() || self.is_of_pools();
        let changes = is_memory || self.gives_back() || self.shares() || self.creates_context().is_some();
        changes && !self.releases_context()
    }

    /// Whether a call changes what the process has, or copies, or is one of the runtime's, which do: where it is recorded, it
    /// is looked at more closely, before and after it.
    pub const fn is_weighty(&self) -> bool {
        self.shares()
            || self.gives_back()
            || self.is_virtual()
            || self.is_in(Group::Pool)
            || self.is_in(Group::Alloc)
            || self.is_work()
            || self.is_in(Group::Runtime)
    }

    /// Whether calls of it may be so short or frequent that it matters what recording adds to them. A call that maps, shares
    /// or makes something in the driver takes microseconds, and so does a copy, and what finds or ends kernels.
    pub const fn is_quick(&self) -> bool {
        let is_long = self.shares()
            || self.is_virtual()
            || self.is_of_pools()
            || self.is_in(Group::Alloc)
            || self.is_work()
            || self.changes_kernels()
            || self.changes_graphs()
            || self.creates_context().is_some();
        matches!(self.library, Library::Cuda) && !is_long && !self.is_in(Group::Init)
    }

    /// Whether programs call it all the time, and nothing comes of it: a look-up, a question about a device.
    pub const fn is_frequent(&self) -> bool {
        self.is_in(Group::Lookup) || self.is_in(Group::Query)
    }

    /// Whether programs call it so often that it is recorded only where somebody asks for it.
    pub const fn is_plentiful(&self) -> bool {
        self.is_frequent() || self.is_in(Group::Alloc)
    }

    /// Whether it is about pools, and not only takes memory from one: such calls are few, and all of them are recorded.
    pub const fn is_of_pools(&self) -> bool {
        self.is_in(Group::Pool) && !self.is_in(Group::Alloc)
    }

    /// Whether a success changes what a process has of pools.
    pub fn changes_pools(&self) -> bool {
        let gives_up =
            |effect: &Effect| matches!(effect, Effect::Closes(closed) if closed.object == Object::Pointer);
        self.is_of_pools() || self.effects().iter().any(gives_up)
    }

    /// Whether it ends what programs end all the time, and seldom share: it is recorded only where that is shared.
    pub const fn ends_often(&self) -> bool {
        self.is_in(Group::Lifetime) && !self.is_virtual() && !self.is_of_pools()
    }

    /// Whether it is about virtual memory: such calls are few and slow, and all of them are recorded.
    pub const fn is_virtual(&self) -> bool {
        self.is_in(Group::Vmm)
    }

    /// Whether a success gives something back: closes, disables or ends it.
    pub const fn gives_back(&self) -> bool {
        self.is_in(Group::Release) || self.is_in(Group::Lifetime)
    }

    /// Whether a plan of faults may alter its calls. Of the runtime's own, what they get from the driver is altered.
    pub const fn is_alterable(&self) -> bool {
        !self.is_in(Group::Runtime)
    }

    /// What its library says of a result.
    pub fn result(&self, number: i32) -> Option<&'static ResultSpec> {
        self.library.result(number)
    }

    /// The name of a result in its library's header.
    pub fn result_name(&self, number: i32) -> Option<&'static str> {
        self.result(number).map(ResultSpec::name)
    }

    /// The number of a result of its library, as people type it: a number, or a name with or without its prefix.
    pub fn parse_result(&self, text: &str) -> Option<i32> {
        self.library.parse_result(text).map(|spec| spec.number)
    }

    /// The argument of this name, in whatever case, and its index.
    pub fn argument(&self, name: &str) -> Option<(usize, &'static ArgSpec)> {
        self.args().iter().enumerate().find(|(_, arg)| arg.name().eq_ignore_ascii_case(name))
    }

    /// Where an argument stands among the bytes of the arguments in the slot of a record; of an array or a text, no bytes.
    pub fn place(&self, argument: usize) -> Range<usize> {
        let sizes = |arguments: &[ArgSpec]| arguments.iter().map(|arg| arg.stored()).sum();
        let at: usize = sizes(&self.args()[..argument.min(self.args().len())]);
        at..at + self.args().get(argument).map_or(0, |arg| arg.stored())
    }

    /// Which bytes of those that the arguments have in a record are of addresses on a device, which programs pass in any
    /// number: a bit for each byte, the first one's the lowest.
    pub const fn addresses(&self) -> u64 {
        let (mut bytes, mut at, mut index) = (0, 0, 0);
        while index < self.args().len() {
            let arg = &self.args()[index];
            let mut byte = 0;
            while byte < arg.stored() {
                if matches!(arg.direction, Direction::In) && arg.of().ends_with("CUdeviceptr") && at < 64 {
                    bytes |= 1 << at;
                }
                (byte, at) = (byte + 1, at + 1);
            }
            index += 1;
        }
        bytes
    }

    /// How many bytes the arguments have in a record.
    pub const fn stored(&self) -> usize {
        let (mut bytes, mut index) = (0, 0);
        while index < self.args().len() {
            bytes += self.args()[index].stored();
            index += 1;
        }
        bytes
    }

    /// Whether those are more than a slot has room for.
    pub const fn is_wide(&self) -> bool {
        self.stored() > crate::record::slot::ARGS
    }
}

impl Object {
    /// The words for what can be exported.
    pub fn exported() -> Vec<&'static str> {
        let exports = |object: &Object| {
            let is_of = |shared: Shared| shared.object == *object;
            FUNCTIONS.iter().any(|function| function.exports().is_some_and(is_of))
        };
        Object::ALL.into_iter().filter(exports).map(Object::word).collect()
    }
}
