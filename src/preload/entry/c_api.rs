//! The functions that programs may call on purpose: the only file that the header `cupeer.h` is made
//! from. Find them with dlsym: if the library is not preloaded, they do not exist.

use crate::fault::inject;
use crate::sys::guard::guarded;
use crate::{check, log, record};
use core::ffi::{CStr, c_char, c_int, c_void};

/// Returns the version of cupeer, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cupeer_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Writes `text` into the log and the record, to mark a place in them.
///
/// Returns 1 if it was written to either, 0 if there is neither or it cannot be written, and -1 if `text` is NULL.
///
/// # Safety
///
/// `text` is NULL or ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_mark(text: *const c_char) -> c_int {
    if text.is_null() {
        return -1;
    }
    let mut written = false;
    guarded(|| {
        // SAFETY: not null, and the caller's text ends in NUL.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let recorded = record::mark(text);
        written = log::mark(text) || recorded;
        inject::marked(text);
    });
    c_int::from(written)
}

/// What a rule found in a call. All texts are valid only until the callback returns.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct cupeer_finding {
    /// The size of this structure: later versions may append members.
    pub size: usize,
    /// The name of the rule, such as "ipc-flags": see `cupeer list rules`.
    pub rule: *const c_char,
    /// "error", "warning" or "note".
    pub severity: *const c_char,
    /// "certain", "stale" (it rests on what a process that has ended left behind) or "inferred".
    pub confidence: *const c_char,
    /// The driver's function.
    pub function: *const c_char,
    /// What the function returned.
    pub result: c_int,
    /// What was found, with its values.
    pub message: *const c_char,
    /// What to do.
    pub hint: *const c_char,
    /// The whole finding as a JSON object, with the call's arguments and the objects it is about.
    pub json: *const c_char,
}

/// A function that receives findings. It runs in the thread that made the call, after the driver has answered
/// and before the call returns; it may call the driver, and must return.
#[allow(non_camel_case_types)]
pub type cupeer_finding_callback =
    Option<unsafe extern "C" fn(finding: *const cupeer_finding, data: *mut c_void)>;

/// Calls `callback` with each finding from now on, and with `data`; it replaces the previous callback, and NULL removes
/// it. Only the first ten findings per rule and caller are reported. The previous callback may still be running, or just
/// be called, in another thread.
///
/// Returns 1 if rules are checked (`cupeer run --check`, CUPEER_CHECK), or 0 if they are not and the callback will
/// never be called.
///
/// # Safety
///
/// Any thread can call the callback, with `data`, from now on: see above for when it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_on_finding(callback: cupeer_finding_callback, data: *mut c_void) -> c_int {
    let mut checks = false;
    guarded(|| checks = check::listen(callback, data));
    c_int::from(checks)
}

/// Arms a fault plan in this process, for a block of a test: rules as `cupeer run --inject` takes them, separated by
/// semicolons or newlines. They are tried after those already armed. Forked children inherit the plan. Some kilobytes of
/// each plan stay until the process ends, because a call may be using it: arm a plan per block of a test, not per call.
///
/// Returns the number of the plan, above 0, or 0 if it is not valid: then `message`, if not NULL, receives the
/// reason, with its column, in at most `size` bytes including the NUL. The plan's text may be freed at once.
///
/// # Safety
///
/// `plan` is NULL or ends in NUL; `message` is NULL or has `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_arm(plan: *const c_char, message: *mut c_char, size: usize) -> c_int {
    let mut number = 0;
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { number = inject::arm_c(plan, message, size) };
    });
    number
}

/// Disarms a plan by the number that `cupeer_arm` returned, and releases calls it holds. If not NULL, `matched` and
/// `fired` receive how many calls met the conditions of its rules, and at how many the rules fired, in this process and
/// its children.
///
/// Returns 1, or 0 if no such plan is armed.
///
/// # Safety
///
/// `matched` and `fired` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_disarm(plan: c_int, matched: *mut u64, fired: *mut u64) -> c_int {
    let mut done = None;
    guarded(|| done = inject::disarm(plan.try_into().unwrap_or(0)));
    // SAFETY: the caller's promise.
    unsafe { inject::put_counts(done, matched, fired) }
}

/// Counts what the rules of a plan have done so far, as `cupeer_disarm` does, and leaves it armed.
///
/// # Safety
///
/// `matched` and `fired` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_counts(plan: c_int, matched: *mut u64, fired: *mut u64) -> c_int {
    let mut done = None;
    guarded(|| done = inject::counts(plan.try_into().unwrap_or(0)));
    // SAFETY: the caller's promise.
    unsafe { inject::put_counts(done, matched, fired) }
}

/// Releases calls of this process that hang under a label (`hang=LABEL`), now and in future, by rules that are armed now.
///
/// Returns how many calls hang there, or -1 if `label` is NULL.
///
/// # Safety
///
/// `label` is NULL or ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_release(label: *const c_char) -> c_int {
    if label.is_null() {
        return -1;
    }
    let mut hanging = 0;
    guarded(|| {
        // SAFETY: not null, and the caller's text ends in NUL.
        let label = unsafe { CStr::from_ptr(label) }.to_str().unwrap_or_default();
        hanging = inject::release(label);
    });
    hanging.try_into().unwrap_or(c_int::MAX)
}
