//! Tracks the memory that executable graphs use: the addresses in their nodes, read from the driver when a graph is instantiated or
//! changed in a process that shares memory.
//!
//! The driver is queried only about a graph that it just accepted, or refused as it refuses memory that is gone, and about the nodes that
//! it returned. A graph belongs to one thread at a time, as cuda.h demands, so no other thread changes it. No lock is held during a query.
//! A graph is forgotten before its handle can mean another one. A call that failed changes nothing here:
//! [`each_use_of_refused_graph`] reads the memory that the graph would have used.
//!
//! Each launch of a process in which shared memory ended looks up its graph here. So readers take no lock and write nothing. The addresses
//! are in a ring, which drops the oldest ones: each has the number of its graph, by which a reader recognizes it.

mod node;
pub mod shared;
mod walk;

use super::kernels;
use super::queries;
use crate::sys::handles::{Blank, Handles, is_handle};
use crate::sys::program_memory;
use core::mem::{MaybeUninit, offset_of, size_of};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::abi::{CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS, CUgraphNodeType};
use cupeer_spec::effect::{Altered, Effect, End, NodeKind};
use cupeer_spec::function::{Direction, FnId, MOST_ARGUMENTS};
use node::GraphNode;
use shared::SharedUse;
use walk::{each_of_node, walk};

/// Number of entries for executable graphs. A graph for which no entry is free is not known.
const MOST: usize = 1 << 12;
/// Number of uses of memory that the ring keeps, of all graphs together: the newest ones.
const MOST_USES: usize = 1 << 15;
/// Number of nodes, including those of child graphs, from which on a graph counts as not completely read.
const MOST_NODES: usize = 4096;
/// Number of launches with memory that is gone after which a graph is no longer examined, because its findings were
/// reported often enough.
const MOST_FOUND: u32 = 4;
/// Placeholder for the handle of a node, if the handle by which calls name the node is not known.
const UNNAMED: u64 = 0;
/// Smallest number that can be an address of device memory: drivers map nothing below their first granule.
const LEAST_ADDRESS: u64 = 1 << 21;

/// Words of the arguments of a call.
type Words = [u64; MOST_ARGUMENTS];

/// Executable graph whose nodes were read.
struct KnownGraph {
    /// Number of the graph, which is never reused.
    number: AtomicU64,
    /// Position of the first use of the graph, in the sequence of all uses ever put into the ring.
    first: AtomicU64,
    /// Position after the last use of the graph, in the same sequence.
    end: AtomicU64,
    /// Last version of the ranges that are gone for which the graph was found to use none of them.
    clean: AtomicU64,
    /// Number of times that the graph was found to use memory that is gone.
    found: AtomicU32,
    shared: SharedUse,
}

impl Blank for KnownGraph {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    const BLANK: KnownGraph = KnownGraph {
        number: AtomicU64::new(0),
        first: AtomicU64::new(0),
        end: AtomicU64::new(0),
        clean: AtomicU64::new(0),
        found: AtomicU32::new(0),
        shared: SharedUse::NEW,
    };
}

static GRAPHS: Handles<KnownGraph, MOST> = Handles::new();
/// Number of the newest graph.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Use of memory by a node, as an entry of the ring.
struct RingUse {
    /// Number of the graph that the use belongs to; 0 while the entry is written, or if it is empty.
    number: AtomicU64,
    /// Handle of the node, or [`UNNAMED`].
    node: AtomicU64,
    address: AtomicU64,
    /// Number of used bytes; for a parameter of a kernel, the handle of the kernel.
    bytes: AtomicU64,
    /// Label of the node and part of the use, packed: see [`NodeLabel`] and [`AddressRole`].
    about: AtomicU64,
    /// Value that a memset writes, plus one; 0 for all other uses.
    value: AtomicU64,
}

static RING: [RingUse; MOST_USES] = [const {
    RingUse {
        number: AtomicU64::new(0),
        node: AtomicU64::new(0),
        address: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        about: AtomicU64::new(0),
        value: AtomicU64::new(0),
    }
}; MOST_USES];
/// Number of uses ever put into the ring.
static USES_PUT: AtomicU64 = AtomicU64::new(0);

/// Name of a node: the index of the node in its graph, if that is known, and the index of the outer node whose child graph
/// contains the node.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NodeLabel {
    pub index: Option<u32>,
    pub within: Option<u32>,
}

