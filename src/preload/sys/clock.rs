//! The clocks of the system, in nanoseconds.

pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the time of [`now`] within a few milliseconds, at a fraction of the cost.
pub fn roughly_now() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
