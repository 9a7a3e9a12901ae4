//! Effects of successful calls on objects that others may use: the column `effects` of the table, as data.
//!
//! An effect has a verb, an object, and the indexes of the arguments that name it. All consequences of an
//! effect (recording, counting, queries, denial, undoing, reports) are derived from it, so that a function's
//! entry is enough to support it. The library and the report keep their own state.

mod column;
mod object;

use crate::group::{Group, Library};
pub(crate) use column::{demand, effect, effects, index, is_there, optional, other_args, sides};
pub use object::Object;

/// An object, and the index of the argument that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// Kind of object.
    pub object: Object,
    /// Index of the argument that names the object.
    pub by: usize,
}

/// An object that has a handle, with the indexes of the arguments about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// Kind of object.
    pub object: Object,
    /// Index of the argument that names the object in the calling process.
    pub by: usize,
    /// Index of the argument that holds the handle of the object.
    pub handle: usize,
    /// For an open: index of the argument that names the container of the object.
    pub of: Option<usize>,
    /// For an open: an argument that must have a certain value.
    pub demand: Option<Demand>,
}

/// An argument that must have a certain value, so that the call can succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Index of the argument.
    pub by: usize,
    /// Value that the argument must have.
    pub value: u32,
}

/// An object that a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Kind of object.
    pub object: Object,
    /// Index of the argument that names the object.
    pub by: usize,
    /// True if the call releases one reference, and the last release ends the object.
    pub is_counted: bool,
    /// If the call ends all objects in a range of addresses: index of the argument with the size of the range in
    /// bytes.
    pub size: Option<usize>,
}

/// An object that a call creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Kind of object.
    pub object: Object,
    /// Index of the argument that names the object.
    pub by: usize,
    /// Index of the argument with the object's size in bytes.
    pub size: Option<usize>,
    /// Index of the argument with the source or the properties of an allocation or a pool.
    pub of: Option<usize>,
    /// Index of the argument with the offset in the source, or with the requested address.
    pub at: Option<usize>,
}

/// Access to addresses, or to a pool, that devices get or lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Kind of object at the addresses, or the pool that contains them.
    pub object: Object,
    /// Index of the argument with the start of the addresses, or with the pool.
    pub by: usize,
    /// Index of the argument with the number of bytes at the addresses.
    pub size: Option<usize>,
    /// Index of the argument with the devices, and the access of each.
    pub to: usize,
}

/// A multicast object that a call creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// Index of the argument that names the multicast object.
    pub team: usize,
    /// Index of the argument with the properties of the multicast object.
    pub of: usize,
}

/// A device that is added to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddedDevice {
    /// Index of the argument that names the multicast object.
    pub team: usize,
    /// Index of the argument that names the device.
    pub device: usize,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Kind of the bound object: an allocation, or a mapping.
    pub object: Object,
    /// Index of the argument that names the bound object.
    pub by: usize,
    /// Index of the argument with the offset in the bound object; `None` if `by` has an address.
    pub from: Option<usize>,
    /// Index of the argument with the number of bound bytes.
    pub size: usize,
    /// Index of the argument that names the device; `None` if the memory determines the device.
    pub device: Option<usize>,
    /// Index of the argument that names the multicast object.
    pub team: usize,
    /// Index of the argument with the offset in the multicast object.
    pub at: usize,
}

/// Memory that is unbound from a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbound {
    /// Index of the argument that names the multicast object.
    pub team: usize,
    /// Index of the argument with the number of unbound bytes.
    pub size: usize,
    /// Index of the argument that names the device of the memory.
    pub device: usize,
    /// Index of the argument with the offset in the multicast object.
    pub at: usize,
}

/// Bytes that are copied from one address to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Kind of object at the addresses.
    pub object: Object,
    /// Index of the argument with the destination address.
    pub to: usize,
    /// Index of the argument with the source address.
    pub from: usize,
    /// Index of the argument with the number of copied bytes.
    pub size: usize,
    /// Kinds of memory that both addresses can have.
    pub sides: AddressSpace,
}

/// Kinds of memory that the two addresses of a copy can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressSpace {
    /// Device memory that the current context can access.
    Devices,
    /// Memory of two devices that the call names, even if neither can access the other.
    Peers,
    /// Any address, including host memory.
    Anything,
}

