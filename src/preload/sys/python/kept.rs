//! A cache of lines and of the keys of functions, by a hash of everything that they depend on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of entries of the cache. Untouched pages cost nothing.
const ENTRIES: usize = 8192;

/// The cached numbers, each after its hash, which is mixed with the number: if two threads write an entry at once, the pair
/// matches no hash. 0 if the entry is empty.
static ALL: [(AtomicU64, AtomicU64); ENTRIES] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; ENTRIES];

/// Returns the number that is cached under a hash.
pub fn recall(hash: u64) -> Option<u64> {
    let (mixed, number) = &ALL[hash as usize % ENTRIES];
    let number = number.load(Relaxed);
    (number != 0 && mixed.load(Relaxed) ^ number == hash).then_some(number)
}

/// Caches a number under a hash, in place of another one.
pub fn keep(hash: u64, number: u64) {
    let (mixed, place) = &ALL[hash as usize % ENTRIES];
    mixed.store(hash ^ number, Relaxed);
    place.store(number, Relaxed);
}
