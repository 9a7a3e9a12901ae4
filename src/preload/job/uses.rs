//! Watches the memory that this process shares or has opened for its first uses by copies and memsets, which are recorded: a report
//! can then say who reads and writes it, and where. After a few uses of a range, nobody looks at it any more.
//!
//! Every copy asks [`is_watched`], which takes two loads. Nothing is locked: a range that is written while somebody reads it is
//! found at the next use.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// So many ranges are watched; the next one takes the place of the oldest.
const MOST: usize = 256;
/// So many uses of a range are recorded.
const MOST_USES: u32 = 32;
/// So many uses are recorded in all.
const MOST_IN_ALL: u32 = 4096;
/// So many bits tell granules of 2 MiB apart, by their addresses.
const GRANULES: usize = 1 << 15;
const GRANULE_SHIFT: u32 = 21;

/// A range, and how often it was used.
struct Range {
    start: AtomicU64,
    end: AtomicU64,
    uses: AtomicU32,
}

static RANGES: [Range; MOST] =
    [const { Range { start: AtomicU64::new(0), end: AtomicU64::new(0), uses: AtomicU32::new(0) } }; MOST];
static NEXT: AtomicU32 = AtomicU32::new(0);
static ALL: AtomicU32 = AtomicU32::new(0);
static HAS_ANY: AtomicBool = AtomicBool::new(false);
/// A bit for each granule that a range has an address in.
static BITS: [AtomicU64; GRANULES / 64] = [const { AtomicU64::new(0) }; GRANULES / 64];

fn bit(address: u64) -> (&'static AtomicU64, u64) {
    let granule = (address >> GRANULE_SHIFT) as usize % GRANULES;
    (&BITS[granule / 64], 1 << (granule % 64))
}

/// Watches so many bytes from an address on.
pub fn watch(start: u64, bytes: u64) {
    let end = start.saturating_add(bytes);
    if bytes == 0 || RANGES.iter().any(|range| range.has(start) && range.end.load(Relaxed) == end) {
        return;
    }
    let range = &RANGES[NEXT.fetch_add(1, Relaxed) as usize % MOST];
    range.end.store(0, Relaxed);
    range.start.store(start, Relaxed);
    range.uses.store(0, Relaxed);
    range.end.store(end, Release);
    let granules = (start >> GRANULE_SHIFT)..=((end - 1) >> GRANULE_SHIFT);
    granules.take(GRANULES).for_each(|granule| {
        let (word, bit) = bit(granule << GRANULE_SHIFT);
        word.fetch_or(bit, Relaxed);
    });
    HAS_ANY.store(true, Release);
}

/// Whether a use that begins at an address may be one to record.
#[inline(always)]
pub fn is_watched(address: u64) -> bool {
    HAS_ANY.load(Relaxed) && {
        let (word, bit) = bit(address);
        word.load(Relaxed) & bit != 0
    }
}

impl Range {
    fn has(&self, address: u64) -> bool {
        address < self.end.load(Acquire) && address >= self.start.load(Relaxed)
    }
}

/// Counts a use that begins at an address. Returns whether it is to be recorded, and whether it is the last one.
#[cold]
#[inline(never)]
pub fn count(address: u64) -> Option<bool> {
    let Some(range) = RANGES.iter().find(|range| range.has(address)) else {
        let (word, bit) = bit(address);
        let is_near = |range: &Range| {
            let (start, end) = (range.start.load(Relaxed), range.end.load(Acquire));
            start >> GRANULE_SHIFT <= address >> GRANULE_SHIFT
                && address >> GRANULE_SHIFT <= end >> GRANULE_SHIFT
        };
        if !RANGES.iter().any(is_near) {
            word.fetch_and(!bit, Relaxed);
        }
        return None;
    };
    let uses = range.uses.fetch_add(1, Relaxed) + 1;
    let all = ALL.fetch_add(1, Relaxed) + 1;
    if all >= MOST_IN_ALL {
        HAS_ANY.store(false, Relaxed);
    }
    let is_last = uses >= MOST_USES || all >= MOST_IN_ALL;
    if is_last {
        range.end.store(0, Relaxed);
    }
    Some(is_last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_watched_for_its_first_uses() {
        let (start, bytes) = (0x7abc_0000_0000, 3 << GRANULE_SHIFT);
        assert!(!is_watched(start));
        watch(start, bytes);
        watch(start, bytes);
        assert!(is_watched(start + bytes - 1) && !is_watched(start + bytes));
        for number in 1..=MOST_USES {
            assert_eq!(count(start + u64::from(number)), Some(number == MOST_USES));
        }
        assert_eq!(count(start), None);
        assert!(!is_watched(start), "nobody looks at it any more");
    }
}
