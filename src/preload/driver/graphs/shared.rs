//! The shared memory that an executable graph uses, and whether its work may wait for somebody, or tell somebody that other work is done.
//! Found out once for each version of the shared ranges.

use super::super::questions::GraphNode;
use super::{GRAPHS, MOST_USES, NodeUse, PUT, Part, Place, RING, Words};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use cupeer_spec::effect::{Altered, Effect};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::nodes::{self, MOST};

/// Nodes of other kinds than kernels, copies, and memsets; or they are not known.
pub(super) const OTHERS: u32 = 1 << 31;
const KERNELS: u32 = nodes::KERNELS as u32;
const TELLS: u32 = nodes::TELLS as u32;
/// In [`Shared::version`]: it uses any, and copies or memsets do.
const ANY: u64 = 1;
const RANGES: u64 = 2;

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const HOST: i32 = 1;
pub(super) const DEVICE: i32 = 2;

/// What is known of an executable graph.
pub(super) struct Shared {
    /// The kinds of its nodes.
    pub kinds: AtomicU32,
    /// The version in which this is so, and one, above two bits; 0 if it is to be found out.
    pub version: AtomicU64,
    /// The same kinds, and what follows from the shared memory.
    flags: AtomicU32,
    count: AtomicU32,
    /// Where the uses are in the ring.
    uses: [AtomicU32; MOST],
}

impl Shared {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    pub const NEW: Shared = Shared {
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

/// Notes that a call may have changed an executable graph.
pub fn may_have_changed(id: FnId, words: &Words) {
    let exec = match id.spec().effects().first() {
        Some(Effect::Instantiates(exec, _) | Effect::Alters(Altered { exec, .. })) => words[*exec],
        _ => return,
    };
    if let Some(Place { shared, .. }) = GRAPHS.find(exec) {
        shared.kinds.fetch_or(OTHERS, Relaxed);
        shared.version.store(0, Relaxed);
    }
}

/// Whether a node of an executable graph uses memory that is shared in a version.
#[inline]
pub fn uses_any(handle: u64, version: u32, is_shared: fn(u64) -> bool) -> bool {
    let Some(place) = GRAPHS.find(handle) else { return false };
    let (known, version) = (place.shared.version.load(Relaxed), u64::from(version) + 1);
    let known = if known >> 2 == version { known } else { look(place, version, is_shared) };
    known & ANY != 0
}

#[cold]
#[inline(never)]
fn look(place: &Place, version: u64, is_shared: fn(u64) -> bool) -> u64 {
    let Place { number, first, end, shared, .. } = place;
    let (first, number) = (first.load(Relaxed), number.load(Relaxed));
    let (mut flags, mut count, mut known) = (shared.kinds.load(Relaxed), 0, version << 2);
    let oldest = PUT.load(Relaxed).saturating_sub(MOST_USES as u64);
    if first < oldest {
        flags |= OTHERS;
    }
    for at in first.max(oldest)..end.load(Relaxed) {
        let kept = &RING[at as usize % MOST_USES];
        if kept.number.load(Acquire) != number {
            continue;
        }
        let it = NodeUse::of(kept.about.load(Relaxed), kept.address.load(Relaxed), 1, 0);
        let is_used = is_shared(it.address);
        known |= u64::from(is_used) * ANY;
        if it.part == Part::CopyTo && it.may_be_host && !is_used {
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
    }
    shared.flags.store(flags, Relaxed);
    shared.count.store(count.min(MOST) as u32, Relaxed);
    shared.version.store(known, Relaxed);
    known
}

/// Hands over the shared memory that copies and memsets use, as [`uses_any`] has found it. Returns the flags of the graph; `None` if there
/// is no such memory, or not all is known.
pub fn each(handle: u64, work: &mut dyn FnMut(&NodeUse)) -> Option<u64> {
    let Place { number, shared, .. } = GRAPHS.find(handle)?;
    let (flags, number) = (shared.flags.load(Relaxed), number.load(Relaxed));
    if flags & OTHERS != 0 || shared.version.load(Relaxed) & RANGES == 0 {
        return None;
    }
    let mut is_whole = true;
    for at in &shared.uses[..MOST.min(shared.count.load(Relaxed) as usize)] {
        let kept = &RING[at.load(Relaxed) as usize % MOST_USES];
        is_whole &= kept.number.load(Acquire) == number;
        let [about, address, bytes, value] =
            [&kept.about, &kept.address, &kept.bytes, &kept.value].map(|word| word.load(Relaxed));
        work(&NodeUse::of(about, address, bytes, value));
    }
    is_whole.then_some(flags.into())
}
