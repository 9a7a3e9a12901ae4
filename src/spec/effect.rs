//! What a call that succeeds does to things that others may use: the column `effects` of the table, as data.
//!
//! What belongs here: verbs, objects, and which arguments name them. All that follows from an effect (what is recorded,
//! counted, asked, denied, undone, reported) is derived from it where it is needed, so that a function of the table is
//! known everywhere by its entry. What does not: how the library and the report keep books, and what only one function has.

mod column;
mod object;

use crate::group::{Group, Library};
pub(crate) use column::{beside, demand, effect, effects, index, is_there, optional, sides};
pub use object::Object;

/// An object, and the index of the argument that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// What it is.
    pub object: Object,
    /// The argument.
    pub by: usize,
}

/// An object that has a handle, and the indexes of both arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// What it is.
    pub object: Object,
    /// The argument that names it in the calling process.
    pub by: usize,
    /// The argument that holds its handle.
    pub handle: usize,
    /// Of what is opened: the argument that names what it is a part of.
    pub of: Option<usize>,
    /// Of what is opened: what the call needs.
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
    /// What it is.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// Whether the call gives up one reference, and only the last one ends it.
    pub is_counted: bool,
    /// Where all objects in a range of addresses end: the argument that says how many bytes it has.
    pub size: Option<usize>,
}

/// An object that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// What it is.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// The argument that says how many bytes it has.
    pub size: Option<usize>,
    /// The argument that names what it is made of, or says how it is to be: the properties of an allocation, or of a pool.
    pub of: Option<usize>,
    /// The argument that says where: in what it is made of, or at which address it is wanted.
    pub at: Option<usize>,
}

/// Access to addresses, or to a pool, that is given to devices, or taken from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// What is at the addresses, or the pool that they are of.
    pub object: Object,
    /// The argument that says where they begin, or names the pool.
    pub by: usize,
    /// The argument that says how many bytes there are.
    pub size: Option<usize>,
    /// The argument with the devices, and what each may do.
    pub to: usize,
}

/// A multicast object that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// The argument that names it.
    pub team: usize,
    /// The argument with its properties.
    pub of: usize,
}

/// A device that joins a team: those of a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument that names the device.
    pub device: usize,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// What is bound: an allocation, or what is mapped somewhere.
    pub object: Object,
    /// The argument that names it.
    pub by: usize,
    /// The argument that says where in that it begins; `None` where `by` says it.
    pub from: Option<usize>,
    /// The argument that says how many bytes it is.
    pub size: usize,
    /// The argument that names the device; `None` where it is the one on which the memory lies.
    pub device: Option<usize>,
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument that says where in that.
    pub at: usize,
}

/// Memory that is bound to a multicast object no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbound {
    /// The argument that names the multicast object.
    pub team: usize,
    /// The argument that says how many bytes it is.
    pub size: usize,
    /// The argument that names the device whose memory it is.
    pub device: usize,
    /// The argument that says where in the multicast object.
    pub at: usize,
}

/// Bytes that are copied from one address to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// What is at the addresses.
    pub object: Object,
    /// The argument that says where to.
    pub to: usize,
    /// The argument that says where from.
    pub from: usize,
    /// The argument that says how many bytes.
    pub size: usize,
    /// What both addresses can be.
    pub sides: Sides,
}

/// What the two addresses of a copy can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sides {
    /// Of device memory that the current context can access.
    Devices,
    /// Of the memory of two devices that the call names, also where neither can access the other.
    Peers,
    /// Any address, also of the host.
    Anything,
}

/// Bytes of device memory that are read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// What is at the addresses.
    pub object: Object,
    /// The argument that says where they begin, or the structure that says all.
    pub by: usize,
    /// The argument that says how many elements, of a row where there are rows.
    pub size: Option<usize>,
    /// The argument of the size of an element; a byte where there is none.
    pub element: Option<usize>,
    /// What else arguments name.
    pub beside: Beside,
}

/// What the arguments of a use of device memory name beside that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Nothing that matters.
    Nothing,
    /// How many rows there are, and how far one is from the next.
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
    /// Whether it goes to the host.
    pub is_to_host: bool,
}

/// Several copies, by the indexes of arguments: arrays with a word for each of them; or one of structures, which is all three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Where to.
    pub to: usize,
    /// Where from.
    pub from: usize,
    /// How many bytes.
    pub sizes: usize,
    /// How many copies.
    pub count: usize,
}