/// Role of a used address in its node: destination, source, or kernel parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressRole {
    CopyTo,
    CopyFrom,
    Fill,
    /// Parameter of a kernel, by its index.
    Parameter(u32),
}

/// Use of memory by a node of a graph: a range, or a kernel parameter that may be an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeUse {
    pub label: NodeLabel,
    pub part: AddressRole,
    pub address: u64,
    pub bytes: u64,
    /// Handle of the kernel; 0 for a copy or a memset.
    pub kernel: u64,
    /// True if the node uses all of these bytes.
    pub is_exact: bool,
    /// True if the address may be in host memory.
    pub may_be_host: bool,
    /// Value that a memset writes.
    pub value: Option<u32>,
}

impl NodeUse {
    /// Returns the label and the part of the use, packed: the two numbers of the label (16 bits each, plus one) above the part
    /// and the index of a parameter, or two flags for all other parts.
    fn pack_label_and_role(&self) -> u64 {
        let flags = u64::from(self.is_exact) | u64::from(self.may_be_host) << 1;
        let (part, index) = match self.part {
            AddressRole::CopyTo => (0, flags),
            AddressRole::CopyFrom => (1, flags),
            AddressRole::Fill => (2, flags),
            AddressRole::Parameter(index) => (3, u64::from(index)),
        };
        let [within, node] =
            [self.label.within, self.label.index].map(|number| number.map_or(0, |number| u64::from(number) + 1));
        within << 48 | node << 32 | index << 2 | part
    }

    fn from_packed(about: u64, address: u64, bytes: u64, value: u64) -> NodeUse {
        let part = match about & 3 {
            0 => AddressRole::CopyTo,
            1 => AddressRole::CopyFrom,
            2 => AddressRole::Fill,
            _ => AddressRole::Parameter((about as u32) >> 2),
        };
        let is_parameter = matches!(part, AddressRole::Parameter(_));
        NodeUse {
            label: NodeLabel {
                index: ((about >> 32) as u32 & 0xffff).checked_sub(1),
                within: ((about >> 48) as u32).checked_sub(1),
            },
            part,
            address,
            bytes: if is_parameter { 1 } else { bytes },
            kernel: if is_parameter { bytes } else { 0 },
            is_exact: !is_parameter && about & 4 != 0,
            may_be_host: !is_parameter && about & 8 != 0,
            value: value.checked_sub(1).map(|value| value as u32),
        }
    }
}

impl RingUse {
    fn read(&self) -> NodeUse {
        let [about, address, bytes, value] =
            [&self.about, &self.address, &self.bytes, &self.value].map(|word| word.load(Relaxed));
        NodeUse::from_packed(about, address, bytes, value)
    }
}

/// Returns true if the nodes of an executable graph must be examined: the graph is known, the memory that is gone has changed
/// since the last examination, and findings about the graph were not reported often enough yet.
pub fn is_to_examine(handle: u64, version: u64) -> bool {
    GRAPHS
        .find(handle)
        .is_some_and(|place| place.clean.load(Relaxed) != version && place.found.load(Relaxed) < MOST_FOUND)
}

/// Stores that the nodes of an executable graph use no memory that was gone at this version of the ranges that are
/// gone.
pub fn note_uses_no_gone_memory(handle: u64, version: u64) {
    GRAPHS.find(handle).into_iter().for_each(|place| place.clean.store(version, Relaxed));
}

/// Counts that an executable graph was found to use memory that is gone.
pub fn note_uses_gone_memory(handle: u64) {
    if let Some(place) = GRAPHS.find(handle) {
        place.found.fetch_add(1, Relaxed);
    }
}

/// Calls `work` with each use of memory by the nodes of an executable graph.
pub fn each_use(handle: u64, work: &mut dyn FnMut(&NodeUse)) {
    let Some(place) = GRAPHS.find(handle) else { return };
    let number = place.number.load(Acquire);
    each_use_in_ring(place, number, &mut |_, kept| {
        let it = kept.read();
        // If the entry was overwritten since, it belongs to another graph.
        fence(Acquire);
        if kept.number.load(Relaxed) == number {
            work(&it);
        }
    });
}

