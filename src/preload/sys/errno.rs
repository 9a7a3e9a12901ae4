//! The reason why the last call of libc's failed.

use core::ffi::c_int;

/// Returns the error of the last failing call of libc.
pub fn errno() -> c_int {
    // SAFETY: __errno_location gives this thread's errno.
    unsafe { *libc::__errno_location() }
}
