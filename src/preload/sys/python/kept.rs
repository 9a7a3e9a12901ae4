//! A cache of lines and of the keys of functions, by a hash of everything that they depend on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many are kept, in words of which the lowest bits are the line: 0 where it is known that there is none.
const KEPT: usize = 4096;
const BITS: u32 = 20;
const LINE: u64 = (1 << BITS) - 1;

static LINES: [AtomicU64; KEPT] = [const { AtomicU64::new(0) }; KEPT];

/// What was kept; `None` where nothing was.
pub fn recall(which: u64) -> Option<Option<u32>> {
    let kept = LINES[which as usize % KEPT].load(Relaxed);
    let line = (kept & LINE) as u32;
    (kept != 0 && (kept ^ which) & !LINE == 0).then_some((line != 0).then_some(line))
}

/// Keeps a line in the place of another one.
pub fn keep(which: u64, line: Option<u32>) {
    let known = u64::from(line.unwrap_or(0));
    // Few files are so long.
    if known <= LINE {
        LINES[which as usize % KEPT].store(which & !LINE | known, Relaxed);
    }
}

/// The keys of functions: each with, before it, what it belongs to, mixed with it. So what two threads have written to at once
/// is nobody's.
static KEYS: [(AtomicU64, AtomicU64); KEPT] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; KEPT];

/// The key that was kept.
pub fn recall_key(which: u64) -> Option<u64> {
    let (mixed, key) = &KEYS[which as usize % KEPT];
    let key = key.load(Relaxed);
    (key != 0 && mixed.load(Relaxed) ^ key == which).then_some(key)
}

/// Keeps a key in the place of another one.
pub fn keep_key(which: u64, key: u64) {
    let place = &KEYS[which as usize % KEPT];
    place.0.store(which ^ key, Relaxed);
    place.1.store(key, Relaxed);
}
