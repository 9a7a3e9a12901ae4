//! The clock of the record: the processor's counter if the kernel itself keeps time by it, because that costs half of
//! the kernel's clock; otherwise the kernel's monotonic clock.

use crate::sys::arch;
use crate::sys::clock as system_clock;
use crate::sys::every_call::EVERY_CALL;
use crate::sys::files;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::record::{ClockMoment, clock};

/// Returns the current time on the clock of the record, in ticks.
#[inline(always)]
pub fn now() -> u64 {
    if EVERY_CALL.by_counter.load(Relaxed) { arch::ticks() } else { system_clock::now() }
}

/// Chooses the clock of the record: the clock that the kernel uses. Returns the number of the clock for the header of the record.
pub fn choose() -> u32 {
    let mut source = [0; 32];
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let length = files::read(path, &mut source).unwrap_or(0);
    let source = &source[..length];
    let by_counter = source.trim_ascii_end() == arch::COUNTER;
    EVERY_CALL.by_counter.store(by_counter, Relaxed);
    if by_counter { clock::COUNTER } else { clock::MONOTONIC }
}

/// Returns the current time on the clock of the record, the monotonic clock, and the real-time clock.
pub fn moment() -> ClockMoment {
    let ticks = now();
    let monotonic = system_clock::now();
    // The mean of two reads is as near as possible to the monotonic time between them.
    let ticks = ticks / 2 + now() / 2;
    ClockMoment { ticks, monotonic, realtime: system_clock::realtime() }
}