/// Bytes of device memory that are read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Kind of object at the addresses.
    pub object: Object,
    /// Index of the argument with the start address, or with the structure that has all parameters.
    pub by: usize,
    /// Index of the argument with the number of elements; with rows, the number of elements per row.
    pub size: Option<usize>,
    /// Index of the argument whose size is the size of an element; `None` for elements of one byte.
    pub element: Option<usize>,
    /// Other arguments of the call that matter.
    pub others: OtherArgs,
}

/// Other arguments of a use of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherArgs {
    /// No other argument matters.
    Nothing,
    /// Rows: indexes of the arguments with the number of rows, and with the distance between rows in bytes.
    Rows(usize, usize),
    /// Copy to the host: index of the argument with the host address.
    ToHost(usize),
    /// Copy from the host: index of the argument with the host address.
    FromHost(usize),
}

/// A copy between device memory and the host that is done when the call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCopy {
    /// Index of the argument with the host address.
    pub host: usize,
    /// Index of the argument with the address of the device memory.
    pub device: usize,
    /// Index of the argument with the number of bytes.
    pub size: usize,
    /// True if the copy goes to the host.
    pub is_to_host: bool,
}

/// Several copies. The first three arguments are arrays with a word for each copy, or all are one array of
/// structures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Index of the argument with the destinations.
    pub to: usize,
    /// Index of the argument with the sources.
    pub from: usize,
    /// Index of the argument with the sizes in bytes.
    pub sizes: usize,
    /// Index of the argument with the number of copies.
    pub count: usize,
}

impl Batch {
    /// Returns the indexes of all four arguments: destinations, sources, sizes, and count.
    pub const fn arguments(&self) -> [usize; 4] {
        [self.to, self.from, self.sizes, self.count]
    }
}

/// A kernel launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launched {
    /// Index of the argument that names the kernel.
    pub function: usize,
    /// Index of the argument with the addresses of the kernel's parameters.
    pub parameters: usize,
    /// Index of the argument with the other form of parameters.
    pub extra: Option<usize>,
}

/// Kinds of handles that name a kernel for a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launchable {
    /// `CUfunction`: a kernel in one context.
    Function,
    /// `CUkernel`: a kernel of a library, in any context.
    Kernel,
}

/// Kernels that a call finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedUp {
    /// Kind of handle that the call returns.
    pub kind: Launchable,
    /// Index of the argument that receives the handles of the kernels.
    pub by: usize,
    /// Index of the argument that names the module or library of the kernels.
    pub of: usize,
    /// If the call finds several kernels: index of the argument with the size of the array.
    pub room: Option<usize>,
}

/// Containers that kernels are loaded from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// `CUmodule`: a module, loaded into one context.
    Module,
    /// `CUlibrary`: a library, for all contexts.
    Library,
}

/// Kinds of graph nodes that a call gives new parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A kernel launch.
    Kernel,
    /// A copy.
    Copy,
    /// A memset.
    Fill,
    /// Any kind: the structure with the parameters names it.
    Any,
    /// A child graph, which takes the place of the parameters.
    Child,
}

/// A node of an executable graph whose parameters a call changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Altered {
    /// Kind of the node.
    pub kind: NodeKind,
    /// Index of the argument that names the executable graph.
    pub exec: usize,
    /// Index of the argument that names the node in the graph from which the executable graph was created.
    pub node: usize,
    /// Index of the argument with the node's new parameters, or with its new graph.
    pub parameters: usize,
}

/// Subject of a driver query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Peer access: whether one device can access the memory of another.
    Reach,
    /// Attributes of the link between two devices.
    Link,
    /// One device, or several devices.
    Device,
    /// Properties of an allocation, or attributes of an address.
    Memory,
    /// A pool.
    Pool,
    /// A multicast object.
    Team,
}

impl Subject {
    /// Returns true for objects of the process, as opposed to devices.
    pub const fn is_own(self) -> bool {
        matches!(self, Subject::Memory | Subject::Pool | Subject::Team)
    }
}

/// A query of the driver or of NVML.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Subject of the query.
    pub subject: Subject,
    /// Index of the argument that names the device, or has the properties of memory.
    pub device: usize,
    /// Index of the argument that names the peer device.
    pub peer: Option<usize>,
    /// Index of the argument that receives the result.
    pub answer: usize,
    /// Index of the argument that chooses the attribute, and its value that means [`Subject::Reach`]. For memory and
    /// multicast objects: its value that means the granularity.
    pub choice: Option<(usize, i32)>,
}

