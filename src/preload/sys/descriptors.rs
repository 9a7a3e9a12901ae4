//! Duplicates our descriptors to high numbers, which programs do not close or reuse.

use super::errno::errno;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Smallest number of our descriptors. Programs close and reuse low numbers.
pub const HIGH: c_int = 900;

/// Number of consecutive descriptor numbers that are used in turn for duplicates.
const COPIES: c_int = 64;

/// Duplicates a descriptor to a high number if the limit of open files allows it. Returns a negative number if that fails. The
/// number differs each time, so a caller that sees its file there before and after some work knows that the file was there during
/// the work.
pub fn duplicate_high(low: c_int) -> c_int {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let lowest = HIGH + (NEXT.fetch_add(1, Relaxed) % COPIES as u32) as c_int;
    // SAFETY: copies a descriptor to a free number.
    let file = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, lowest) };
    if file >= 0 {
        return file;
    }
    // If the limit is low, take the first free number.
    // SAFETY: copies a descriptor to a free number.
    unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 3) }
}

/// Returns the limit of open files if this process has reached it, and cannot open another one.
pub fn reached_limit() -> Option<u64> {
    // The system call is made by its number, because libc's functions are cancellation points.
    // SAFETY: the path ends in NUL, and opening a directory as a path has no effect on it.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC, 0) };
    if opened >= 0 {
        // SAFETY: opened above, and known to no other code.
        unsafe { libc::syscall(libc::SYS_close, opened) };
        return None;
    }
    if errno() != libc::EMFILE {
        return None;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a structure of the kind that the call fills.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    is_known.then_some(limit.rlim_cur)
}

/// Enlarges the process's table of descriptors while it has one thread. With several threads, this waits for a grace period of
/// RCU in the kernel, which takes seconds on a busy machine.
pub fn enlarge_table() {
    // SAFETY: the path ends in NUL; each descriptor is closed once, and nobody else knows its number.
    unsafe {
        let low = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH + COPIES);
        [low, high].into_iter().filter(|file| *file >= 0).for_each(|file| _ = libc::close(file));
    }
}
