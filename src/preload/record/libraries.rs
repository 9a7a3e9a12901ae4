//! The libraries that calls come from: each is described in the record before an address of it is.

use super::{about, process};
use crate::arch::thread;
use crate::call;
use crate::resolve::elf;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The most libraries that are remembered; a call from any other is described each time it comes from a new one.
const MOST: usize = 256;

/// Begin and length of what the record of the process knows; a length of 0 is nothing.
static KNOWN: [(AtomicUsize, AtomicUsize); MOST] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST];

/// How many places are taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The record that these are of.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Changes when what is known may be wrong: a library was unloaded.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// See [`GENERATION`].
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Forgets what lies where. Called when a library was closed: another one may come to lie in its place.
pub fn forget() {
    COUNT.store(0, Relaxed);
    GENERATION.fetch_add(1, Release);
}

/// Makes sure that the library of the caller is known, and remembers it for this thread.
#[cold]
#[inline(never)]
pub fn know_slowly(address: usize) {
    call::quietly(|| {
        let generation = GENERATION.load(Acquire);
        let range = know(address);
        // SAFETY: the block is this thread's alone.
        unsafe {
            (*thread()).known = range;
            (*thread()).known_generation = generation;
        }
    });
}

/// Makes sure that the library of an address is known. Gives where that begins, and its length.
pub fn know(address: usize) -> (usize, usize) {
    let epoch = process::epoch();
    if EPOCH.swap(epoch, Relaxed) != epoch {
        // Another record, of a child: it knows nothing yet.
        COUNT.store(0, Relaxed);
    }
    let count = COUNT.load(Acquire).min(MOST);
    for (start, length) in &KNOWN[..count] {
        let (start, length) = (start.load(Relaxed), length.load(Relaxed));
        if address.wrapping_sub(start) < length {
            return (start, length);
        }
    }
    let Some(object) = elf::containing(address) else {
        // Code that was made at run time, as a JIT does: its page counts as known.
        return (address & !0xfff, 0x1000);
    };
    about::library(&object);
    let range = (object.low, object.high - object.low);
    let place = COUNT.fetch_add(1, Relaxed);
    if let Some((start, length)) = KNOWN.get(place) {
        // Two threads may describe a library at once; that says nothing wrong. A reader that sees one half of
        // this describes it once more.
        length.store(0, Relaxed);
        start.store(range.0, Relaxed);
        length.store(range.1, Release);
    }
    range
}
