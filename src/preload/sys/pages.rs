//! Memory from the system, in whole pages.
//!
//! The system call is made directly, because ThreadSanitizer takes libc's mmap for a write to the memory. All six arguments are
//! passed as whole words.

use super::errno::errno;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;

/// Maps readable and writable memory: at `place` if that is not null, and of a file if `descriptor` is not negative.
pub fn map(place: *mut c_void, size: usize, flags: c_int, descriptor: c_int, at: u64) -> Result<*mut u8, c_int> {
    let protection = c_long::from(libc::PROT_READ | libc::PROT_WRITE);
    let (flags, descriptor, at) = (c_long::from(flags), c_long::from(descriptor), at as c_long);
    // SAFETY: maps new memory, or what the caller wants to lie at that place.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, place, size, protection, flags, descriptor, at) };
    if mapped == -1 { Err(errno()) } else { Ok(mapped as *mut u8) }
}

/// Maps new memory of this process, which is all zeros.
pub fn map_zeroed(size: usize, flags: c_int) -> Result<*mut u8, c_int> {
    map(ptr::null_mut(), size, flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}
