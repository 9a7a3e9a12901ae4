//! Watches the memory that this process shares or has opened. Calls that use it, or that order these uses, are recorded.
//!
//! Every copy calls [`may_be_shared`], which takes two loads. There is no lock: if a range is written during a read, the next use
//! finds it.

use crate::resolve::needs::HistoryCondition;
use crate::resolve::traced;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Largest number of ranges that are watched. When the table is full, the next range replaces the oldest.
const MOST: usize = 256;
/// Number of bits for granules of 2 MiB.
const GRANULES: usize = 1 << 15;
const GRANULE_SHIFT: u32 = 21;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

static RANGES: [Range; MOST] = [const { Range { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; MOST];
/// Number of additions that found no free entry to reuse. The first entries of the table, up to this number, are in
/// use.
static COUNT: AtomicU32 = AtomicU32::new(0);
static HAS_ANY: AtomicBool = AtomicBool::new(false);
/// Counter that increases when a range is added or forgotten.
static VERSION: AtomicU32 = AtomicU32::new(0);
/// A bit for each granule in which a watched range has an address, at the granule's number modulo [`GRANULES`].
static BITS: [AtomicU64; GRANULES / 64] = [const { AtomicU64::new(0) }; GRANULES / 64];

/// Index of the range that was added last in each granule, which is checked first.
static LAST_ADDED: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];

fn last_added(address: u64) -> &'static AtomicU8 {
    &LAST_ADDED[(address >> GRANULE_SHIFT) as usize % LAST_ADDED.len()]
}

fn granule_bit(address: u64) -> (&'static AtomicU64, u64) {
    let granule = (address >> GRANULE_SHIFT) as usize % GRANULES;
    (&BITS[granule / 64], 1 << (granule % 64))
}

fn ranges() -> &'static [Range] {
    &RANGES[..MOST.min(COUNT.load(Relaxed) as usize)]
}

/// Watches a range of memory, so that calls that use it are recorded.
pub fn watch(start: u64, bytes: u64) {
    let end = start.saturating_add(bytes);
    if bytes == 0 || ranges().iter().any(|range| range.has(start) && range.end.load(Relaxed) == end) {
        return;
    }
    let is_free = |range: &&Range| range.end.load(Relaxed) == 0;
    let next = || COUNT.fetch_add(1, Relaxed) as usize % MOST;
    let place = ranges().iter().position(|range| is_free(&range)).unwrap_or_else(next);
    let range = &RANGES[place];
    range.end.store(0, Relaxed);
    range.start.store(start, Relaxed);
    range.end.store(end, Release);
    let granules = (start >> GRANULE_SHIFT)..=((end - 1) >> GRANULE_SHIFT);
    granules.take(GRANULES).for_each(|granule| {
        let (word, bit) = granule_bit(granule << GRANULE_SHIFT);
        word.fetch_or(bit, Relaxed);
        last_added(granule << GRANULE_SHIFT).store(place as u8, Relaxed);
    });
    HAS_ANY.store(true, Release);
    VERSION.fetch_add(1, Release);
    traced::note_condition_met(HistoryCondition::Event);
}

/// Stops watching the range that begins at this address, because it is no longer shared.
pub fn forget(start: u64) {
    for range in ranges().iter().filter(|range| range.start.load(Relaxed) == start) {
        range.end.store(0, Relaxed);
    }
    VERSION.fetch_add(1, Release);
}

/// Returns a counter that changes when a range is added or forgotten.
#[inline]
pub fn version() -> u32 {
    VERSION.load(Acquire)
}

/// Returns true if any memory of this process is or was watched.
#[inline(always)]
pub fn has_any() -> bool {
    HAS_ANY.load(Relaxed)
}

/// Returns false if an address is certainly not in shared memory.
#[inline(always)]
pub fn may_be_shared(address: u64) -> bool {
    has_any() && has_bit(address)
}

/// Returns false if one or two addresses are certainly not in shared memory.
#[inline(always)]
pub fn may_any_be_shared(first: u64, second: Option<u64>) -> bool {
    has_any() && (has_bit(first) || second.is_some_and(has_bit))
}

#[inline(always)]
fn has_bit(address: u64) -> bool {
    let (word, bit) = granule_bit(address);
    word.load(Relaxed) & bit != 0
}

impl Range {
    fn has(&self, address: u64) -> bool {
        address < self.end.load(Acquire) && address >= self.start.load(Relaxed)
    }
}

/// Returns true if an address is in shared memory.
#[inline(always)]
pub fn is_shared(address: u64) -> bool {
    may_be_shared(address) && {
        let likely = &RANGES[last_added(address).load(Relaxed) as usize % MOST];
        likely.has(address) || ranges().iter().any(|range| range.has(address))
    }
}

/// Returns true if one watched range contains both addresses.
pub fn are_in_one_range(one: u64, other: u64) -> bool {
    ranges().iter().any(|range| range.has(one) && range.has(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_watched_while_it_is_shared() {
        let (start, bytes) = (0x7abc_0000_0000, 3 << GRANULE_SHIFT);
        assert!(!may_be_shared(start));
        watch(start, bytes);
        watch(start, bytes);
        assert!(may_be_shared(start + bytes - 1) && !may_be_shared(start + bytes));
        assert!(is_shared(start) && is_shared(start + bytes - 1) && !is_shared(start - 1));
        forget(start);
        assert!(!is_shared(start));
    }
}
