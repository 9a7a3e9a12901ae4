//! Watches the memory that this process shares or has opened: what uses it is recorded, and what orders these uses.
//!
//! Every copy asks [`may_be_shared`], which takes two loads. Nothing is locked: a range that is written while somebody reads it is
//! found at the next use.

use crate::resolve::needs::Needs;
use crate::resolve::traced;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// So many ranges are watched; the next one takes the place of the oldest.
const MOST: usize = 256;
/// So many bits tell granules of 2 MiB apart, by their addresses.
const GRANULES: usize = 1 << 15;
const GRANULE_SHIFT: u32 = 21;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

static RANGES: [Range; MOST] = [const { Range { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; MOST];
/// How many were ever watched.
static COUNT: AtomicU32 = AtomicU32::new(0);
static HAS_ANY: AtomicBool = AtomicBool::new(false);
/// Increases when a range is watched, or is not any more.
static VERSION: AtomicU32 = AtomicU32::new(0);
/// A bit for each granule that a range has an address in.
static BITS: [AtomicU64; GRANULES / 64] = [const { AtomicU64::new(0) }; GRANULES / 64];

/// The range that was watched last in each granule, for a first look.
static LAST: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];

fn last(address: u64) -> &'static AtomicU8 {
    &LAST[(address >> GRANULE_SHIFT) as usize % LAST.len()]
}

fn bit(address: u64) -> (&'static AtomicU64, u64) {
    let granule = (address >> GRANULE_SHIFT) as usize % GRANULES;
    (&BITS[granule / 64], 1 << (granule % 64))
}

fn ranges() -> &'static [Range] {
    &RANGES[..MOST.min(COUNT.load(Relaxed) as usize)]
}

/// Watches so many bytes from an address on.
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
        let (word, bit) = bit(granule << GRANULE_SHIFT);
        word.fetch_or(bit, Relaxed);
        last(granule << GRANULE_SHIFT).store(place as u8, Relaxed);
    });
    HAS_ANY.store(true, Release);
    VERSION.fetch_add(1, Release);
    traced::wake(Needs::Event);
}

/// Does not watch any more what begins there: it is not shared now.
pub fn forget(start: u64) {
    let is_it = |range: &&Range| range.start.load(Relaxed) == start;
    ranges().iter().filter(is_it).for_each(|range| range.end.store(0, Relaxed));
    VERSION.fetch_add(1, Release);
}

/// A number that is another one when other ranges are watched.
#[inline]
pub fn version() -> u32 {
    VERSION.load(Acquire)
}

/// Whether any memory is watched, or was.
#[inline(always)]
pub fn has_any() -> bool {
    HAS_ANY.load(Relaxed)
}

/// Whether a use that begins at an address may be one of memory that is shared.
#[inline(always)]
pub fn may_be_shared(address: u64) -> bool {
    has_any() && has_bit(address)
}

/// The same of one or two addresses.
#[inline(always)]
pub fn may_any_be_shared(first: u64, second: Option<u64>) -> bool {
    has_any() && (has_bit(first) || second.is_some_and(has_bit))
}

#[inline(always)]
fn has_bit(address: u64) -> bool {
    let (word, bit) = bit(address);
    word.load(Relaxed) & bit != 0
}

impl Range {
    fn has(&self, address: u64) -> bool {
        address < self.end.load(Acquire) && address >= self.start.load(Relaxed)
    }
}

/// Whether memory at an address is shared.
#[inline(always)]
pub fn is_shared(address: u64) -> bool {
    may_be_shared(address) && {
        let likely = &RANGES[last(address).load(Relaxed) as usize % MOST];
        likely.has(address) || ranges().iter().any(|range| range.has(address))
    }
}

/// Whether two addresses are of the same memory that is shared.
pub fn are_one(one: u64, other: u64) -> bool {
    ranges().iter().any(|range| range.has(one) && range.has(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_watched_until_it_is_shared_no_more() {
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