/// Work that is done when a call returns. Each value is the index of the argument that names the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Work that a stream was given before.
    Stream(usize),
    /// Work before the last record of an event.
    Event(usize),
    /// Work that the streams of a context were given.
    Context(usize),
    /// Work that the streams of the current context were given.
    Current,
}

/// A stream whose later work waits for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed {
    /// Index of the argument that names the event.
    pub event: usize,
    /// Index of the argument that names the stream.
    pub stream: usize,
}

/// A value in memory that a stream waits for or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Index of the argument with the address of the value.
    pub address: usize,
    /// Index of the argument with the value.
    pub value: usize,
    /// Index of the argument that names the stream.
    pub stream: usize,
}

/// Several operations on values in memory: waits for values, and writes of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// Index of the argument with the array of operations.
    pub operations: usize,
    /// Index of the argument with the number of operations.
    pub count: usize,
    /// Index of the argument that names the stream.
    pub stream: usize,
}

/// A function of the program that is called in stream order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCall {
    /// Index of the argument with the function.
    pub function: usize,
    /// Index of the argument that names the stream.
    pub stream: usize,
}

/// Effect of a successful call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Returns a handle by which other processes can open the object.
    Exports(Shared),
    /// Opens the object of another process, by its handle.
    Opens(Shared),
    /// Closes an open handle.
    Closes(Named),
    /// Creates an object of the process: allocates, reserves, or maps it.
    Makes(Made),
    /// Adds a reference to an object of the process.
    Retains(Named),
    /// Sets the access of devices to memory.
    Grants(Grant),
    /// Makes the created allocation a multicast object, to which devices can be added.
    Gathers(Gathered),
    /// Adds a device to a multicast object.
    Joins(AddedDevice),
    /// Binds memory to a multicast object.
    Binds(Bound),
    /// Unbinds memory from a multicast object.
    Unbinds(Unbound),
    /// Enables access. The second value is an argument that must have a certain value.
    Enables(Named, Option<Demand>),
    /// Disables access.
    Disables(Named),
    /// Ends an object of the process, even if others have it open: frees, destroys, or resets it.
    Ends(End),
    /// Copies bytes.
    Copies(Copied),
    /// Reads or writes bytes of device memory. The other side is not device memory, or a structure names both sides.
    Uses(Used),
    /// Makes several copies. Either side may be device memory.
    UsesEach(Batch),
    /// Launches a kernel.
    Launches(Launched),
    /// Records an event in a stream: the argument that names the event.
    Records(usize),
    /// Returns only after certain work is done.
    Completes(Work),
    /// Has the later work of a stream wait for an event.
    Follows(Followed),
    /// Ends a stream, whose work continues. The value is the index of the argument that names the stream.
    Drops(usize),
    /// Has the later work of a stream wait for a value in memory.
    Awaits(Signal),
    /// Writes a value to memory in stream order.
    Signals(Signal),
    /// Does several waits for values and writes of values (`Awaits`, `Signals`).
    Posts(Posted),
    /// Calls a function of the program in stream order.
    Runs(HostCall),
    /// Finds kernels that are loaded.
    Finds(LookedUp),
    /// Unloads kernels. The values are the kind of their container, a module or a library, and the index of the
    /// argument that names it.
    Unloads(Code, usize),
    /// Creates or updates an executable graph. The values are the indexes of the arguments that name the executable
    /// graph, and the graph from which it is created.
    Instantiates(usize, usize),
    /// Launches a graph. The value is the index of the argument that names the executable graph.
    Replays(usize),
    /// Changes the parameters of a node of an executable graph.
    Alters(Altered),
    /// Ends an executable graph, or makes a change that is not tracked. The value is the index of the argument that
    /// names the executable graph.
    Discards(usize),
    /// Queries the driver or NVML, and changes nothing.
    Asks(Query),
    /// Finds a function. The value is the index of the argument that receives the function's address. For a function
    /// of the table, cupeer returns its own address instead.
    LooksUp(usize),
    /// Initializes the driver in the process.
    Begins,
}

