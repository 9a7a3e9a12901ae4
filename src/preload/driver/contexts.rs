//! Tracks which context was current in each thread and which contexts ended, as calls show it, so that a finding can
//! tell a thread without a context where it went.

use crate::sys::arch::thread;
use crate::sys::every_call::epoch;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};

/// The record in which a thread was seen with a context.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The last contexts that have ended, and of which none was seen alive since: their addresses are used again.
static ENDED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The primary contexts of the first devices, as far as they are known; 0 for none.
static PRIMARY: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The primary context of a device. Asks `ask` if it is not known.
pub fn primary(device: i32, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
    let Some(place) = PRIMARY.get(device as usize) else { return ask() };
    let known = place.load(Relaxed);
    if known != 0 {
        return Some(known);
    }
    ask().inspect(|context| place.store(*context, Relaxed))
}

/// Notes that the primary context of a device may have ended.
pub fn forget_primary(device: i32) {
    if let Some(place) = PRIMARY.get(device as usize) {
        place.store(0, Relaxed);
    }
}

/// Notes the context that is current in this thread; 0 is none.
pub fn is_current(context: u64) {
    if context == 0 {
        return;
    }
    let epoch = epoch();
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).context = (context, epoch) };
    // All threads come by: what is written anew each time is fetched anew by all others.
    if SEEN.load(Relaxed) != epoch {
        SEEN.store(epoch, Relaxed);
    }
    for ended in ENDED.iter().filter(|ended| ended.load(Relaxed) == context) {
        let _ = ended.compare_exchange(context, 0, AcqRel, Relaxed);
    }
}

/// Notes that the process has ended a context.
pub fn has_ended(context: u64) {
    ENDED[NEXT.fetch_add(1, Relaxed) % ENDED.len()].store(context, Relaxed);
    for primary in PRIMARY.iter().filter(|primary| primary.load(Relaxed) == context) {
        let _ = primary.compare_exchange(context, 0, AcqRel, Relaxed);
    }
}

/// Whether the process has ended a context, and had none at its address since.
pub fn is_ended(context: u64) -> bool {
    ENDED.iter().any(|ended| ended.load(Relaxed) == context)
}

/// The last context that this thread was seen with.
pub fn last() -> Option<u64> {
    // SAFETY: only this thread and its signal handlers use the block.
    let (context, seen) = unsafe { (*thread()).context };
    (context != 0 && seen == epoch()).then_some(context)
}

/// Whether any thread of this process was seen with a context.
pub fn had_any() -> bool {
    SEEN.load(Relaxed) == epoch()
}
