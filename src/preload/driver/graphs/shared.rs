//! The shared memory that an executable graph uses, and a flag that is set if the work of the graph may wait for other work, or
//! announce the end of other work. Both are determined once per version of the shared ranges.

use super::node::GraphNode;
use super::{AddressRole, GRAPHS, KnownGraph, MOST_USES, NodeUse, RING, Words, each_use_in_ring, oldest_position};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use cupeer_spec::effect::{Altered, Effect};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::nodes::{self, MOST};

/// Kind bit: the graph has nodes other than kernels, copies, and memsets, or not all of its nodes are known.
pub(super) const OTHERS: u32 = 1 << 31;
const KERNELS: u32 = nodes::KERNELS as u32;
const TELLS: u32 = nodes::TELLS as u32;
/// Bit of [`SharedUse::version`]: the graph uses shared memory.
const ANY: u64 = 1;
/// Bit of [`SharedUse::version`]: copies or memsets of the graph use shared memory.
const RANGES: u64 = 2;

/// Memory type `CU_MEMORYTYPE_HOST`.
const HOST: i32 = 1;
/// Memory type `CU_MEMORYTYPE_DEVICE`.
pub(super) const DEVICE: i32 = 2;

/// Uses of shared memory by an executable graph, determined once per version of the shared ranges.
pub(super) struct SharedUse {
    /// Kinds of the nodes of the graph, as bits.
    pub kinds: AtomicU32,
    /// Version of the shared ranges for which the use was determined, plus one, above the bits [`ANY`] and [`RANGES`]; 0 for
    /// none.
    pub version: AtomicU64,
    /// Kinds of the nodes, with the flags that follow from the shared memory.
    flags: AtomicU32,
    /// Number of indexes in `uses`.
    count: AtomicU32,
    /// Indexes in the ring of the uses of shared memory.
    uses: [AtomicU32; MOST],
}

impl SharedUse {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    pub const NEW: SharedUse = SharedUse {
        kinds: AtomicU32::new(0),
        version: AtomicU64::new(0),
        flags: AtomicU32::new(0),
        count: AtomicU32::new(0),
        uses: [const { AtomicU32::new(0) }; MOST],
    };
}

pub(super) fn kind_of(node: &GraphNode) -> u32 {
    match node {
        GraphNode::Kernel(_) => KERNELS,
        GraphNode::Copy(copy) if copy.dst.MemoryType == HOST => TELLS,
        GraphNode::Other => OTHERS,
        _ => 0,
    }
}

/// Notes that a call may have changed an executable graph, so that its nodes are not completely known any more.
pub fn note_possible_change(id: FnId, words: &Words) {
    let exec = match id.spec().effects().first() {
        Some(Effect::Instantiates(exec, _) | Effect::Alters(Altered { exec, .. })) => words[*exec],
        _ => return,
    };
    if let Some(KnownGraph { shared, .. }) = GRAPHS.find(exec) {
        shared.kinds.fetch_or(OTHERS, Relaxed);
        shared.version.store(0, Relaxed);
    }
}

/// Returns true if a node of an executable graph uses memory that is shared in this version of the shared ranges.
#[inline]
pub fn uses_any(handle: u64, version: u32, is_shared: fn(u64) -> bool) -> bool {
    let Some(place) = GRAPHS.find(handle) else { return false };
    let (known, version) = (place.shared.version.load(Relaxed), u64::from(version) + 1);
    let known = if known >> 2 == version { known } else { find_shared_uses(place, version, is_shared) };
    known & ANY != 0
}

#[cold]
#[inline(never)]
fn find_shared_uses(place: &KnownGraph, version: u64, is_shared: fn(u64) -> bool) -> u64 {
    let KnownGraph { number, first, shared, .. } = place;
    let (mut flags, mut count, mut known) = (shared.kinds.load(Relaxed), 0, version << 2);
    if first.load(Relaxed) < oldest_position() {
        flags |= OTHERS;
    }
    each_use_in_ring(place, number.load(Relaxed), &mut |at, kept| {
        let it = kept.read();
        let is_used = is_shared(it.address);
        known |= u64::from(is_used) * ANY;
        if it.part == AddressRole::CopyTo && it.may_be_host && !is_used {
            flags |= TELLS;
        }
        if is_used && it.is_exact {
            known |= RANGES;
            match shared.uses.get(count) {
                Some(place) => place.store(at as u32 % MOST_USES as u32, Relaxed),
                None => flags |= OTHERS,
            }
            count += 1;
        }
    });
    shared.flags.store(flags, Relaxed);
    shared.count.store(count.min(MOST) as u32, Relaxed);
    shared.version.store(known, Relaxed);
    known
}

/// Hands over the shared memory that copies and memsets of an executable graph use, as [`uses_any`] found it. Returns the flags
/// of the graph; `None` if the graph is not known, or not all of its uses are.
pub fn each(handle: u64, work: &mut dyn FnMut(&NodeUse)) -> Option<u64> {
    let KnownGraph { number, shared, .. } = GRAPHS.find(handle)?;
    let (flags, number) = (shared.flags.load(Relaxed), number.load(Relaxed));
    if flags & OTHERS != 0 || shared.version.load(Relaxed) & RANGES == 0 {
        return None;
    }
    let mut is_whole = true;
    for at in &shared.uses[..MOST.min(shared.count.load(Relaxed) as usize)] {
        let kept = &RING[at.load(Relaxed) as usize % MOST_USES];
        is_whole &= kept.number.load(Acquire) == number;
        work(&kept.read());
    }
    is_whole.then_some(flags.into())
}
