//! Converts ticks to nanoseconds.
//!
//! The speed of a boot's ticks is computed from moments that may be wrong. The time stamp counter does not tell its
//! speed; two moments far apart give it to one part in a million.

use cupeer_spec::record::{ClockMoment, Header, clock};

/// Conversion from ticks to nanoseconds of CLOCK_MONOTONIC, for all processes of one boot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// Moment of which all three times are known.
    pub origin: ClockMoment,
    /// Nanoseconds per tick.
    pub speed: f64,
}

/// Plausible speeds in nanoseconds per tick, for counters of 20 MHz to 20 GHz.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.05..=50.0;
/// Largest deviation of a moment from the line through the other moments: a fraction of its age, and
/// nanoseconds. A thread may be interrupted between reading two clocks.
const TOLERANCE: (f64, f64) = (0.01, 1e7);

impl Clock {
    /// Returns the nanoseconds of CLOCK_MONOTONIC at a time in ticks.
    pub fn monotonic(&self, ticks: u64) -> u64 {
        self.origin.monotonic.saturating_add_signed(self.ns_since_origin(ticks))
    }

    /// Returns the nanoseconds of CLOCK_REALTIME at a time in ticks, as if that clock had not been set since.
    pub fn realtime(&self, ticks: u64) -> u64 {
        self.origin.realtime.saturating_add_signed(self.ns_since_origin(ticks))
    }

    /// Returns the nanoseconds of CLOCK_REALTIME at a time of CLOCK_MONOTONIC, as if that clock had not been set since.
    pub fn realtime_of(&self, monotonic: u64) -> u64 {
        self.origin.realtime.saturating_add_signed(monotonic.wrapping_sub(self.origin.monotonic) as i64)
    }

    /// Returns the nanoseconds between two times in ticks; 0 if the second is not later.
    pub fn between(&self, start: u64, end: u64) -> u64 {
        self.nanoseconds_of(end.saturating_sub(start)).unsigned_abs()
    }

    /// Converts a number of ticks to nanoseconds, rounded to the nearest. Does not use `round`, which would
    /// take longer than the rest of the function.
    #[inline]
    fn nanoseconds_of(&self, ticks: u64) -> i64 {
        (ticks as f64 * self.speed + 0.5) as i64
    }

    /// Returns the nanoseconds from the origin to a time in ticks. Converts only the difference to a
    /// floating-point number, because a number of ticks can have more digits than such a number.
    fn ns_since_origin(&self, ticks: u64) -> i64 {
        match ticks.checked_sub(self.origin.ticks) {
            Some(distance) => self.nanoseconds_of(distance),
            None => -self.nanoseconds_of(self.origin.ticks - ticks),
        }
    }

    /// Returns the clock of a process of this host, and the current time on it; `None` if we cannot read the counter
    /// of this processor.
    pub fn clock_and_now(header: &Header) -> Option<(Clock, u64)> {
        let [monotonic, realtime] = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME].map(read_system_clock);
        let ticks = if header.clock == clock::COUNTER { read_counter()? } else { monotonic };
        let now = ClockMoment { ticks, monotonic, realtime };
        let clock = match header.clock {
            clock::COUNTER => Clock::from_counter_ticks(vec![header.first, header.last, now]),
            _ => Clock::from_nanosecond_ticks(&[now]),
        };
        Some((clock, ticks))
    }

    /// Returns the clock for ticks that are nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn from_nanosecond_ticks(moments: &[ClockMoment]) -> Clock {
        let last = moments.iter().filter(|moment| moment.realtime != 0).max_by_key(|moment| moment.monotonic);
        let mut origin = last.copied().unwrap_or_default();
        origin.ticks = origin.monotonic;
        Clock { origin, speed: 1.0 }
    }

    /// Returns the clock for ticks of a processor's counter. At least two moments, and more than half of
    /// them, must be right.
    pub(crate) fn from_counter_ticks(mut moments: Vec<ClockMoment>) -> Clock {
        moments.retain(|moment| moment.ticks != 0 && moment.monotonic != 0 && moment.realtime != 0);
        moments.sort_unstable_by_key(|moment| (moment.ticks, moment.monotonic));
        moments.dedup_by_key(|moment| moment.ticks);
        let Some(last) = moments.last().copied() else {
            return Clock { origin: ClockMoment::default(), speed: 1.0 };
        };

        // Take the median speed of pairs of moments that are half of the list apart, because a few wrong
        // moments do not change the median.
        let half = moments.len().div_ceil(2);
        let pairs = moments.iter().zip(moments.iter().skip(half.min(moments.len() - 1)));
        let mut speeds: Vec<f64> = pairs.filter_map(|(a, b)| speed_between(a, b)).collect();
        speeds.sort_unstable_by(f64::total_cmp);
        let Some(rough) = speeds.get(speeds.len() / 2).copied() else {
            return Clock { origin: last, speed: 1.0 };
        };

        let at = |moment: &ClockMoment| {
            let clock = Clock { origin: moments[0], speed: rough };
            moment.monotonic as f64 - clock.monotonic(moment.ticks) as f64
        };
        let mut offsets: Vec<f64> = moments.iter().map(at).collect();
        offsets.sort_unstable_by(f64::total_cmp);
        let middle = offsets[offsets.len() / 2];
        let span = |moment: &ClockMoment| (moment.ticks - moments[0].ticks) as f64 * rough;
        let is_right = |moment: &&ClockMoment| (at(moment) - middle).abs() <= TOLERANCE.0 * span(moment) + TOLERANCE.1;
        let right: Vec<&ClockMoment> = moments.iter().filter(is_right).collect();
        let (Some(first), Some(last)) = (right.first(), right.last()) else {
            return Clock { origin: last, speed: rough };
        };
        Clock { origin: **last, speed: speed_between(first, last).unwrap_or(rough) }
    }
}