/// A kernel that is launched, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launched {
    /// The kernel.
    pub function: usize,
    /// The addresses of its parameters.
    pub parameters: usize,
    /// Another way to pass them.
    pub extra: Option<usize>,
}

/// How a kernel is named that is launched.
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
    /// How they are named.
    pub kind: Launchable,
    /// The argument that gets their handles.
    pub by: usize,
    /// The argument that names what they are of.
    pub of: usize,
    /// Where there can be several: the argument that says for how many there is room.
    pub room: Option<usize>,
}

/// What kernels are loaded with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// `CUmodule`.
    Module,
    /// `CUlibrary`.
    Library,
}

/// What the nodes of a graph do that a call gives other parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// They launch a kernel.
    Kernel,
    /// They copy.
    Copy,
    /// They set memory.
    Fill,
    /// What the structure says that has the parameters.
    Any,
    /// They have a graph of their own, which stands for the parameters.
    Child,
}

/// A node of a graph that can be launched, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Altered {
    /// What the node does.
    pub kind: NodeKind,
    /// The graph that can be launched.
    pub exec: usize,
    /// The node of the graph that it was made of.
    pub node: usize,
    /// The structure of its new parameters, or its new graph.
    pub parameters: usize,
}

/// What a question is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Whether one device can access another one's memory.
    Reach,
    /// What the link between two devices can do.
    Link,
    /// A device, or several.
    Device,
    /// An allocation, or what is at an address.
    Memory,
    /// A pool.
    Pool,
    /// A multicast object.
    Team,
}

impl Subject {
    /// Whether it is what the process has, and not a device.
    pub const fn is_own(self) -> bool {
        matches!(self, Subject::Memory | Subject::Pool | Subject::Team)
    }
}

/// A question to the driver or to NVML.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// What it is about.
    pub subject: Subject,
    /// The argument that names the device, or has the properties of memory.
    pub device: usize,
    /// The argument that names the peer device.
    pub peer: Option<usize>,
    /// The argument that gets the answer.
    pub answer: usize,
    /// The argument that chooses what is asked, and the value of it that asks for [`Subject::Reach`]; of memory, and of multicast
    /// objects, that asks of what sizes and addresses must be multiples.
    pub choice: Option<(usize, i32)>,
}

/// Work that is done when a call returns, by the argument that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// What a stream was given before.
    Stream(usize),
    /// What came before the last record of an event.
    Event(usize),
    /// What the streams of a context were given.
    Context(usize),
    /// What the streams of the current context were given.
    Current,
}

/// A stream whose later work waits for an event, by the indexes of arguments.
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
    /// Where it is.
    pub address: usize,
    /// The value.
    pub value: usize,
    /// The stream.
    pub stream: usize,
}

/// Several of these, by the indexes of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The array of structures that say what each is.
    pub operations: usize,
    /// How many there are.
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

/// What a call that succeeds does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Makes a handle, by which other processes can open the object.
    Exports(Shared),
    /// Opens the object of another process that a handle stands for.
    Opens(Shared),
    /// Gives up what was opened.
    Closes(Named),
    /// Makes an object of the process's own: allocates, reserves, maps it.
    Makes(Made),
    /// Takes one reference more to an object that the process has.
    Retains(Named),
    /// Sets what devices may do with memory.
    Grants(Grant),
    /// Makes the allocation that it makes one of a team of devices: a multicast object.
    Gathers(Gathered),
    /// Adds a device to a team.
    Joins(Joined),
    /// Binds memory to a multicast object.
    Binds(Bound),
    /// Takes it away from there.
    Unbinds(Unbound),
    /// Switches access on, and what the call needs.
    Enables(Named, Option<Demand>),
    /// Switches it off.
    Disables(Named),
    /// Ends an object of the process's own, also where others have it open: frees, destroys, resets it.
    Ends(End),
    /// Copies bytes.
    Copies(Copied),
    /// Reads or writes bytes, and the other side is no device memory, or a structure names it.
    Uses(Used),
    /// Does several copies, of which either side may be device memory.
    UsesEach(Batch),
    /// Launches a kernel.
    Launches(Launched),
    /// Records an event in a stream: the argument that names the event.
    Records(usize),
    /// Returns after work is done.
    Completes(Work),
    /// Has the later work of a stream wait for an event.
    Follows(Followed),
    /// Ends a stream, whose work goes on: the argument that names it.
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
    /// Makes a graph that can be launched, or updates it. The argument that names it, and the one that names the graph whose
    /// nodes it gets.
    Instantiates(usize, usize),
    /// Launches a graph, and the argument that names it.
    Replays(usize),
    /// Gives other parameters to a node of a graph that can be launched.
    Alters(Altered),
    /// Ends a graph that can be launched, or changes it in another way. The argument that names it.
    Discards(usize),
    /// Asks, and changes nothing.
    Asks(Question),
    /// Finds a function; the argument that gets its address, which is replaced by ours where it is in the table.
    LooksUp(usize),
    /// Initializes the driver in the process.
    Begins,
}

