//! The clock of the record: the time stamp counter where the kernel itself keeps time by it, because that costs
//! half of what the kernel's clock costs; else the kernel's monotonic clock.

use super::process;
use crate::sys::arch;
use crate::sys::clock as system_clock;
use crate::sys::every_call::EVERY_CALL;
use crate::sys::lock::Lock;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::record::{Moment, clock};

/// Now, on the clock of the record.
#[inline(always)]
pub fn now() -> u64 {
    if EVERY_CALL.by_counter.load(Relaxed) { arch::ticks() } else { system_clock::now() }
}

/// Chooses the clock, and says which.
pub fn choose(source: &[u8]) -> u32 {
    let by_counter = source.trim_ascii_end() == b"tsc";
    EVERY_CALL.by_counter.store(by_counter, Relaxed);
    if by_counter { clock::TSC } else { clock::MONOTONIC }
}

/// Now, on all clocks.
pub fn moment() -> Moment {
    let ticks = now();
    let monotonic = system_clock::now();
    // In between, as near to both as can be.
    let ticks = ticks / 2 + now() / 2;
    Moment { ticks, monotonic, realtime: system_clock::realtime() }
}

/// Keeps this moment in the process's file, for the speed of the clock: where the time that is known of has grown by an
/// eighth, so that it is rare.
pub fn note() {
    static LOCK: Lock = Lock::new();
    let Some(process) = process::current() else { return };
    // SAFETY: the header is mapped for good; what another thread is writing there may be mixed up, and is looked at again.
    let is_due = || unsafe {
        let first = (*process.header).first.ticks;
        let known = (&raw const (*process.header).last.ticks).read_volatile().wrapping_sub(first);
        now().wrapping_sub(first) > known.saturating_add(known / 8)
    };
    if is_due() {
        // SAFETY: as above, and we are alone.
        LOCK.with(|| unsafe {
            if is_due() {
                (&raw mut (*process.header).last).write_volatile(moment());
            }
        });
    }
}
