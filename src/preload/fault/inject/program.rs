//! Reads the texts and numbers that programs pass through `cupeer.h`.

use super::arming::{NO_MEMORY, arm};
use crate::settings::inject::memory_of;
use crate::sys::memory;
use core::ffi::{CStr, c_char, c_int};

/// See `cupeer_arm`.
///
/// # Safety
///
/// `plan` is null or ends in NUL; `message` is null or has `size` writable bytes.
pub unsafe fn arm_c(plan: *const c_char, message: *mut c_char, size: usize) -> c_int {
    let refuse = |reason: &str| {
        if !message.is_null() && size > 0 {
            let length = reason.floor_char_boundary(size - 1);
            // SAFETY: that many bytes and one more are writable.
            unsafe {
                core::ptr::copy_nonoverlapping(reason.as_ptr(), message.cast(), length);
                message.add(length).write(0);
            }
        }
        0
    };
    if plan.is_null() {
        return refuse("the plan is NULL");
    }
    // SAFETY: not null, and the caller's text ends in NUL.
    let Ok(text) = unsafe { CStr::from_ptr(plan) }.to_str() else {
        return refuse("the plan is not UTF-8");
    };
    let armed = memory::within(memory_of(text.len()), || match arm(text) {
        Ok(number) => (number.try_into().unwrap_or(c_int::MAX), true),
        Err(reason) => (refuse(&reason), false),
    });
    armed.unwrap_or_else(|| refuse(NO_MEMORY))
}

/// Puts what a plan has done where the program wants it, and says whether there was such a plan.
///
/// # Safety
///
/// Both places are null or writable.
pub unsafe fn put_counts(done: Option<(u64, u64)>, matched: *mut u64, fired: *mut u64) -> c_int {
    let Some(done) = done else { return 0 };
    for (place, number) in [(matched, done.0), (fired, done.1)] {
        if !place.is_null() {
            // SAFETY: not null, and writable.
            unsafe { place.write_unaligned(number) };
        }
    }
    1
}