/// Calls `work` with each use of a graph that is still in the ring, and the position of the use in the sequence of all
/// uses.
fn each_use_in_ring(place: &KnownGraph, number: u64, work: &mut dyn FnMut(u64, &RingUse)) {
    for at in place.first.load(Relaxed).max(oldest_position())..place.end.load(Relaxed) {
        let kept = kept_at(at);
        if kept.number.load(Acquire) == number {
            work(at, kept);
        }
    }
}

/// Returns the position of the oldest use that is still in the ring.
fn oldest_position() -> u64 {
    USES_PUT.load(Relaxed).saturating_sub(MOST_USES as u64)
}

fn kept_at(position: u64) -> &'static RingUse {
    &RING[position as usize % MOST_USES]
}

/// The uses of memory that an executable graph had before an update. They lead from a label to the handle of a node:
/// calls name a node by its handle in the graph that the executable graph was created from, not in the graph that it
/// is updated to.
struct PreviousUses {
    number: u64,
    first: u64,
    end: u64,
    /// Position, in the sequence of all uses, where the last search found its node. The next search starts here,
    /// because the graph before and the graph after the update list their nodes in the same order.
    position: u64,
}

impl PreviousUses {
    fn new(handle: u64) -> Option<PreviousUses> {
        let place = GRAPHS.find(handle)?;
        let (number, first, end) = (place.number.load(Relaxed), place.first.load(Relaxed), place.end.load(Relaxed));
        Some(PreviousUses { number, first, end, position: first })
    }

    /// Returns the handle of the node with a label; `None` if no use of the node is in the ring.
    fn find_node(&mut self, label: NodeLabel) -> Option<u64> {
        let (first, at) = (self.first.max(oldest_position()), self.position.max(oldest_position()));
        self.position = (at..self.end).chain(first..at).find(|at| {
            let kept = kept_at(*at);
            kept.number.load(Acquire) == self.number && kept.read().label == label
        })?;
        Some(kept_at(self.position).node.load(Relaxed))
    }
}

/// Stores an executable graph, whose uses of memory are in the ring from `first` to before `end`.
fn note(handle: u64, number: u64, (first, end): (u64, u64), kinds: u32) {
    GRAPHS.note(handle, |place| {
        place.number.store(number, Relaxed);
        place.first.store(first, Relaxed);
        place.end.store(end, Relaxed);
        place.clean.store(0, Relaxed);
        place.found.store(0, Relaxed);
        place.shared.kinds.store(kinds, Relaxed);
        place.shared.version.store(0, Relaxed);
    });
}

fn put(number: u64, node: u64, it: &NodeUse) {
    let kept = kept_at(USES_PUT.fetch_add(1, Relaxed));
    kept.number.store(0, Relaxed);
    fence(Release);
    kept.node.store(node, Relaxed);
    kept.address.store(it.address, Relaxed);
    kept.bytes.store(if it.kernel == 0 { it.bytes } else { it.kernel }, Relaxed);
    kept.about.store(it.pack_label_and_role(), Relaxed);
    kept.value.store(it.value.map_or(0, |value| u64::from(value) + 1), Relaxed);
    kept.number.store(number, Release);
}

/// Returns true if any executable graph is known.
pub fn has_any() -> bool {
    GRAPHS.has_any()
}

/// Forgets the executable graphs that a call is about to end. For use in `guarded`.
pub fn forget_before_call(id: FnId, words: &Words) {
    for effect in id.spec().effects() {
        match *effect {
            Effect::Discards(exec) => GRAPHS.forget(words[exec]),
            Effect::Ends(End { object, is_counted: false, .. }) if object.is_context() => GRAPHS.forget_all(|_| true),
            _ => {}
        }
    }
}