/// Returns the nanoseconds per tick between two moments; `None` if the speed is not plausible.
fn speed_between(a: &ClockMoment, b: &ClockMoment) -> Option<f64> {
    let ticks = b.ticks.checked_sub(a.ticks)?;
    let nanoseconds = b.monotonic.checked_sub(a.monotonic)?;
    let speed = nanoseconds as f64 / ticks as f64;
    SPEEDS.contains(&speed).then_some(speed)
}

/// Returns the time of CLOCK_MONOTONIC, in nanoseconds.
pub fn monotonic_now() -> u64 {
    read_system_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the time of a system clock, in nanoseconds.
fn read_system_clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time to where it is pointed.
    unsafe { libc::clock_gettime(which, &mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Reads the processor's counter in the same way as libcupeer.so; `None` if this processor has no such
/// counter.
fn read_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the counter.
    let ticks = Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(target_arch = "aarch64")]
    let ticks = {
        let ticks: u64;
        // SAFETY: reads a register that Linux lets programs read, and nothing else.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        Some(ticks)
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let ticks = None;
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: f64 = 0.4321;

    fn moment(ticks: u64) -> ClockMoment {
        let monotonic = 1_000_000 + (ticks as f64 * SPEED) as u64;
        ClockMoment { ticks, monotonic, realtime: monotonic + 1_700_000_000_000_000_000 }
    }

    fn close(clock: Clock) {
        assert!((clock.speed - SPEED).abs() < 1e-6, "{clock:?}");
    }

    #[test]
    fn two_moments_are_enough() {
        let clock = Clock::from_counter_ticks(vec![moment(1 << 40), moment(1 << 50)]);
        close(clock);
        let (before, after) = (moment(1 << 45), moment(1 << 51));
        assert!(clock.monotonic(before.ticks).abs_diff(before.monotonic) < 2, "{clock:?}");
        assert!(clock.realtime(after.ticks).abs_diff(after.realtime) < 2);
        assert_eq!(clock.between(5, 5), 0);
        assert_eq!(clock.between(6, 5), 0);
    }

    #[test]
    fn wrong_moments_are_ignored() {
        let mut moments: Vec<ClockMoment> = (1..9).map(|i| moment(i << 40)).collect();
        moments.push(ClockMoment::default());
        moments.push(ClockMoment { ticks: u64::MAX, monotonic: 5, realtime: 5 });
        moments.push(ClockMoment { ticks: 1, monotonic: 1 << 60, realtime: 5 });
        moments.push(ClockMoment { monotonic: 2, ..moment(9 << 40) });
        close(Clock::from_counter_ticks(moments));
    }

    #[test]
    fn a_late_moment_that_fits_no_other_is_ignored() {
        // Ticks that are later than the rest of the moment: the process died while it wrote the moment.
        let mut moments: Vec<ClockMoment> = (1..6).map(|i| moment(i << 40)).collect();
        moments.push(ClockMoment { ticks: 8 << 40, ..moment(5 << 40) });
        close(Clock::from_counter_ticks(moments));
    }

    #[test]
    fn without_two_moments_a_tick_is_a_nanosecond() {
        assert_eq!(Clock::from_counter_ticks(vec![]).speed, 1.0);
        let one = moment(1 << 40);
        assert_eq!(Clock::from_counter_ticks(vec![one, one]), Clock { origin: one, speed: 1.0 });
    }

    #[test]
    fn here_is_now() {
        for clock in [clock::MONOTONIC, clock::COUNTER] {
            // SAFETY: all of it is numbers.
            let header = Header { clock, ..unsafe { std::mem::zeroed() } };
            let before = read_system_clock(libc::CLOCK_MONOTONIC);
            let (clock, now) = Clock::clock_and_now(&header).unwrap();
            assert!((before..=read_system_clock(libc::CLOCK_MONOTONIC)).contains(&clock.monotonic(now)));
        }
    }

    #[test]
    fn nothing_overflows() {
        for moments in [vec![], vec![moment(1), moment(u64::MAX / 2)]] {
            let clock = Clock::from_counter_ticks(moments);
            for ticks in [0, 1, u64::MAX] {
                clock.monotonic(ticks);
                clock.realtime(ticks);
                clock.between(0, ticks);
            }
        }
    }
}
