//! What the table says about a function, as data: derived from [`crate::functions`], for everything that
//! walks the table at run time.

use crate::argument;
pub use crate::argument::{ArgSpec, ArgType, Direction};
use crate::effect::{
    Altered, Batch, Bound, Code, Copied, Effect, End, Found, Grant, Groups, HostCopy, Joined, Launchable,
    Launched, Made, Named, NodeKind, Object, Question, Shared, Subject, Unbound, Used, effects,
};
use crate::results::{Result, ResultSpec};
use core::ops::Range;

/// The library in which a function really lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// The driver.
    Cuda,
    /// The management library.
    Nvml,
    /// The runtime.
    Cudart,
}

impl Library {
    /// The name by which programs load it.
    pub fn soname(self) -> &'static str {
        match self {
            Library::Cuda => "libcuda.so.1",
            Library::Nvml => "libnvidia-ml.so.1",
            Library::Cudart => "libcudart.so",
        }
    }

    /// Whether an object of this soname is it. The runtime's has a version, or what a packager has made of the name:
    /// `libcudart.so.12`, `libcudart-0b9d5b6d.so.12.4.127`.
    pub fn is_called(self, soname: &[u8]) -> bool {
        match self {
            Library::Cudart => soname
                .strip_prefix(b"libcudart")
                .is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-'))),
            _ => self.soname().as_bytes() == soname,
        }
    }

    /// The type of its results in C.
    pub fn result_type(self) -> &'static str {
        match self {
            Library::Cuda => "CUresult",
            Library::Nvml => "nvmlReturn_t",
            Library::Cudart => "cudaError_t",
        }
    }
}

/// A family of functions: `@peer` in a trace set. [`Group::ALL`] says what each is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Group {
    Peer,
    Ipc,
    IpcMem,
    IpcEvent,
    Lookup,
    Export,
    Open,
    Enable,
    Release,
    Lifetime,
    Query,
    /// Virtual memory management.
    Vmm,
    Pool,
    Alloc,
    /// Multicast objects, which are a part of it.
    Multicast,
    Copy,
    Launch,
    Graph,
    /// Records of CUDA events.
    Event,
    /// Functions of the runtime.
    Runtime,
    /// The initialization of the driver.
    Init,
}

impl Group {
    /// All groups, with the name that follows the `@`, and what is in them.
    pub const ALL: &'static [(Group, &'static str, &'static str)] = &[
        (Group::Peer, "peer", "peer access between devices"),
        (Group::Ipc, "ipc", "legacy IPC, memory and events"),
        (Group::IpcMem, "ipc-mem", "legacy IPC of memory"),
        (Group::IpcEvent, "ipc-event", "legacy IPC of events"),
        (Group::Lookup, "lookup", "look-ups of functions"),
        (Group::Export, "export", "calls that export memory or an event"),
        (Group::Open, "open", "calls that open what another process exported"),
        (Group::Enable, "enable", "calls that enable access"),
        (Group::Release, "release", "calls that close or disable"),
        (Group::Lifetime, "lifetime", "calls that end what others may still use: free, destroy, reset"),
        (Group::Vmm, "vmm", "virtual memory: allocations, mappings, access, and their sharing"),
        (Group::Pool, "pool", "memory pools: their sharing, their access, and allocations from them"),
        (Group::Alloc, "alloc", "allocations from pools, which programs make all the time"),
        (Group::Multicast, "multicast", "multicast objects: their devices, and the memory bound to them"),
        (
            Group::Copy,
            "copy",
            "copies and memsets, recorded where they go from one device to another, or use memory that is gone",
        ),
        (
            Group::Launch,
            "launch",
            "kernel launches, recorded where a parameter is the address of memory that is gone",
        ),
        (
            Group::Graph,
            "graph",
            "launches, instantiations, and updates of graphs, recorded where a node uses memory that is gone",
        ),
        (
            Group::Event,
            "event",
            "records of CUDA events, recorded where they fail on an event of another process",
        ),
        (Group::Runtime, "runtime", "the runtime's own functions, where it is a shared library"),
        (
            Group::Init,
            "init",
            "cuInit, recorded in a child that was forked after its parent initialized the driver",
        ),
        (
            Group::Query,
            "query",
            "queries that programs make all the time, and other calls without an effect on what is shared: device attributes, kernels, new contexts, NVML",
        ),
    ];

    /// The name that follows the `@`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(group, ..)| *group == self).map_or("", |(_, name, _)| name)
    }
}

