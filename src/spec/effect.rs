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
    /// The argument.
    pub by: usize,
}

/// An object that has a handle, and the indexes of both arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// Kind of object.
    pub object: Object,
    /// The argument that names it in the calling process.
    pub by: usize,
    /// The argument that holds its handle.
    pub handle: usize,
    /// For an open: the argument that names the object's container.
    pub of: Option<usize>,
    /// For an open: the value that the call requires.
    pub demand: Option<Demand>,
}

/// An argument that must have one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The argument.
    pub by: usize,
    /// The value.
    pub value: u32,
}

/// An object that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Kind of object.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// True if the call releases one reference, and the last release ends the object.
    pub is_counted: bool,
    /// If the call ends all objects in a range of addresses: the argument with the size of the range in
    /// bytes.
    pub size: Option<usize>,
}

/// An object that a call creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Kind of object.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// The argument that says how many bytes it has.
    pub size: Option<usize>,
    /// The argument with its source or its properties: those of an allocation, or of a pool.
    pub of: Option<usize>,
    /// The argument with the offset in the source, or with the requested address.
    pub at: Option<usize>,
}

/// Access to addresses, or to a pool, that devices get or lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Kind of object at the addresses, or the pool that contains them.
    pub object: Object,
    /// The argument with the start of the addresses, or with the pool.
    pub by: usize,
    /// The argument that says how many bytes there are.
    pub size: Option<usize>,
    /// The argument with the devices, and the access of each.
    pub to: usize,
}

/// A multicast object that a call creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// The argument that names it.
    pub team: usize,
    /// The argument with its properties.
    pub of: usize,
}

/// A device that is added to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddedDevice {
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument that names the device.
    pub device: usize,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Kind of the bound object: an allocation, or a mapping.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// The argument with the offset in the object; `None` if `by` has the address.
    pub from: Option<usize>,
    /// The argument that says how many bytes it is.
    pub size: usize,
    /// The argument that names the device; `None` for the device of the memory.
    pub device: Option<usize>,
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument with the offset in the multicast object.
    pub at: usize,
}

/// Memory that is bound to a multicast object no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbound {
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument that says how many bytes it is.
    pub size: usize,
    /// The argument that names the device of the memory.
    pub device: usize,
    /// The argument with the offset in the multicast object.
    pub at: usize,
}

/// Bytes that are copied from one address to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Kind of object at the addresses.
    pub object: Object,
    /// The argument with the destination.
    pub to: usize,
    /// The argument with the source.
    pub from: usize,
    /// The argument that says how many bytes.
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
    /// The argument with the start address, or the structure with all parameters.
    pub by: usize,
    /// The argument with the number of elements. With rows, this is the number per row.
    pub size: Option<usize>,
    /// The argument of the size of an element; a byte if there is none.
    pub element: Option<usize>,
    /// Other arguments.
    pub others: OtherArgs,
}

/// Other arguments of a use of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherArgs {
    /// Nothing that matters.
    Nothing,
    /// Number of rows, and distance between rows in bytes.
    Rows(usize, usize),
    /// The address on the host to which the bytes go.
    ToHost(usize),
    /// The address on the host from which they come.
    FromHost(usize),
}

/// A copy between device memory and the host that is done when the call returns, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCopy {
    /// The address on the host.
    pub host: usize,
    /// The address of the device memory.
    pub device: usize,
    /// The size.
    pub size: usize,
    /// True if the copy goes to the host.
    pub is_to_host: bool,
}

/// Several copies, by the indexes of arguments: arrays with a word for each of them; or one of structures, which is all three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Destinations.
    pub to: usize,
    /// Sources.
    pub from: usize,
    /// Sizes in bytes.
    pub sizes: usize,
    /// Number of copies.
    pub count: usize,
}

impl Batch {
    /// All four.
    pub const fn arguments(&self) -> [usize; 4] {
        [self.to, self.from, self.sizes, self.count]
    }
}

/// A kernel that is launched, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launched {
    /// The kernel.
    pub function: usize,
    /// The addresses of its parameters.
    pub parameters: usize,
    /// The argument with the other form of parameters.
    pub extra: Option<usize>,
}

/// Kinds of names for a kernel that is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launchable {
    /// `CUfunction`: in a context.
    Function,
    /// `CUkernel`: of a library, in any context.
    Kernel,
}

/// Kernels that are found, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedUp {
    /// Kind of name.
    pub kind: Launchable,
    /// The argument that gets their handles.
    pub by: usize,
    /// The argument that names their module or library.
    pub of: usize,
    /// If the call finds several: the argument with the size of the array.
    pub room: Option<usize>,
}

/// Containers that kernels are loaded from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// `CUmodule`.
    Module,
    /// `CUlibrary`.
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

/// A node of a graph that can be launched, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Altered {
    /// Kind of node.
    pub kind: NodeKind,
    /// The graph that can be launched.
    pub exec: usize,
    /// The node of the graph that it was created from.
    pub node: usize,
    /// The structure of its new parameters, or its new graph.
    pub parameters: usize,
}

