//! The speed of the record's clock, from the first moment in the header of the record.

use super::clock::{moment, now};
use super::current::current;
use super::file::File;
use crate::sys::lock::Lock;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::{Header, Moment};

/// When so many nanoseconds will have passed, about, on the clock of the record.
pub fn after(nanoseconds: u64) -> u64 {
    let now = moment();
    let first = first(now);
    let (ticks, time) =
        (now.ticks.saturating_sub(first.ticks), now.monotonic.saturating_sub(first.monotonic));
    let rate = u128::from(ticks.max(1)) * u128::from(nanoseconds) / u128::from(time.max(1));
    now.ticks.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX / 2)).min(u64::MAX - 1)
}

/// A time on the clock of the record that has just passed, in nanoseconds of CLOCK_MONOTONIC, about.
pub fn monotonic(ticks: u64) -> u64 {
    let now = moment();
    let [all, since] = [first(now).ticks, ticks].map(|begin| u128::from(now.ticks.saturating_sub(begin)));
    let nanoseconds = u128::from(now.monotonic.saturating_sub(first(now).monotonic)) * since / all.max(1);
    now.monotonic.saturating_sub(u64::try_from(nanoseconds).unwrap_or(0))
}

/// The first moment of the record, or another one if there is no record.
fn first(otherwise: Moment) -> Moment {
    // SAFETY: the header is mapped for good, and nobody writes its first moment any more.
    current().map_or(otherwise, |process| unsafe { (*process.header).first })
}

/// Whether so much time has passed at a moment of the record's clock that it is to be noted.
pub fn is_due(now: u64) -> bool {
    let Some(process) = current() else { return false };
    // SAFETY: the header is mapped for good, and nobody writes the first moment any more.
    let first = unsafe { (*process.header).first.ticks };
    let known = last(process)[0].load(Relaxed).wrapping_sub(first);
    now.wrapping_sub(first) > known.saturating_add(known / 8)
}

/// The last moment that was noted.
fn last(process: &File) -> &[AtomicU64] {
    let last = process.header.cast::<u8>().wrapping_add(offset_of!(Header, last)).cast::<AtomicU64>();
    // SAFETY: the header is mapped for good, and its last moment is three words, aligned, and only used as atomics.
    unsafe { core::slice::from_raw_parts(last, size_of::<Moment>() / 8) }
}

/// Keeps this moment in the process's file, for the speed of the clock: where the time that is known of has grown by an
/// eighth, so that it is rare.
pub fn note() {
    static LOCK: Lock = Lock::new();
    if let Some(process) = current().filter(|_| is_due(now())) {
        // Whoever comes while another thread is at it has nothing to add.
        LOCK.try_with(&mut Some(|| {
            let Moment { ticks, monotonic, realtime } = moment();
            let words = [ticks, monotonic, realtime];
            last(process).iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        }));
    }
}
