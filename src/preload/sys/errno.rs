//! The error code of the last failed call of libc.

use core::ffi::c_int;

/// Returns the error code of this thread's last failed call of libc.
pub fn errno() -> c_int {
    // SAFETY: __errno_location gives this thread's errno.
    unsafe { *libc::__errno_location() }
}