impl Effect {
    /// Returns the groups of functions with this effect on any object.
    const fn groups(self) -> &'static [Group] {
        match self {
            Effect::Exports(_) => &[Group::Export],
            Effect::Opens(_) => &[Group::Open],
            Effect::Enables(..) | Effect::Grants(_) => &[Group::Enable],
            Effect::Closes(_) | Effect::Disables(_) => &[Group::Release],
            Effect::Ends(_) => &[Group::Lifetime],
            Effect::Makes(Made { object: Object::Context, .. })
            | Effect::Retains(Named { object: Object::Primary, .. }) => &[Group::Query],
            Effect::Makes(Made { object: Object::Memory | Object::Pointer, .. }) => &[Group::Alloc],
            Effect::Makes(_) | Effect::Retains(_) => &[],
            Effect::Copies(_) | Effect::Uses(_) | Effect::UsesEach(_) => &[Group::Copy],
            Effect::Launches(_) => &[Group::Launch],
            Effect::Instantiates(..) | Effect::Replays(_) | Effect::Alters(_) | Effect::Discards(_) => &[Group::Graph],
            Effect::Records(_) => &[Group::Event],
            Effect::Completes(_)
            | Effect::Follows(_)
            | Effect::Drops(_)
            | Effect::Awaits(_)
            | Effect::Signals(_)
            | Effect::Posts(_)
            | Effect::Runs(_) => &[Group::Order],
            Effect::Gathers(_)
            | Effect::Joins(_)
            | Effect::Binds(_)
            | Effect::Unbinds(_)
            | Effect::Asks(Query { subject: Subject::Team, .. }) => &[Group::Vmm, Group::Multicast],
            Effect::Asks(Query { subject: Subject::Memory, .. }) => &[Group::Vmm],
            Effect::Asks(Query { subject: Subject::Pool, .. }) => &[Group::Pool],
            Effect::Asks(Query { subject: Subject::Device, .. }) | Effect::Finds(_) | Effect::Unloads(..) => {
                &[Group::Query]
            }
            Effect::Asks(_) => &[Group::Peer],
            Effect::LooksUp(_) => &[Group::Lookup],
            Effect::Begins => &[Group::Init],
        }
    }

    /// Returns the groups that follow from the kind of object of the effect.
    const fn object_groups(self) -> &'static [Group] {
        match self {
            Effect::Makes(Made { object: Object::Memory, .. }) => &[],
            Effect::Ends(End { object, .. }) if !object.has_dedicated_end_calls() => &[],
            Effect::Exports(Shared { object, .. })
            | Effect::Opens(Shared { object, .. })
            | Effect::Enables(Named { object, .. }, _)
            | Effect::Grants(Grant { object, .. })
            | Effect::Closes(Named { object, .. })
            | Effect::Disables(Named { object, .. })
            | Effect::Ends(End { object, .. })
            | Effect::Makes(Made { object, .. })
            | Effect::Retains(Named { object, .. }) => object.sharing_groups(),
            _ => &[],
        }
    }
}

/// Returns the index of an argument of a function.
///
/// # Panics
///
/// The function has no argument of this name. In the table, such a name does not compile.
pub const fn argument(arguments: &[&str], name: &str) -> usize {
    let mut index = 0;
    while index < arguments.len() {
        if is_equal(arguments[index].as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("an effect names an argument that the function does not have")
}

pub(crate) const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// The groups of a function, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups(u32);

impl Groups {
    /// Returns the groups that follow from the effects of a function.
    pub const fn of(effects: &[Effect]) -> Groups {
        let mut groups = Groups(0);
        let mut index = 0;
        while index < effects.len() {
            // A call that ends all sorts of objects also closes handles, but programs make it for other reasons.
            if !(matches!(effects[index], Effect::Closes(_)) && has_end(effects)) {
                groups = groups.with_groups(effects[index].groups()).with_groups(effects[index].object_groups());
            }
            index += 1;
        }
        groups
    }

    /// Adds the group of a library to these groups, if the library has one: that of the CUDA runtime.
    pub const fn and_of(self, library: Library) -> Groups {
        if matches!(library, Library::Cudart) { self.with_groups(&[Group::Runtime]) } else { self }
    }

    const fn with_groups(mut self, groups: &[Group]) -> Groups {
        let mut index = 0;
        while index < groups.len() {
            self.0 |= 1 << groups[index] as u32;
            index += 1;
        }
        self
    }

    /// Returns true if the set has the group.
    pub const fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u32 != 0
    }
}

const fn has_end(effects: &[Effect]) -> bool {
    let mut index = 0;
    while index < effects.len() {
        if matches!(effects[index], Effect::Ends(_)) {
            return true;
        }
        index += 1;
    }
    false
}
