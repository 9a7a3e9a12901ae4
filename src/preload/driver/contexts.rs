//! Tracks which context was current in each thread and which contexts ended, as calls show it, so that a finding can
//! tell a thread without a context where it went.

use crate::sys::arch::thread;
use crate::sys::clock;
use crate::sys::every_call::recording_epoch;
use crate::sys::program_memory::copy_value;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Epoch of the recording (`every_call::recording_epoch`) in which a thread last had a context. A forked child has
/// another epoch, so contexts of its parent do not count.
static LAST_EPOCH: AtomicU64 = AtomicU64::new(0);

/// Last contexts that ended. If a context appears at the same address later, its entry is removed, because drivers reuse
/// addresses.
static ENDED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
static NEXT_ENDED: AtomicUsize = AtomicUsize::new(0);

/// Primary context of each of the first devices, and the time of the query that returned it; 0 if it is not known.
static PRIMARY: [(AtomicU64, AtomicU64); 64] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 64];

/// Returns the primary context of a device. Calls `ask`, which queries the driver, if the context is not known or the last answer
/// is old: another thread may retain a new context while a release ends the old one.
pub fn primary_context(device: i32, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
    /// Time for which an answer is valid, in nanoseconds.
    const VALID_FOR: u64 = 100_000_000;
    let Some((place, since)) = PRIMARY.get(device as usize) else { return ask() };
    let (known, now) = (place.load(Relaxed), clock::roughly_now());
    if known != 0 && now.wrapping_sub(since.load(Relaxed)) < VALID_FOR {
        return Some(known);
    }
    let asked = ask();
    since.store(now, Relaxed);
    place.store(asked.unwrap_or(0), Relaxed);
    asked
}

/// Forgets the primary context of a device, because a call may have ended it.
pub fn forget_primary(device: i32) {
    if let Some((place, _)) = PRIMARY.get(device as usize) {
        place.store(0, Relaxed);
    }
}

/// Last results of [`context_and_device`], and the times of their queries.
static DEVICES: [(AtomicU64, AtomicU64); 16] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 16];

/// Returns the address of a current context in the lower 48 bits, and above them the ordinal of the context's device, plus one.
/// Calls `ask` for the ordinal if it is not known, or the last answer is old: another context may be at this address. `now` is a
/// time on the clock of the record.
#[inline(always)]
pub fn context_and_device(context: u64, now: u64, ask: fn() -> i32) -> u64 {
    /// Time for which an answer is valid, in ticks of the clock of the record.
    const VALID_FOR: u64 = 1 << 28;
    const SHIFT: u32 = 48;
    #[cold]
    #[inline(never)]
    fn query_and_store_device(
        (place, since): &(AtomicU64, AtomicU64),
        context: u64,
        now: u64,
        ask: fn() -> i32,
    ) -> u64 {
        let found = context & ((1 << SHIFT) - 1) | ((ask() + 1) as u64) << SHIFT;
        since.store(now, Relaxed);
        place.store(found, Release);
        found
    }
    let place = &DEVICES[(context >> 4 ^ context >> 12) as usize % DEVICES.len()];
    let known = place.0.load(Acquire);
    let is_it = context != 0 && (known ^ context) << (64 - SHIFT) == 0;
    let is_new = is_it && now.wrapping_sub(place.1.load(Relaxed)) < VALID_FOR;
    if is_new { known } else { query_and_store_device(place, context, now, ask) }
}

/// Stores the context that is current in this thread, for findings about later calls without a context. Does nothing
/// if `context` is 0.
pub fn note_current(context: u64) {
    if context == 0 {
        return;
    }
    let epoch = recording_epoch();
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).context = (context, epoch) };
    // Written only if it changes: each write would evict the word from the caches of all other threads.
    if LAST_EPOCH.load(Relaxed) != epoch {
        LAST_EPOCH.store(epoch, Relaxed);
    }
    for ended in ENDED.iter().filter(|ended| ended.load(Relaxed) == context) {
        let _ = ended.compare_exchange(context, 0, AcqRel, Relaxed);
    }
}

/// Last contexts that the process created, each with the ordinal of its device, plus one; 0 for none. Primary contexts are not in
/// this table, because the driver has a query for them.
static CREATED: [(AtomicU64, AtomicU64); 64] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 64];
static NEXT_CREATED: AtomicUsize = AtomicUsize::new(0);

/// Adds a context that the process created on a device to [`CREATED`]. `output` is the address to which the driver
/// wrote the context.
pub fn note_created(output: u64, device: i32) {
    let Some(context) = copy_value(output as *const u64) else { return };
    forget_created(context);
    let is_taken = |(_, its): &&(AtomicU64, AtomicU64)| its.compare_exchange(0, TAKEN, AcqRel, Relaxed).is_ok();
    let oldest = || {
        let oldest = &CREATED[NEXT_CREATED.fetch_add(1, Relaxed) % CREATED.len()];
        oldest.1.store(TAKEN, Release);
        oldest
    };
    let (known, its) = CREATED.iter().find(is_taken).unwrap_or_else(oldest);
    known.store(context, Relaxed);
    its.store(u64::from(device as u32) + 1, Release);
}

/// Placeholder for the device of a context that is being written to [`CREATED`].
const TAKEN: u64 = u64::MAX;

fn forget_created(context: u64) {
    for (_, its) in CREATED.iter().filter(|(known, _)| known.load(Relaxed) == context) {
        its.store(0, Release);
    }
}

/// Returns the devices on which contexts exist that the process created, one bit for each ordinal.
pub fn devices_of_created() -> u64 {
    let all = CREATED.iter().map(|(_, its)| its.load(Acquire));
    all.filter(|its| (1..=64).contains(its)).fold(0, |all, its| all | 1 << (its - 1))
}

/// Returns the device of a context that the process created and that still exists.
pub fn device_of_created(context: u64) -> Option<i32> {
    let its = |(known, its): &(AtomicU64, AtomicU64)| {
        let device = its.load(Acquire);
        let is_it = known.load(Acquire) == context && its.load(Relaxed) == device;
        (is_it && device != 0 && device != TAKEN).then(|| (device - 1) as i32)
    };
    CREATED.iter().find_map(its)
}

/// Adds a context that the process ended to [`ENDED`], and removes it from the other tables.
pub fn note_ended(context: u64) {
    forget_created(context);
    ENDED[NEXT_ENDED.fetch_add(1, Relaxed) % ENDED.len()].store(context, Relaxed);
    DEVICES.iter().for_each(|(known, _)| known.store(0, Relaxed));
    for (primary, _) in &PRIMARY {
        let _ = primary.compare_exchange(context, 0, AcqRel, Relaxed);
    }
}

/// Returns true if the process ended a context, and no context has appeared at the same address since.
pub fn is_ended(context: u64) -> bool {
    ENDED.iter().any(|ended| ended.load(Relaxed) == context)
}

/// Returns the last context that was current in this thread; `None` if this thread had none.
pub fn last_context_of_thread() -> Option<u64> {
    // SAFETY: only this thread and its signal handlers use the block.
    let (context, seen) = unsafe { (*thread()).context };
    (context != 0 && seen == recording_epoch()).then_some(context)
}

/// Returns true if any thread of this process ever had a context.
pub fn has_had_context() -> bool {
    LAST_EPOCH.load(Relaxed) == recording_epoch()
}