/// How far the simulated driver's answers for a function are known to be a real driver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fidelity {
    /// Recorded on a real driver, and compared with the recording by the conformance cases.
    Recorded,
    /// As the documentation says; nobody compared.
    Documented,
    /// What we think a driver does where the documentation is silent.
    Inferred,
    /// Not done: answers CUDA_ERROR_NOT_SUPPORTED.
    Unsupported,
    /// Of a library that is not simulated.
    Absent,
}

impl Fidelity {
    /// The word of `cupeer list functions`.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Recorded => "recorded",
            Fidelity::Documented => "documented",
            Fidelity::Inferred => "inferred",
            Fidelity::Unsupported => "unsupported",
            Fidelity::Absent => "absent",
        }
    }
}

/// What the function that undoes a call is given: arguments of that call, by their indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// The one that names what the call has opened, enabled or made.
    pub by: usize,
    /// The one that says how large it is, where both are asked for.
    pub size: Option<usize>,
}

/// So many arguments a function has at most.
pub const MOST_ARGUMENTS: usize = 11;

/// One entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct FnSpec {
    /// The exported name.
    pub name: &'static str,
    /// Its number.
    pub id: FnId,
    /// Where it really lives.
    pub library: Library,
    /// The first version for which that finds it; 0 where there is none.
    pub since: u32,
    /// What a success does.
    pub effects: &'static [Effect],
    /// The groups that follow from that.
    groups: Groups,
    /// Its arguments in order.
    pub args: &'static [ArgSpec],
    /// Its documented results, as numbers of its library, success first.
    pub results: &'static [i32],
    /// Failures that its documentation does not list, and that real drivers were seen to return.
    pub seen: &'static [i32],
    /// How far the simulated driver is known to answer as a real one.
    pub simulated: Fidelity,
}