/// Reads the nodes of the graph that a call created or changed, and hands over the ranges that the graph allocates when it runs.
/// Returns the handle of the graph. For use in `guarded`.
pub fn read_after_call(id: FnId, words: &Words, allocates: &mut dyn FnMut(u64, u64)) -> Option<u64> {
    match *id.spec().effects().first()? {
        Effect::Instantiates(exec, graph) => {
            let named = words[exec];
            let handle = match id.spec().args()[exec].direction {
                Direction::In => named,
                _ if named == 0 => return None,
                // SAFETY: not null, and after success the driver wrote the handle there.
                _ => unsafe { (named as *const u64).read_unaligned() },
            };
            if !is_handle(handle) {
                return None;
            }
            let (number, first) = (LAST_NUMBER.fetch_add(1, Relaxed) + 1, USES_PUT.load(Relaxed));
            let (mut before, is_update) = (PreviousUses::new(handle), handle == named);
            GRAPHS.forget(handle);
            let mut original = |label, node| match &mut before {
                _ if !is_update => node,
                Some(before) => before.find_node(label).unwrap_or(UNNAMED),
                None => UNNAMED,
            };
            let mut kinds = 0;
            let is_whole = queries::run_in_relaxed_mode(|| {
                walk(words[graph], &mut |_, node, label, it| {
                    kinds |= shared::kind_of(it);
                    match it {
                        GraphNode::Allocation(start, bytes) => allocates(*start, *bytes),
                        it => each_of_node(it, label, &mut |it| put(number, original(label, node), it)),
                    }
                })
            });
            let kinds = if is_whole == Some(true) { kinds } else { shared::OTHERS };
            note(handle, number, (first, USES_PUT.load(Relaxed)), kinds);
            Some(handle)
        }
        Effect::Alters(altered) => alter(words, altered),
        Effect::Ends(end) if has_any() && kernels::released_last(end, words) => {
            GRAPHS.forget_all(|_| true);
            None
        }
        _ => None,
    }
}

/// Replaces the uses of a node whose parameters a call changed. Returns the handle of the executable graph.
fn alter(words: &Words, Altered { kind, exec, node, parameters }: Altered) -> Option<u64> {
    let (place, node, parameters) = (GRAPHS.find(words[exec])?, words[node], words[parameters]);
    let number = place.number.load(Relaxed);
    let (mut is_known, mut is_any_unnamed) = (false, false);
    each_use_in_ring(place, number, &mut |_, kept| {
        let its = kept.node.load(Relaxed);
        is_known |= its == node;
        is_any_unnamed |= its == UNNAMED;
    });
    if !is_known && is_any_unnamed {
        // The changed node may be any of the unnamed nodes, whose uses may be outdated.
        GRAPHS.forget(words[exec]);
        return None;
    }
    let forget = |is_it: &dyn Fn(u64) -> bool| {
        let mut label = NodeLabel::default();
        each_use_in_ring(place, number, &mut |_, kept| {
            if is_it(kept.node.load(Relaxed)) {
                label = kept.read().label;
                kept.number.store(0, Release);
            }
        });
        label
    };
    let kinds = if kind == NodeKind::Child {
        queries::run_in_relaxed_mode(|| alter_child(node, parameters, number, &forget))
    } else {
        let label = forget(&|kept| kept == node);
        let it = read_given_work(kind, parameters);
        it.iter().for_each(|it| each_of_node(it, label, &mut |it| put(number, node, it)));
        it.as_ref().map(shared::kind_of)
    };
    place.shared.kinds.fetch_or(kinds.unwrap_or(shared::OTHERS), Relaxed);
    place.end.store(USES_PUT.load(Relaxed), Relaxed);
    place.clean.store(0, Relaxed);
    place.shared.version.store(0, Relaxed);
    Some(words[exec])
}

/// Function that forgets the nodes of a graph whose handles meet a condition, and returns the label of the last of these nodes.
type Forget<'a> = dyn Fn(&dyn Fn(u64) -> bool) -> NodeLabel + 'a;

/// Replaces the recorded nodes of a child graph by the nodes of another graph. Calls continue to name each node by the handle of
/// the previous node. Returns the kinds of the new nodes.
fn alter_child(node: u64, graph: u64, number: u64, forget: &Forget) -> Option<u32> {
    let GraphNode::Graph(before) = node::query_node_work(node) else { return None };
    let mut nodes = walk::take_buffer()?;
    let handles = &mut nodes.handles;
    let mut count = 0;
    walk(before, &mut |at, handle, _, _| {
        handles[at] = handle;
        count = at + 1;
    })?;
    let handles = &handles[..count];
    let NodeLabel { within, .. } = forget(&|kept| handles.contains(&kept));
    let mut kinds = 0;
    let is_whole = walk(graph, &mut |at, handle, NodeLabel { index, .. }, it| {
        let handle = handles.get(at).copied().unwrap_or(handle);
        kinds |= shared::kind_of(it);
        each_of_node(it, NodeLabel { index, within }, &mut |it| put(number, handle, it));
    })?;
    is_whole.then_some(kinds)
}

