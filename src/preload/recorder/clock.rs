//! The clock of the record: the processor's counter if the kernel itself keeps time by it, because that costs half of
//! the kernel's clock; otherwise the kernel's monotonic clock.

use super::process;
use crate::sys::arch;
use crate::sys::clock as system_clock;
use crate::sys::every_call::EVERY_CALL;
use crate::sys::files;
use crate::sys::lock::Lock;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::{Header, Moment, clock};

/// Now, on the clock of the record.
#[inline(always)]
pub fn now() -> u64 {
    if EVERY_CALL.by_counter.load(Relaxed) { arch::ticks() } else { system_clock::now() }
}

/// Chooses the clock as the kernel has chosen its own, and says which.
pub fn choose() -> u32 {
    let mut source = [0; 32];
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let length = files::read(path, &mut source).unwrap_or(0);
    let source = &source[..length];
    let by_counter = source.trim_ascii_end() == arch::COUNTER;
    EVERY_CALL.by_counter.store(by_counter, Relaxed);
    if by_counter { clock::COUNTER } else { clock::MONOTONIC }
}

/// Now, on all clocks.
pub fn moment() -> Moment {
    let ticks = now();
    let monotonic = system_clock::now();
    // In between, as near to both as can be.
    let ticks = ticks / 2 + now() / 2;
    Moment { ticks, monotonic, realtime: system_clock::realtime() }
}

/// When so many nanoseconds will have passed, about, on the clock of the record.
pub fn after(nanoseconds: u64) -> u64 {
    let now = moment();
    // SAFETY: the header is mapped for good, and nobody writes its first moment any more.
    let first = process::current().map_or(now, |process| unsafe { (*process.header).first });
    let (ticks, time) =
        (now.ticks.saturating_sub(first.ticks), now.monotonic.saturating_sub(first.monotonic));
    let rate = u128::from(ticks.max(1)) * u128::from(nanoseconds) / u128::from(time.max(1));
    now.ticks.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX / 2)).min(u64::MAX - 1)
}

/// Keeps this moment in the process's file, for the speed of the clock: where the time that is known of has grown by an
/// eighth, so that it is rare.
pub fn note() {
    static LOCK: Lock = Lock::new();
    let Some(process) = process::current() else { return };
    let last = process.header.cast::<u8>().wrapping_add(offset_of!(Header, last)).cast::<AtomicU64>();
    // SAFETY: the header is mapped for good, and its last moment is three words, aligned, and only used as atomics.
    let last = unsafe { core::slice::from_raw_parts(last, size_of::<Moment>() / 8) };
    // SAFETY: the header is mapped for good, and nobody writes the first moment any more.
    let first = unsafe { (*process.header).first.ticks };
    let is_due = || {
        let known = last[0].load(Relaxed).wrapping_sub(first);
        now().wrapping_sub(first) > known.saturating_add(known / 8)
    };
    if is_due() {
        // Whoever comes while another thread is at it has nothing to add.
        LOCK.try_with(&mut Some(|| {
            let Moment { ticks, monotonic, realtime } = moment();
            let words = [ticks, monotonic, realtime];
            last.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        }));
    }
}
