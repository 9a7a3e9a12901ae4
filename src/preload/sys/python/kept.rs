//! A cache of lines and of the keys of functions, by a hash of everything that they depend on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of entries, of which untouched pages cost nothing.
const ENTRIES: usize = 8192;

/// The numbers, each after its hash, which is mixed with the number: if two threads write at once, the pair matches no
/// hash. 0 if the entry is empty.
static ALL: [(AtomicU64, AtomicU64); ENTRIES] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; ENTRIES];

/// Returns the number that was kept under a hash.
pub fn recall(hash: u64) -> Option<u64> {
    let (mixed, number) = &ALL[hash as usize % ENTRIES];
    let number = number.load(Relaxed);
    (number != 0 && mixed.load(Relaxed) ^ number == hash).then_some(number)
}

/// Keeps a number in the place of another one.
pub fn keep(hash: u64, number: u64) {
    let (mixed, place) = &ALL[hash as usize % ENTRIES];
    mixed.store(hash ^ number, Relaxed);
    place.store(number, Relaxed);
}
