//! What this process closed lately, so that a second close can be told from a wrong pointer.

use crate::sys::clock;
use core::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::record::live::Entry;

/// So many are remembered, by their addresses.
const REMEMBERED: usize = 256;

/// One mapping that was closed for good. The address is written last, and taken away first.
struct ClosedMapping {
    address: AtomicU64,
    fingerprint: AtomicU64,
    monotonic: AtomicU64,
    with_context: AtomicBool,
}

static CLOSED: [ClosedMapping; REMEMBERED] = [const {
    ClosedMapping {
        address: AtomicU64::new(0),
        fingerprint: AtomicU64::new(0),
        monotonic: AtomicU64::new(0),
        with_context: AtomicBool::new(false),
    }
}; REMEMBERED];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Remembers that a mapping was closed, or went `with_context`.
pub fn note(entry: &Entry, with_context: bool) {
    let place = &CLOSED[NEXT.fetch_add(1, Relaxed) % REMEMBERED];
    place.address.store(0, Relaxed);
    // Who reads any of what follows sees that the address is gone.
    fence(Release);
    place.fingerprint.store(entry.fingerprint, Relaxed);
    place.monotonic.store(clock::now(), Relaxed);
    place.with_context.store(with_context, Relaxed);
    place.address.store(entry.address, Release);
}

/// What is remembered of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastClose {
    pub fingerprint: u64,
    /// When it was closed, in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    pub with_context: bool,
}

/// Whether an address was closed lately: the last time.
pub fn find(address: u64) -> Option<LastClose> {
    let all = CLOSED.iter().filter(|place| address != 0 && place.address.load(Acquire) == address);
    all.filter_map(|place| {
        let remembered = LastClose {
            fingerprint: place.fingerprint.load(Relaxed),
            monotonic: place.monotonic.load(Relaxed),
            with_context: place.with_context.load(Relaxed),
        };
        // Another mapping may have taken the place meanwhile.
        fence(Acquire);
        (place.address.load(Relaxed) == address).then_some(remembered)
    })
    .max_by_key(|remembered| remembered.monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::live::WORDS;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut entry = Entry::from_words([0; WORDS]);
        for address in 1..=REMEMBERED as u64 + 3 {
            (entry.address, entry.fingerprint) = (address << 12, address);
            note(&entry, false);
        }
        assert_eq!(find(3 << 12), None);
        let last = REMEMBERED as u64 + 3;
        assert_eq!(find(last << 12).map(|last| last.fingerprint), Some(last));
        assert_eq!(find(0), None);
    }
}
