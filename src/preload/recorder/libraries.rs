//! The libraries that calls came from. Each is described in the record before an address in it is used.

use super::about;
use crate::sys::arch::thread;
use crate::sys::elf;
use crate::sys::every_call::{epoch, libraries_generation};
use crate::sys::guard::guarded;
use crate::sys::python;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The most libraries that are remembered; a call from any other is described each time it comes from a new one.
const MOST: usize = 256;

/// One that the record of the process knows.
struct KnownLibrary {
    start: AtomicUsize,
    /// 0 where there is none.
    length: AtomicUsize,
    /// A hash of its path.
    path: AtomicU64,
    /// Its length, also when it is gone: it often comes again.
    size: AtomicUsize,
}

static KNOWN: [KnownLibrary; MOST] = [const {
    KnownLibrary {
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        path: AtomicU64::new(0),
        size: AtomicUsize::new(0),
    }
}; MOST];

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The record that these are of.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The generation of libraries for which that was looked at.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Forgets what does not lie where it lay: after a library was unloaded, another one may have come in its place.
fn forget() {
    let generation = libraries_generation();
    if GENERATION.load(Acquire) == generation {
        return;
    }
    let all = &KNOWN[..COUNT.load(Acquire).min(MOST)];
    let mut is_there = [false; MOST];
    // What is not on the way of this thread's own call may be unloaded at any moment, but not while the loader walks.
    elf::each(|object| {
        for (known, is_there) in all.iter().zip(&mut is_there) {
            let start = known.start.load(Relaxed);
            let begins_there = || object.part(start).is_some_and(|part| part.start == start);
            *is_there |= known.path.load(Relaxed) == object.path_hash() && begins_there();
        }
        false
    });
    for (known, _) in all.iter().zip(is_there).filter(|(_, is_there)| !is_there) {
        known.length.store(0, Relaxed);
    }
    // Last: who sees it finds nothing that is not so any more. Several threads may do the same.
    GENERATION.store(generation, Release);
}

/// Makes sure that the library of the caller is known, and remembers it for this thread.
#[cold]
#[inline(never)]
pub fn know_slowly(address: usize) {
    guarded(|| {
        let generation = libraries_generation();
        let range = know(address);
        // SAFETY: the block belongs to this thread and its signal handlers. One that comes in between finds no library that has
        // no length.
        unsafe {
            let known = &raw mut (*thread()).known;
            (&raw mut (*known).1).write_volatile(0);
            (&raw mut (*known).0).write_volatile(range.0);
            (&raw mut (*thread()).known_generation).write_volatile(generation);
            (&raw mut (*known).1).write_volatile(range.1);
        }
    });
}

/// Makes sure that the library of an address is known. Gives where that begins, and its length.
pub fn know(address: usize) -> (usize, usize) {
    forget();
    let epoch = epoch();
    if EPOCH.swap(epoch, Relaxed) != epoch {
        // Another record, of a child: it knows nothing yet.
        COUNT.store(0, Relaxed);
    }
    let count = COUNT.load(Acquire).min(MOST);
    for known in &KNOWN[..count] {
        let (start, length) = (known.start.load(Relaxed), known.length.load(Relaxed));
        if address.wrapping_sub(start) < length {
            return (start, length);
        }
    }
    let Some((object, part)) =
        elf::containing(address).and_then(|object| Some((object, object.part(address)?)))
    else {
        // Code that was made at run time, as a JIT does: its page counts as known.
        return (address & !0xfff, 0x1000);
    };
    let range = (part.start, part.len());
    // One that was closed and lies where it lay, as plugins do that are opened again and again.
    let again = KNOWN[..count].iter().find(|known| {
        known.length.load(Relaxed) == 0
            && (known.start.load(Relaxed), known.size.load(Relaxed)) == range
            && known.path.load(Relaxed) == object.path_hash()
    });
    if let Some(known) = again {
        known.length.store(range.1, Release);
        return range;
    }
    about::library(&object, &part);
    python::meet(&object);
    // Two threads may describe a library at once; that says nothing wrong.
    let free = KNOWN[..count].iter().find(|known| known.length.load(Relaxed) == 0);
    if let Some(known) = free.or_else(|| KNOWN.get(COUNT.fetch_add(1, Relaxed))) {
        known.length.store(0, Relaxed);
        known.path.store(object.path_hash(), Relaxed);
        known.start.store(range.0, Relaxed);
        known.size.store(range.1, Relaxed);
        known.length.store(range.1, Release);
    }
    range
}
