//! What this process closed lately, so that a second close can be told from a wrong pointer.

use crate::sys::clock;
use core::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::record::live::{Entry, LIBRARY};

/// So many are remembered, by their addresses.
const REMEMBERED: usize = 256;

/// One mapping that was closed for good. The address is written last, and taken away first.
struct ClosedMapping {
    address: AtomicU64,
    fingerprint: AtomicU64,
    monotonic: AtomicU64,
    opener: [AtomicU64; LIBRARY / 8],
    offset: AtomicU64,
    with_context: AtomicBool,
}

static CLOSED: [ClosedMapping; REMEMBERED] = [const {
    ClosedMapping {
        address: AtomicU64::new(0),
        fingerprint: AtomicU64::new(0),
        monotonic: AtomicU64::new(0),
        opener: [const { AtomicU64::new(0) }; LIBRARY / 8],
        offset: AtomicU64::new(0),
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
    for (word, bytes) in place.opener.iter().zip(entry.library.chunks(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
    }
    place.offset.store(entry.offset, Relaxed);
    place.with_context.store(with_context, Relaxed);
    place.address.store(entry.address, Release);
}

/// What is remembered of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastClose {
    /// Of which handle.
    pub fingerprint: u64,
    /// When it was closed, in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// Who had opened it: the file name of the library, and the offset there.
    pub opener: ([u8; LIBRARY], u64),
    /// Whether it went with its context.
    pub with_context: bool,
}

/// Whether an address was closed lately: the last time.
pub fn find(address: u64) -> Option<LastClose> {
    let all = CLOSED.iter().filter(|place| address != 0 && place.address.load(Acquire) == address);
    all.filter_map(|place| {
        let mut library = [0; LIBRARY];
        for (bytes, word) in library.chunks_mut(8).zip(&place.opener) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let remembered = LastClose {
            fingerprint: place.fingerprint.load(Relaxed),
            monotonic: place.monotonic.load(Relaxed),
            opener: (library, place.offset.load(Relaxed)),
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

    #[test]
    fn the_last_ones_are_remembered() {
        // SAFETY: an entry is numbers and arrays of numbers.
        let mut entry: Entry = unsafe { core::mem::zeroed() };
        for address in 1..=REMEMBERED as u64 + 3 {
            (entry.address, entry.fingerprint) = (address << 12, address);
            entry.library[..3].copy_from_slice(b"abc");
            note(&entry, false);
        }
        assert_eq!(find(3 << 12), None);
        let last = find((REMEMBERED as u64 + 3) << 12).expect("the last one");
        assert_eq!((last.fingerprint, &last.opener.0[..4]), (REMEMBERED as u64 + 3, &b"abc\0"[..]));
        assert_eq!(find(0), None);
    }
}