/// Returns the work that a call gave to a node, or tried to give to it. `None` if the parameters cannot be read.
fn read_given_work(kind: NodeKind, parameters: u64) -> Option<GraphNode> {
    /// Copies at most `bytes` bytes of a structure from the program's memory. The other bytes are zero.
    fn copy_structure<T: Plain>(at: u64, bytes: usize) -> Option<T> {
        let mut place = MaybeUninit::<T>::zeroed();
        // SAFETY: the bytes are those of the place, which are initialized.
        let copy = unsafe { core::slice::from_raw_parts_mut(place.as_mut_ptr().cast(), bytes.min(size_of::<T>())) };
        let wanted = copy.len();
        // SAFETY: any bytes are a value of a plain structure.
        (program_memory::copy(at as usize, copy) == wanted).then(|| unsafe { place.assume_init() })
    }
    let (kind, at, before_copy) = match kind {
        // The structure begins with the type and three numbers. For a copy, flags and the context follow before its parameters.
        NodeKind::Any => match CUgraphNodeType(copy_structure::<i32>(parameters, 4)?) {
            CUgraphNodeType::KERNEL => (NodeKind::Kernel, parameters + 16, 0),
            CUgraphNodeType::MEMCPY => (NodeKind::Copy, parameters + 16, 16),
            CUgraphNodeType::MEMSET => (NodeKind::Fill, parameters + 16, 0),
            _ => return Some(GraphNode::Other),
        },
        kind => (kind, parameters, 0),
    };
    match kind {
        NodeKind::Copy => copy_structure(at + before_copy, usize::MAX).map(GraphNode::Copy),
        NodeKind::Fill => copy_structure(at, usize::MAX).map(GraphNode::Fill),
        // In drivers before CUDA 12, the structure ends here.
        NodeKind::Kernel => copy_structure(at, offset_of!(CUDA_KERNEL_NODE_PARAMS, kern)).map(GraphNode::Kernel),
        NodeKind::Any | NodeKind::Child => None,
    }
}

/// A structure of numbers and pointers, for which any bytes are a valid value.
///
/// # Safety
///
/// It has no other members, and no padding that is read.
unsafe trait Plain {}
// SAFETY: all of them are numbers and pointers, as cuda.h declares them.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for CUDA_MEMCPY3D_v2 {}
// SAFETY: as above.
unsafe impl Plain for CUDA_MEMSET_NODE_PARAMS {}
// SAFETY: as above.
unsafe impl Plain for CUDA_KERNEL_NODE_PARAMS {}

/// Hands over the memory that copies and memsets would have used in a graph that a call failed to create, change, or launch.
pub fn each_use_of_refused_graph(id: FnId, word: impl Fn(usize) -> u64, work: &mut dyn FnMut(&NodeUse)) {
    let Some(effect) = id.spec().effects().first() else { return };
    match *effect {
        Effect::Instantiates(_, graph) => walk_refused(word(graph), work),
        Effect::Alters(Altered { kind: NodeKind::Child, parameters, .. }) => {
            walk_refused(word(parameters), work);
        }
        Effect::Alters(Altered { kind, exec, node, parameters }) => {
            let mut label = NodeLabel::default();
            if let Some(place) = GRAPHS.find(word(exec)) {
                each_use_in_ring(place, place.number.load(Acquire), &mut |_, kept| {
                    if kept.node.load(Relaxed) == word(node) {
                        label = kept.read().label;
                    }
                });
            }
            if let Some(it @ (GraphNode::Copy(_) | GraphNode::Fill(_))) = read_given_work(kind, word(parameters)) {
                each_of_node(&it, label, work);
            }
        }
        Effect::Replays(exec) => each_use(word(exec), work),
        _ => {}
    }
}

/// Hands over the memory that copies and memsets use in a graph that a call named. `graph` need not be a handle, so this reads
/// nothing unless memory is mapped there: the driver would read that memory.
fn walk_refused(graph: u64, work: &mut dyn FnMut(&NodeUse)) {
    if is_handle(graph) && program_memory::is_mapped(graph) {
        queries::run_in_relaxed_mode(|| {
            walk(graph, &mut |_, _, label, it| match it {
                GraphNode::Copy(_) | GraphNode::Fill(_) => each_of_node(it, label, work),
                _ => {}
            })
        });
    }
}

#[cfg(test)]
mod tests;
