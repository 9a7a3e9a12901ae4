//! The functions that programs may call themselves. `scripts/header` generates `cupeer.h` from this file and
//! `check::c_types`. Programs find the functions with dlsym, because they exist only if the library is preloaded.

use crate::check::c_types::cupeer_finding_callback;
use crate::fault::inject;
use crate::sys::guard::guarded;
use crate::{check, log, recorder};
use core::ffi::{CStr, c_char, c_int, c_void};

/// Returns the version of cupeer, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cupeer_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Writes `text` into the log and the recording, to mark a point in time, and for fault plans with `mark=`.
///
/// The recording of a process begins with its first recorded call; the last 128 marks before it are kept until then.
///
/// Returns 1 if the text was written to either or is kept, 0 if neither exists or can be written, and -1 if `text` is
/// NULL.
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
        written = mark(text);
    });
    c_int::from(written)
}

/// Writes a mark into the log and the record, and passes it to fault plans. Returns true if the mark was written or kept.
pub(super) fn mark(text: &[u8]) -> bool {
    let recorded = recorder::mark(text);
    let written = log::log_mark(text) || recorded;
    inject::note_program_mark(text);
    written
}

/// Calls `callback` with each finding from now on, and with `data`. It replaces the previous callback; NULL removes
/// it.
///
/// The callback receives the first ten findings per rule and caller. Setting the same callback again, as at the start
/// of each test, starts new counts. The previous callback may still be running in another thread.
///
/// Returns 1 if rules are checked (`cupeer run --check`, CUPEER_CHECK), or 0 if they are not and the callback will
/// never be called.
///
/// # Safety
///
/// Any thread can call the callback, with `data`, from now on, until it is replaced as described above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_on_finding(callback: cupeer_finding_callback, data: *mut c_void) -> c_int {
    let mut checks = false;
    guarded(|| checks = check::set_listener(callback, data));
    c_int::from(checks)
}

/// Arms a fault plan in this process and its descendants, for example for a block of a test. `plan` contains faults as for
/// `cupeer run --inject`, separated by semicolons or newlines, such as "cuIpcOpenMemHandle*:error=MAP_FAILED".
///
/// The faults are tried after those that are already armed. Forked children inherit the plan, and children that are
/// started afterwards read it from the directory of the recording. Descendants that are already running receive it at their
/// next call if they were started under `cupeer run --allow-faults` (CUPEER_ALLOW_FAULTS=1). Without a recording, only forked
/// children have the plan. To limit a plan to one process, add `pid=` with its pid to each fault. Some kilobytes of each
/// plan stay allocated until the process ends, because a call may be using them: arm one plan per block of a test, not
/// per call.
///
/// Returns the number of the plan, above 0. Returns 0 if the plan is not valid; `message`, if not NULL, then receives
/// the reason with its column, in at most `size` bytes including the NUL. The text of the plan may be freed at once.
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

/// Disarms a plan by the number that `cupeer_arm` returned, and releases the calls that it holds. In a forked child, it
/// disarms the plan in that child only.
///
/// If not NULL, `matched` receives the number of calls that met the conditions of its faults, and `fired` the number
/// of calls at which the faults fired, in this process and its descendants.
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
    unsafe { inject::write_counts(done, matched, fired) }
}

/// Returns the counts of a plan so far in `matched` and `fired`, as `cupeer_disarm` does, and leaves the plan armed.
///
/// Returns 1, or 0 if no such plan is armed.
///
/// # Safety
///
/// `matched` and `fired` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_counts(plan: c_int, matched: *mut u64, fired: *mut u64) -> c_int {
    let mut done = None;
    guarded(|| done = inject::counts(plan.try_into().unwrap_or(0)));
    // SAFETY: the caller's promise.
    unsafe { inject::write_counts(done, matched, fired) }
}

/// Releases calls of this process that hang under a label (`hang=LABEL`), now and later, by faults that are armed now.
///
/// Returns the number of calls that hang under the label, or -1 if `label` is NULL.
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
