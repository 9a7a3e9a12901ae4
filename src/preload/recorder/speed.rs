//! The speed of the record's clock, from the first moment in the header of the record.

use super::clock::{moment, now};
use super::current::current;
use super::file::File;
use crate::sys::lock::Lock;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::{ClockMoment, Header};

/// Returns the approximate time on the clock of the record when this number of nanoseconds has passed from now on.
pub fn ticks_after(nanoseconds: u64) -> u64 {
    let now = moment();
    let (ticks, time) = elapsed(now);
    let more = ticks.max(1) * u128::from(nanoseconds) / time.max(1);
    now.ticks.saturating_add(u64::try_from(more).unwrap_or(u64::MAX / 2)).min(u64::MAX - 1)
}

/// Converts a recent time on the clock of the record to nanoseconds of CLOCK_MONOTONIC, approximately.
pub fn to_monotonic(ticks: u64) -> u64 {
    let now = moment();
    let (all_ticks, time) = elapsed(now);
    let nanoseconds = time * u128::from(now.ticks.saturating_sub(ticks)) / all_ticks.max(1);
    now.monotonic.saturating_sub(u64::try_from(nanoseconds).unwrap_or(0))
}

/// Returns the ticks and the nanoseconds between the first moment of the record and `now`; 0 without a record.
fn elapsed(now: ClockMoment) -> (u128, u128) {
    let first = current().map_or(now, first_moment);
    let [ticks, time] = [(now.ticks, first.ticks), (now.monotonic, first.monotonic)]
        .map(|(now, first)| u128::from(now.saturating_sub(first)));
    (ticks, time)
}

/// Returns the first moment in the header of a record.
fn first_moment(process: &File) -> ClockMoment {
    // SAFETY: the header is mapped for good, and nobody writes its first moment any more.
    unsafe { (*process.header).first }
}

/// Returns true if it is time to note another moment: the record is an eighth longer at `now` than at the last noted moment.
pub fn is_due(now: u64) -> bool {
    let Some(process) = current() else { return false };
    let first = first_moment(process).ticks;
    let known = last_noted(process)[0].load(Relaxed).wrapping_sub(first);
    now.wrapping_sub(first) > known.saturating_add(known / 8)
}

/// Returns the words of the moment that was noted last in the header.
fn last_noted(process: &File) -> &[AtomicU64] {
    let last = process.header.cast::<u8>().wrapping_add(offset_of!(Header, last)).cast::<AtomicU64>();
    // SAFETY: the header is mapped for good, and its last moment is three words, aligned, and only used as atomics.
    unsafe { core::slice::from_raw_parts(last, size_of::<ClockMoment>() / 8) }
}

/// Notes the current moment in the header of the record if it [`is_due`], so that readers can compute the speed of the clock.
pub fn note_moment() {
    static LOCK: Lock = Lock::new();
    if let Some(process) = current().filter(|_| is_due(now())) {
        // If another thread is noting a moment now, this thread need not.
        LOCK.try_with(&mut Some(|| {
            let ClockMoment { ticks, monotonic, realtime } = moment();
            let words = [ticks, monotonic, realtime];
            last_noted(process).iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        }));
    }
}
