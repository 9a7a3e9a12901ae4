//! Tracks the libraries that calls came from. The record describes each before it has an address in it.

use super::about;
use crate::sys::arch::thread;
use crate::sys::elf;
use crate::sys::every_call::{libraries_generation, recording_epoch};
use crate::sys::guard::guarded;
use crate::sys::python;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Largest number of libraries that are remembered. Any other library is described again whenever a thread calls from it after
/// calling from a different one.
const MOST: usize = 256;

/// A library that the record describes.
struct KnownLibrary {
    start: AtomicUsize,
    /// Length of the library in bytes; 0 if the place is free, or the library was unloaded.
    length: AtomicUsize,
    /// Hash of the path of the library.
    path: AtomicU64,
    /// Length of the library in bytes, kept after the library was unloaded, because plugins are often loaded again.
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

/// Epoch of the record that describes the libraries in [`KNOWN`].
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Value of [`libraries_generation`] at the last run of [`forget_unloaded`].
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Marks libraries in [`KNOWN`] as unloaded if they are no longer at their addresses, because another library may be there now.
fn forget_unloaded() {
    let generation = libraries_generation();
    if GENERATION.load(Acquire) == generation {
        return;
    }
    let all = &KNOWN[..COUNT.load(Acquire).min(MOST)];
    let mut is_loaded = [false; MOST];
    // Another thread can unload any library that is not on this thread's stack. While the loader lists the libraries, none is
    // unloaded.
    elf::each(|object| {
        for (known, is_loaded) in all.iter().zip(&mut is_loaded) {
            let start = known.start.load(Relaxed);
            let begins_there = || object.part(start).is_some_and(|part| part.start == start);
            *is_loaded |= known.path.load(Relaxed) == object.path_hash() && begins_there();
        }
        false
    });
    for (known, _) in all.iter().zip(is_loaded).filter(|(_, is_loaded)| !is_loaded) {
        known.length.store(0, Relaxed);
    }
    // Stored after the changes to the table, because a thread that reads this generation relies on them. Several threads may do
    // all this at once.
    GENERATION.store(generation, Release);
}

/// Describes the library that contains the return address of a call if the record does not describe it yet, and remembers it for
/// this thread.
#[cold]
#[inline(never)]
pub fn describe_and_remember(address: usize) {
    guarded(|| {
        let generation = libraries_generation();
        let range = describe_library_of(address);
        // SAFETY: the block belongs to this thread and its signal handlers. A handler that runs in between
        // finds a length of 0, so no library.
        unsafe {
            let known = &raw mut (*thread()).known;
            (&raw mut (*known).1).write_volatile(0);
            (&raw mut (*known).0).write_volatile(range.0);
            (&raw mut (*thread()).known_generation).write_volatile(generation);
            (&raw mut (*known).1).write_volatile(range.1);
        }
    });
}

/// Describes the library that contains an address if the record does not describe it yet. Returns the library's start and length
/// in bytes.
pub fn describe_library_of(address: usize) -> (usize, usize) {
    forget_unloaded();
    let epoch = recording_epoch();
    if EPOCH.swap(epoch, Relaxed) != epoch {
        // The new record of a forked child describes no library yet.
        COUNT.store(0, Relaxed);
    }
    let count = COUNT.load(Acquire).min(MOST);
    for known in &KNOWN[..count] {
        let (start, length) = (known.start.load(Relaxed), known.length.load(Relaxed));
        if address.wrapping_sub(start) < length {
            return (start, length);
        }
    }
    let Some((object, part)) = elf::containing(address).and_then(|object| Some((object, object.part(address)?))) else {
        // The address is in code that was generated at run time, so only its page of 4 KiB counts as described.
        return (address & !0xfff, 0x1000);
    };
    let range = (part.start, part.len());
    // The library, such as a plugin, may have been unloaded and loaded again at the same address.
    let again = KNOWN[..count].iter().find(|known| {
        known.length.load(Relaxed) == 0
            && (known.start.load(Relaxed), known.size.load(Relaxed)) == range
            && known.path.load(Relaxed) == object.path_hash()
    });
    if let Some(known) = again {
        known.length.store(range.1, Release);
        return range;
    }
    about::add_library(&object, &part);
    python::note_interpreter(&object);
    // Two threads may describe the same library at once, which is harmless.
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