impl FnSpec {
    /// One sentence: what it does.
    pub fn doc(&self) -> &'static str {
        DOCS[self.id as usize]
    }

    /// The name that `cuGetProcAddress` is asked for; empty for a function that is not the driver's.
    pub fn lookup(&self) -> &'static str {
        look_up_name(self.name, self.since)
    }

    /// Whether the function belongs to a group.
    pub const fn is_in(&self, group: Group) -> bool {
        self.groups.has(group)
    }

    /// Its groups.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        Group::ALL.iter().map(|(group, ..)| *group).filter(|group| self.is_in(*group))
    }

    /// What a success makes a handle of.
    pub fn exports(&self) -> Option<Shared> {
        self.effect(|effect| if let Effect::Exports(shared) = effect { Some(shared) } else { None })
    }

    /// What a success opens by a handle.
    pub fn opens(&self) -> Option<Shared> {
        self.effect(|effect| if let Effect::Opens(shared) = effect { Some(shared) } else { None })
    }

    /// What was opened, and a success gives up.
    pub fn closes(&self) -> Option<Named> {
        self.effect(|effect| if let Effect::Closes(named) = effect { Some(named) } else { None })
    }

    /// The access that a success switches on.
    pub fn enables(&self) -> Option<Named> {
        self.effect(|effect| if let Effect::Enables(named) = effect { Some(named) } else { None })
    }

    /// The access that a success switches off.
    pub fn disables(&self) -> Option<Named> {
        self.effect(|effect| if let Effect::Disables(named) = effect { Some(named) } else { None })
    }

    /// What of the process's own a success ends.
    pub fn ends(&self) -> Option<End> {
        self.effect(|effect| if let Effect::Ends(end) = effect { Some(end) } else { None })
    }

    /// The context, or primary context, that a success ends.
    pub fn ends_context(&self) -> Option<End> {
        self.ends().filter(|end| end.object.is_context())
    }

    /// What of the process's own a success makes.
    pub fn makes(&self) -> Option<Made> {
        self.effect(|effect| if let Effect::Makes(made) = effect { Some(made) } else { None })
    }

    /// What a success takes one reference more to.
    pub fn retains(&self) -> Option<Named> {
        self.effect(|effect| if let Effect::Retains(named) = effect { Some(named) } else { None })
    }

    /// The access that a success sets.
    pub fn grants(&self) -> Option<Grant> {
        self.effect(|effect| if let Effect::Grants(grant) = effect { Some(grant) } else { None })
    }

    /// The argument that names the multicast object that a success makes.
    pub fn gathers(&self) -> Option<usize> {
        self.effect(|effect| if let Effect::Gathers(team) = effect { Some(team) } else { None })
    }

    /// The device that a success adds to a multicast object.
    pub fn joins(&self) -> Option<Joined> {
        self.effect(|effect| if let Effect::Joins(joined) = effect { Some(joined) } else { None })
    }

    /// The memory that a success binds to a multicast object.
    pub fn binds(&self) -> Option<Bound> {
        self.effect(|effect| if let Effect::Binds(bound) = effect { Some(bound) } else { None })
    }

    /// The memory that a success unbinds.
    pub fn unbinds(&self) -> Option<Unbound> {
        self.effect(|effect| if let Effect::Unbinds(unbound) = effect { Some(unbound) } else { None })
    }

    /// What is copied.
    pub fn copies(&self) -> Option<Copied> {
        self.effect(|effect| if let Effect::Copies(copied) = effect { Some(copied) } else { None })
    }

    /// Whether a call reads or writes device memory, and does nothing else.
    pub const fn uses_memory(&self) -> bool {
        self.is_in(Group::Copy)
    }

    /// The argument that names memory which a call frees, of a pool or not.
    pub const fn frees(&self) -> Option<usize> {
        let mut index = 0;
        while index < self.effects.len() {
            if let Effect::Ends(End { object: Object::Pointer, by, .. }) = self.effects[index] {
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

    /// Whether a call copies between any two addresses, also of the host: cuda.h names them `dst` and `src` then, and `dstDevice` and
    /// `srcDevice` otherwise.
    pub const fn takes_any_address(&self) -> bool {
        self.effects.len() == 1
            && matches!(self.effects[0], Effect::Copies(Copied { to, .. }) if self.args[to].name().len() == "dst".len())
    }

    /// Whether a call does its work in stream order.
    pub const fn is_asynchronous(&self) -> bool {
        let args = self.args;
        let last = if args.is_empty() { "" } else { args[args.len() - 1].name() };
        matches!(last.as_bytes(), b"hStream")
    }

    /// The context that a call creates: the arguments that name it and its device.
    pub const fn creates_context(&self) -> Option<(usize, usize)> {
        match *self.effects {
            [Effect::Makes(Made { object: Object::Context, by, of: Some(device), .. })] => Some((by, device)),
            _ => None,
        }
    }

    /// The copy between device memory and the host that a call does before it returns: cuda.h names the address of the host `dstHost`
    /// or `srcHost`.
    pub const fn host_copy(&self) -> Option<HostCopy> {
        let [Effect::Uses(Used { by: device, size: Some(size), rows: None, .. })] = *self.effects else {
            return None;
        };
        let mut host = 0;
        while host < self.args.len() && !self.is_asynchronous() {
            let name = self.args[host].name().as_bytes();
            let is_to_host = matches!(name, b"dstHost");
            if is_to_host || matches!(name, b"srcHost") {
                return Some(HostCopy { host, device, size, is_to_host });
            }
            host += 1;
        }
        None
    }

    /// Whether a call makes, changes, or launches a graph, and does this with nodes of graphs that use memory.
    const fn uses_nodes(&self) -> bool {
        matches!(self.effects, [Effect::Replays(_) | Effect::Instantiates(..) | Effect::Alters(_)])
    }

    const fn uses_memory_or_nodes(&self) -> bool {
        self.uses_memory() || self.uses_nodes()
    }

    const fn launches_or_uses_nodes(&self) -> bool {
        self.is_in(Group::Launch) || self.uses_nodes()
    }

    /// The copies that a call does at once.
    pub fn batch(&self) -> Option<Batch> {
        self.effect(|effect| if let Effect::UsesEach(batch) = effect { Some(batch) } else { None })
    }

    /// The kernel that a call launches.
    pub fn launches(&self) -> Option<Launched> {
        self.effect(|effect| if let Effect::Launches(launched) = effect { Some(launched) } else { None })
    }

    /// The argument that names the event which a call records in a stream.
    pub fn records(&self) -> Option<usize> {
        self.effect(|effect| if let Effect::Records(event) = effect { Some(event) } else { None })
    }

    /// The argument that names the graph that a call launches.
    pub fn replays(&self) -> Option<usize> {
        self.effect(|effect| if let Effect::Replays(exec) = effect { Some(exec) } else { None })
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
        while index < self.effects.len() {
            match self.effects[index] {
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
        while index < self.effects.len() {
            match self.effects[index] {
                Effect::Finds(_) | Effect::Unloads(..) => return true,
                Effect::Ends(End { object, .. }) if object.is_context() => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a success changes where memory is: it maps, opens, closes, or frees some, or ends a context.
    pub const fn moves_memory(&self) -> bool {
        let mut index = 0;
        while index < self.effects.len() {
            match self.effects[index] {
                Effect::Ends(_) | Effect::Closes(_) | Effect::Opens(_) | Effect::Makes(_) => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a success gives up one reference to a context. Only the last one changes anything.
    pub const fn releases_context(&self) -> bool {
        let mut index = 0;
        while index < self.effects.len() {
            match self.effects[index] {
                Effect::Ends(End { object, is_counted: true, .. }) if object.is_context() => return true,
                _ => index += 1,
            }
        }
        false
    }

    /// Whether a call gives a device work to do, or prepares it, and does nothing else: a copy, a memset, a launch, a graph, an
    /// event. Programs make these all the time.
    pub const fn is_work(&self) -> bool {
        self.uses_memory()
            || self.is_in(Group::Launch)
            || self.is_in(Group::Graph)
            || self.is_in(Group::Event)
    }

    /// What is asked about devices.
    pub fn asks(&self) -> Option<Question> {
        self.effect(|effect| match effect {
            Effect::Asks(question) if !question.subject.is_own() => Some(question),
            _ => None,
        })
    }

    /// The output that holds a function pointer after a success.
    pub fn hands_out(&self) -> Option<usize> {
        self.effect(|effect| if let Effect::LooksUp(found) = effect { Some(found) } else { None })
    }

    fn effect<T>(&self, chosen: impl Fn(Effect) -> Option<T>) -> Option<T> {
        self.effects.iter().copied().find_map(chosen)
    }

    /// The argument that says of how many bytes a call is: what it makes, ends, copies or gives access to.
    pub fn sized_by(&self) -> Option<usize> {
        self.effect(|effect| match effect {
            Effect::Makes(Made { size, .. }) | Effect::Ends(End { size, .. }) => size,
            Effect::Grants(Grant { size, .. }) => size,
            Effect::Binds(Bound { size, .. }) | Effect::Unbinds(Unbound { size, .. }) => Some(size),
            Effect::Copies(Copied { size, .. }) => Some(size),
            Effect::Uses(Used { size, element: None, rows: None, .. }) => size,
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
            let inverse = newest(&|other| closes(other) && other.args.len() == 1)?;
            return Some((inverse, Given { by, size: None }));
        }
        if let Some(Named { object, by }) = self.enables() {
            let inverse = newest(&|other| other.disables().is_some_and(|access| access.object == object))?;
            return Some((inverse, Given { by, size: None }));
        }
        let (object, by, size) = match (self.makes(), self.retains()) {
            (Some(Made { object, by, size, .. }), _) => (object, by, size),
            (None, Some(Named { object, by })) => (object, by, None),
            (None, None) => return None,
        };
        let takes = |end: End| if end.size.is_some() { size.map_or(0, |_| 2) } else { 1 };
        let ends = |other: &FnSpec| {
            other.effect(|effect| match effect {
                Effect::Ends(end) if end.object == object => Some(end),
                _ => None,
            })
        };
        let inverse = newest(&|other| ends(other).is_some_and(|end| takes(end) == other.args.len()))?;
        let is_sized = ends(inverse.spec()).is_some_and(|end| end.size.is_some());
        Some((inverse, Given { by, size: size.filter(|_| is_sized) }))
    }

    /// The numbers of its documented results, success first.
    pub fn documented(&self) -> impl Iterator<Item = i32> + use<> {
        self.results.iter().copied()
    }

    /// The numbers of the results with which it fails: the documented ones, then those that were seen. A fault plan takes these.
    pub fn failures(&self) -> impl Iterator<Item = i32> + use<> {
        self.results.iter().chain(self.seen).copied().filter(|code| *code != 0)
    }

    /// Whether real drivers were seen to return a result that is not documented for it.
    pub fn is_only_seen(&self, result: i32) -> bool {
        self.seen.contains(&result)
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
        let changes = self.is_in(Group::Lifetime) || self.shares() || self.is_virtual() || self.is_of_pools();
        changes && !self.releases_context()
    }

    /// Whether a call changes what the process has, or copies, or is one of the runtime's, which do: where it is recorded, it
    /// is looked at more closely, before and after it.
    pub const fn is_weighty(&self) -> bool {
        self.shares()
            || self.gives_back()
            || self.is_virtual()
            || self.is_in(Group::Pool)
            || self.is_work()
            || self.is_in(Group::Runtime)
    }

    /// Whether calls of it may be so short or frequent that it matters what recording adds to them. A call that maps, shares
    /// or makes something in the driver takes microseconds, and so does a copy, and what finds or ends kernels.
    pub const fn is_quick(&self) -> bool {
        let is_long = self.shares()
            || self.is_virtual()
            || self.is_of_pools()
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
        self.is_of_pools() || self.effects.iter().any(gives_up)
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
        self.args.iter().enumerate().find(|(_, arg)| arg.name().eq_ignore_ascii_case(name))
    }

    /// Where an argument stands among the bytes of the arguments in the slot of a record; of an array or a text, no bytes.
    pub fn place(&self, argument: usize) -> Range<usize> {
        let sizes = |arguments: &[ArgSpec]| arguments.iter().map(|arg| arg.stored()).sum();
        let at: usize = sizes(&self.args[..argument.min(self.args.len())]);
        at..at + self.args.get(argument).map_or(0, |arg| arg.stored())
    }

    /// Which bytes of those that the arguments have in a record are of addresses on a device, which programs pass in any
    /// number: a bit for each byte, the first one's the lowest.
    pub const fn addresses(&self) -> u64 {
        const fn is_address(name: &str) -> bool {
            let (name, wanted) = (name.as_bytes(), b"CUdeviceptr");
            let mut i = 0;
            while i < wanted.len() && i < name.len() {
                if name[name.len() - 1 - i] != wanted[wanted.len() - 1 - i] {
                    return false;
                }
                i += 1;
            }
            i == wanted.len()
        }
        let (mut bytes, mut at, mut index) = (0, 0, 0);
        while index < self.args.len() {
            let arg = &self.args[index];
            let mut byte = 0;
            while byte < arg.stored() {
                if matches!(arg.direction, Direction::In) && is_address(arg.of().name) && at < 64 {
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
        while index < self.args.len() {
            bytes += self.args[index].stored();
            index += 1;
        }
        bytes
    }

    /// Whether those are more than a slot has room for.
    pub const fn is_wide(&self) -> bool {
        self.stored() > crate::record::slot::ARGS
    }
}

/// The functions of which plans of faults may alter calls.
pub fn alterable() -> impl Iterator<Item = &'static FnSpec> + Clone {
    FUNCTIONS.iter().filter(|function| function.is_alterable())
}

/// Lists functions, in the order of the table.
macro_rules! functions_that {
    ($(#[doc = $doc:literal] $name:ident: $test:ident;)*) => {$(
        #[doc = $doc]
        pub static $name: [FnId; {
            let (mut count, mut index) = (0, 0);
            while index < FUNCTION_COUNT {
                count += FUNCTIONS[index].$test() as usize;
                index += 1;
            }
            count
        }] = {
            let (mut count, mut index) = (0, 0);
            let mut all = [ALL[0]; $name.len()];
            while index < FUNCTION_COUNT {
                if FUNCTIONS[index].$test() {
                    all[count] = ALL[index];
                    count += 1;
                }
                index += 1;
            }
            all
        };
    )*};
}
functions_that! {
    /// The functions that read or write device memory.
    USES: uses_memory;
    /// Those, and the functions that do it by a graph.
    USES_AND_GRAPHS: uses_memory_or_nodes;
    /// Those, and the functions that free it.
    USES_AND_FREES: uses_or_frees;
    /// Those that launch kernels, or prepare it in a graph.
    LAUNCHES: launches_or_uses_nodes;
    /// Those of graphs alone.
    GRAPHS: uses_nodes;
}

/// The name under which `cuGetProcAddress` finds a symbol from version `since` on: without its own version and form.
pub const fn look_up_name(symbol: &str, since: u32) -> &str {
    let name = match symbol.as_bytes() {
        _ if since == 0 => &[],
        [name @ .., b'_', b'p', b't', b'd', b's'] | [name @ .., b'_', b'p', b't', b's', b'z'] => name,
        name => name,
    };
    let name = if let [name @ .., b'_', b'v', b'0'..=b'9'] = name { name } else { name };
    symbol.split_at(name.len()).0
}

macro_rules! results {
    (Cuda $($result:ident)*) => {
        &[$(crate::results::Result::$result as i32),*]
    };
    (Cudart $($result:ident)*) => {
        results!(Cuda $($result)*)
    };
    (Nvml $($result:ident)*) => {
        &[$(crate::results::nvml::Result::$result as i32),*]
    };
}

macro_rules! derive_specs {
    ($(
        #[doc = $doc:literal]
        fn $name:ident(
            $($dir:ident $([$count:ident])? $arg:ident: $type:ty,)*
        ) -> $ret:ty {
            library: $library:ident, since: $since:literal, simulated: $fidelity:ident,
            effects: [$($effect:tt)*],
            results: [$($result:ident),* $(,)?],
            $(seen: [$($seen:ident),* $(,)?],)?
        }
    )*) => {
        /// The number of a function of the table; an index into [`FUNCTIONS`].
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum FnId { $($name,)* }

        /// The table as data, in the order of [`FnId`].
        pub static FUNCTIONS: &[FnSpec] = &[$(FnSpec {
            name: stringify!($name),
            id: FnId::$name,
            library: Library::$library,
            since: $since,
            effects: effects!([$($arg)*] [$($effect)*]),
            groups: Groups::of(effects!([$($arg)*] [$($effect)*])).and_of(Library::$library),
            args: argument::all_of(FnId::$name as usize),
            results: results!($library $($result)*),
            seen: results!($library $($($seen)*)?),
            simulated: Fidelity::$fidelity,
        },)*];

        /// By itself, so that the preload library is without it.
        static DOCS: &[&str] = &[$($doc.trim_ascii()),*];

        static ALL: &[FnId] = &[$(FnId::$name,)*];

        /// How many functions the table has.
        pub const FUNCTION_COUNT: usize = [$(stringify!($name)),*].len();
    };
}
crate::intercepted_functions!(derive_specs);

// The arguments of each function have room in a record: its outputs in the slot, what goes in also behind it.
const _: () = {
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let args = FUNCTIONS[index].args;
        let (mut bytes, mut arg) = (0, 0);
        while arg < args.len() {
            bytes += args[arg].stored();
            assert!(
                bytes <= crate::record::slot::ARGS || matches!(args[arg].direction, Direction::In),
                "an output lies outside of the slot"
            );
            arg += 1;
        }
        let is_weighty = FUNCTIONS[index].is_weighty();
        assert!(
            bytes <= crate::record::slot::ARGS || is_weighty,
            "only weighty calls have arguments elsewhere"
        );
        assert!(
            bytes <= crate::record::slot::MOST_ARGS && args.len() <= MOST_ARGUMENTS,
            "a function has more arguments than a record has room for"
        );
        // A record says of the first eight whether they are known, and of others what it says of the eighth.
        let mut arg = 7;
        while args.len() > 8 && arg < args.len() {
            assert!(matches!(args[arg].direction, Direction::In) && args[arg].stored() == args[arg].size());
            arg += 1;
        }
        index += 1;
    }
};

impl FnId {
    /// All functions of the table in order.
    pub fn all() -> impl Iterator<Item = FnId> {
        ALL.iter().copied()
    }

    /// The function that does something, in its newest form.
    pub fn newest(does: impl Fn(&FnSpec) -> bool) -> Option<FnId> {
        FnId::all().filter(|id| does(id.spec())).max_by_key(|id| id.spec().since)
    }

    /// The function of an index into [`FUNCTIONS`].
    ///
    /// # Panics
    ///
    /// Where there is no such index.
    pub fn at(index: usize) -> FnId {
        ALL[index]
    }

    /// The entry of this function.
    pub fn spec(self) -> &'static FnSpec {
        &FUNCTIONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            assert!(FUNCTIONS[i + 1..].iter().all(|g| g.name != f.name), "{} stands twice", f.name);
        }
    }

    #[test]
    fn versions_of_one_name_differ_and_rise() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            let form = |f: &FnSpec| (f.lookup(), f.name.contains("_pt"));
            let is_alike = |g: &&FnSpec| form(g) == form(f) && !f.lookup().is_empty();
            for g in FUNCTIONS[i + 1..].iter().filter(is_alike) {
                assert!(g.since > f.since, "{} and {} are looked up alike", f.name, g.name);
            }
        }
    }

    #[test]
    fn the_drivers_functions_alone_are_looked_up() {
        for f in FUNCTIONS {
            let is_drivers = f.library == Library::Cuda;
            assert_eq!((f.lookup().is_empty(), f.since == 0), (!is_drivers, !is_drivers), "{}", f.name);
            assert_eq!(f.simulated == Fidelity::Absent, !is_drivers, "{}", f.name);
        }
    }

    #[test]
    fn success_is_documented_first_and_no_result_twice() {
        for f in FUNCTIONS {
            assert_eq!(f.results[0], 0, "{}", f.name);
            for (i, r) in f.results.iter().enumerate() {
                assert!(!f.results[i + 1..].contains(r), "{}: {r} stands twice", f.name);
                assert!(f.result(*r).is_some(), "{}: {r} is none of its library", f.name);
            }
        }
    }

    #[test]
    fn types_read_as_in_c() {
        let types: Vec<String> = FnId::cuGetProcAddress.spec().args.iter().map(ArgSpec::c_type).collect();
        assert_eq!(types, ["const char *", "void **", "int", "cuuint64_t"]);
    }

    /// The ledgers read it by that: an object has a name of 4 or 8 bytes, which is an output where it is opened, and its
    /// handle goes the other way.
    #[test]
    fn effects_name_arguments_that_can_be_read() {
        for f in FUNCTIONS {
            let is_name = |index: usize| matches!(f.args[index].stored(), 4 | 8);
            let is = |index: usize, direction| f.args[index].direction == direction;
            for effect in f.effects {
                let is_sound = match *effect {
                    Effect::Exports(Shared { by, handle, .. }) => {
                        is_name(by) && is(by, Direction::In) && is(handle, Direction::Out)
                    }
                    Effect::Opens(Shared { by, handle, .. }) => {
                        is_name(by) && is(by, Direction::Out) && is(handle, Direction::In)
                    }
                    Effect::Closes(Named { by, .. })
                    | Effect::Enables(Named { by, .. })
                    | Effect::Disables(Named { by, .. })
                    | Effect::Ends(End { by, .. }) => is_name(by) && is(by, Direction::In),
                    Effect::Asks(Question { device, peer, answer, choice, .. }) => {
                        let asked = [Some(device), peer, choice.map(|(argument, _)| argument)];
                        !is(answer, Direction::In)
                            && asked.into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::LooksUp(found) => is(found, Direction::Out),
                    Effect::Makes(Made { by, size, of, .. }) => {
                        is_name(by) && [size, of].into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::Retains(Named { by, .. }) => is_name(by) && is(by, Direction::Out),
                    Effect::Copies(Copied { to, from, size, .. }) => {
                        [to, from, size].into_iter().all(|index| is_name(index) && is(index, Direction::In))
                    }
                    Effect::Uses(Used { by, size, element, rows, .. }) => {
                        let rows = rows.map(|(height, pitch)| [height, pitch]);
                        let all = [Some(by), size, element];
                        let mut all = all.into_iter().flatten().chain(rows.into_iter().flatten());
                        is_name(by) == size.is_some() && all.all(|index| is(index, Direction::In))
                    }
                    Effect::UsesEach(Batch { to, from, sizes, count }) => {
                        [to, from, sizes, count].into_iter().all(|at| is_name(at) && is(at, Direction::In))
                    }
                    Effect::Launches(Launched { function, parameters, extra }) => {
                        let all = [Some(function), Some(parameters), extra];
                        is_name(function) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::Finds(Found { by, of, room, .. }) => {
                        let all = [Some(of), room];
                        is(by, Direction::Out)
                            && all.into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::Instantiates(exec, graph) => {
                        is_name(exec) && is_name(graph) && is(graph, Direction::In)
                    }
                    Effect::Replays(exec) | Effect::Discards(exec) => {
                        is_name(exec) && is(exec, Direction::In)
                    }
                    Effect::Alters(Altered { exec, node, parameters, .. }) => [exec, node, parameters]
                        .into_iter()
                        .all(|index| is_name(index) && is(index, Direction::In)),
                    Effect::Records(by) | Effect::Unloads(_, by) => is_name(by) && is(by, Direction::In),
                    Effect::Grants(Grant { by, size, to, .. }) => {
                        let all = [Some(by), size, Some(to)];
                        is_name(by) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::Begins => true,
                    Effect::Gathers(team) => f.makes().is_some_and(|made| made.by == team),
                    Effect::Joins(Joined { team, device }) => {
                        is_name(team) && [team, device].into_iter().all(|index| is(index, Direction::In))
                    }
                    Effect::Binds(Bound { by, size, device, team, at, .. }) => {
                        let all = [Some(by), Some(size), device, Some(team), Some(at)];
                        is_name(by) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                    }
                    Effect::Unbinds(Unbound { team, size, device, at }) => {
                        let all = [team, size, device, at];
                        is_name(team) && all.into_iter().all(|index| is(index, Direction::In))
                    }
                };
                assert!(is_sound, "{}: {effect:?}", f.name);
            }
        }
    }

    #[test]
    fn what_is_shared_can_be_given_back() {
        for object in Object::ALL {
            let any = |does: fn(&FnSpec) -> Option<Object>| FUNCTIONS.iter().any(|f| does(f) == Some(object));
            let opens = any(|f| f.opens().map(|shared| shared.object));
            assert_eq!(opens, any(|f| f.closes().map(|named| named.object)), "{object:?}");
            assert_eq!(opens, any(|f| f.exports().map(|shared| shared.object)), "{object:?}");
            let enables = any(|f| f.enables().map(|named| named.object));
            assert_eq!(enables, any(|f| f.disables().map(|named| named.object)), "{object:?}");
        }
    }

    /// The library calls them with one word, or two.
    #[test]
    fn what_undoes_a_call_takes_words_of_it() {
        for f in FUNCTIONS {
            let is_done = f.opens().is_some() || f.enables().is_some() || f.makes().is_some();
            assert_eq!(f.undone_by().is_some(), is_done || f.retains().is_some(), "{}", f.name);
            let Some((inverse, given)) = f.undone_by() else { continue };
            let words: Vec<usize> = inverse.spec().args.iter().map(|arg| arg.stored()).collect();
            let taken = if given.size.is_some() { &[8, 8][..] } else { &[8] };
            assert_eq!((words.as_slice(), f.args[given.by].stored()), (taken, 8), "{}", f.name);
            if let (Some(size), Some(end)) = (given.size, inverse.spec().ends()) {
                assert_eq!((end.by, end.size, f.args[size].stored()), (0, Some(1), 8), "{}", f.name);
            }
        }
        let undone = |id: FnId| id.spec().undone_by().map(|(inverse, _)| inverse);
        for (id, inverse) in [
            (FnId::cuIpcOpenEventHandle, FnId::cuEventDestroy_v2),
            (FnId::cuCtxEnablePeerAccess, FnId::cuCtxDisablePeerAccess),
            (FnId::cuMemImportFromShareableHandle, FnId::cuMemRelease),
            (FnId::cuMemRetainAllocationHandle, FnId::cuMemRelease),
            (FnId::cuMemCreate, FnId::cuMemRelease),
            (FnId::cuMemMap, FnId::cuMemUnmap),
            (FnId::cuMemPoolCreate, FnId::cuMemPoolDestroy),
            (FnId::cuMemPoolImportFromShareableHandle, FnId::cuMemPoolDestroy),
            (FnId::cuMemPoolImportPointer, FnId::cuMemFree_v2),
            (FnId::cuMemAllocFromPoolAsync, FnId::cuMemFree_v2),
            (FnId::cuMemAddressReserve, FnId::cuMemAddressFree),
        ] {
            assert_eq!(undone(id), Some(inverse), "the newest form");
        }
    }

    #[test]
    fn arguments_have_places_in_the_slot() {
        let open = FnId::cuIpcOpenMemHandle_v2.spec();
        assert_eq!([0, 1, 2, 3].map(|index| open.place(index)), [0..8, 8..24, 24..28, 28..28]);
    }

    #[test]
    fn every_function_is_documented_and_in_a_group() {
        for f in FUNCTIONS {
            assert!(f.doc().ends_with('.') && f.groups().next().is_some(), "{}", f.name);
        }
    }
}