/// The index of an argument among those of its function.
///
/// # Panics
///
/// Where there is none of that name: in the table, that does not compile.
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
    /// Those that follow from what a function does.
    pub const fn of(effects: &[Effect]) -> Groups {
        let mut groups = Groups(0);
        let mut index = 0;
        while index < effects.len() {
            groups = match effects[index] {
                Effect::Exports(Shared { object, .. }) => {
                    groups.with(&[Group::Export]).with(object.families())
                }
                Effect::Opens(Shared { object, .. }) => groups.with(&[Group::Open]).with(object.families()),
                Effect::Enables(Named { object, .. }, _) => {
                    groups.with(&[Group::Enable]).with(object.families())
                }
                // What ends all sorts of objects closes what was opened, too; it is called for other reasons.
                Effect::Closes(_) if ends(effects) => groups,
                Effect::Closes(Named { object, .. }) | Effect::Disables(Named { object, .. }) => {
                    groups.with(&[Group::Release]).with(object.families())
                }
                Effect::Ends(End { object, .. }) if object.is_ended_by_name() => {
                    groups.with(&[Group::Lifetime]).with(object.families())
                }
                Effect::Ends(_) => groups.with(&[Group::Lifetime]),
                Effect::Makes(Made { object: Object::Context, .. })
                | Effect::Retains(Named { object: Object::Primary, .. }) => groups.with(&[Group::Query]),
                Effect::Makes(Made { object: Object::Memory, .. }) => groups.with(&[Group::Alloc]),
                Effect::Makes(Made { object: Object::Pointer, .. }) => {
                    groups.with(&[Group::Alloc]).with(Object::Pointer.families())
                }
                Effect::Makes(Made { object, .. }) | Effect::Retains(Named { object, .. }) => {
                    groups.with(object.families())
                }
                Effect::Copies(_) | Effect::Uses(_) | Effect::UsesEach(_) => groups.with(&[Group::Copy]),
                Effect::Launches(_) => groups.with(&[Group::Launch]),
                Effect::Instantiates(..) | Effect::Replays(_) | Effect::Alters(_) | Effect::Discards(_) => {
                    groups.with(&[Group::Graph])
                }
                Effect::Records(_) => groups.with(&[Group::Event]),
                Effect::Completes(_)
                | Effect::Follows(_)
                | Effect::Drops(_)
                | Effect::Awaits(_)
                | Effect::Signals(_)
                | Effect::Posts(_)
                | Effect::Runs(_) => groups.with(&[Group::Order]),
                Effect::Grants(Grant { object, .. }) => groups.with(&[Group::Enable]).with(object.families()),
                Effect::Gathers(_) | Effect::Joins(_) | Effect::Binds(_) | Effect::Unbinds(_) => {
                    groups.with(&[Group::Vmm, Group::Multicast])
                }
                Effect::Asks(Question { subject: Subject::Memory, .. }) => groups.with(&[Group::Vmm]),
                Effect::Asks(Question { subject: Subject::Pool, .. }) => groups.with(&[Group::Pool]),
                Effect::Asks(Question { subject: Subject::Team, .. }) => {
                    groups.with(&[Group::Vmm, Group::Multicast])
                }
                Effect::Asks(Question { subject: Subject::Device, .. })
                | Effect::Finds(_)
                | Effect::Unloads(..) => groups.with(&[Group::Query]),
                Effect::Asks(_) => groups.with(&[Group::Peer]),
                Effect::LooksUp(_) => groups.with(&[Group::Lookup]),
                Effect::Begins => groups.with(&[Group::Init]),
            };
            index += 1;
        }
        groups
    }

    /// These, and those that a library's functions are in.
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

    /// Whether a group is among them.
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