/// Subject of a driver query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Peer access: whether one device can access the memory of another.
    Reach,
    /// Attributes of the link between two devices.
    Link,
    /// A device, or several.
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
    /// Subject.
    pub subject: Subject,
    /// The argument that names the device, or has the properties of memory.
    pub device: usize,
    /// The argument that names the peer device.
    pub peer: Option<usize>,
    /// The argument that receives the result.
    pub answer: usize,
    /// The argument that chooses the attribute, and its value that means [`Subject::Reach`]. For memory and
    /// multicast objects: its value that means the granularity.
    pub choice: Option<(usize, i32)>,
}

/// Work that is done when a call returns, by the argument that names it.
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

/// A stream whose later work waits for an event, as indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed {
    /// The event.
    pub event: usize,
    /// The stream.
    pub stream: usize,
}

/// A value in memory that a stream waits for or writes, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Address of the value.
    pub address: usize,
    /// The value.
    pub value: usize,
    /// The stream.
    pub stream: usize,
}

/// Several of these, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The array of operations.
    pub operations: usize,
    /// Number of operations.
    pub count: usize,
    /// The stream.
    pub stream: usize,
}

/// A function of the program that is called in stream order, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCall {
    /// The function.
    pub function: usize,
    /// The stream.
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
    /// Makes the created allocation a multicast object, to which devices are added.
    Gathers(Gathered),
    /// Adds a device to a team.
    Joins(AddedDevice),
    /// Binds memory to a multicast object.
    Binds(Bound),
    /// Unbinds memory from a multicast object.
    Unbinds(Unbound),
    /// Enables access, and the value that the call requires.
    Enables(Named, Option<Demand>),
    /// Switches it off.
    Disables(Named),
    /// Ends an object of the process, even if others have it open: frees, destroys, or resets it.
    Ends(End),
    /// Copies bytes.
    Copies(Copied),
    /// Reads or writes bytes, and the other side is no device memory, or a structure names it.
    Uses(Used),
    /// Makes several copies. Either side may be device memory.
    UsesEach(Batch),
    /// Launches a kernel.
    Launches(Launched),
    /// Records an event in a stream: the argument that names the event.
    Records(usize),
    /// Returns after work is done.
    Completes(Work),
    /// Has the later work of a stream wait for an event.
    Follows(Followed),
    /// Ends a stream. Its work continues. The argument that names it.
    Drops(usize),
    /// Has the later work of a stream wait for a value in memory.
    Awaits(Signal),
    /// Writes a value to memory in stream order.
    Signals(Signal),
    /// Does several of these two.
    Posts(Posted),
    /// Calls a function of the program in stream order.
    Runs(HostCall),
    /// Finds kernels that are loaded.
    Finds(LookedUp),
    /// Unloads kernels: a module, or a library, and the argument that names it.
    Unloads(Code, usize),
    /// Creates or updates an executable graph. The argument that names it, and the one that names the graph
    /// that it is created from.
    Instantiates(usize, usize),
    /// Launches a graph, and the argument that names it.
    Replays(usize),
    /// Changes the parameters of a node of an executable graph.
    Alters(Altered),
    /// Ends an executable graph, or makes a change that is not tracked. The argument that names it.
    Discards(usize),
    /// Queries, and changes nothing.
    Asks(Query),
    /// Finds a function: the argument that receives its address. For a function of the table, cupeer returns
    /// its own address instead.
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
            Effect::Instantiates(..) | Effect::Replays(_) | Effect::Alters(_) | Effect::Discards(_) => {
                &[Group::Graph]
            }
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

    /// Returns the groups that follow from the kind of object.
    const fn families(self) -> &'static [Group] {
        match self {
            Effect::Makes(Made { object: Object::Memory, .. }) => &[],
            Effect::Ends(End { object, .. }) if !object.is_ended_by_name() => &[],
            Effect::Exports(Shared { object, .. })
            | Effect::Opens(Shared { object, .. })
            | Effect::Enables(Named { object, .. }, _)
            | Effect::Grants(Grant { object, .. })
            | Effect::Closes(Named { object, .. })
            | Effect::Disables(Named { object, .. })
            | Effect::Ends(End { object, .. })
            | Effect::Makes(Made { object, .. })
            | Effect::Retains(Named { object, .. }) => object.families(),
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
    /// Returns the groups that follow from effects.
    pub const fn of(effects: &[Effect]) -> Groups {
        let mut groups = Groups(0);
        let mut index = 0;
        while index < effects.len() {
            // A call that ends all sorts of objects also closes handles, but programs make it for other reasons.
            if !(matches!(effects[index], Effect::Closes(_)) && ends(effects)) {
                groups = groups.with(effects[index].groups()).with(effects[index].families());
            }
            index += 1;
        }
        groups
    }

    /// Returns these groups, and those of a library's functions.
    pub const fn and_of(self, library: Library) -> Groups {
        if matches!(library, Library::Cudart) { self.with(&[Group::Runtime]) } else { self }
    }

    const fn with(mut self, groups: &[Group]) -> Groups {
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

const fn ends(effects: &[Effect]) -> bool {
    let mut index = 0;
    while index < effects.len() {
        if matches!(effects[index], Effect::Ends(_)) {
            return true;
        }
        index += 1;
    }
    false
}
