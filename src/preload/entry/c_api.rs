//! The functions that programs may call on purpose: the only file that the header `cupeer.h` is made
//! from. Find them with dlsym: where the library is not preloaded, they are not there.

use crate::fault::inject;
use crate::sys::guard::guarded;
use crate::{check, log, record};
use core::ffi::{CStr, c_char, c_int, c_void};

/// The version of cupeer, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cupeer_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Puts your text into the log and the record, to find a place in them again.
///
/// Returns 1 where it was written to either, 0 where there is neither or it cannot be written, and -1 where
/// `text` is NULL.
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

/// What a rule has found in a call. All texts are valid only until the function returns that is told of it.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct cupeer_finding {
    /// The size of this structure: later versions may have more at its end.
    pub size: usize,
    /// The rule's name, such as "ipc-flags": `cupeer list rules` has them all.
    pub rule: *const c_char,
    /// "error", "warning" or "note".
    pub severity: *const c_char,
    /// "certain", "stale" (it rests on what a process left behind that has ended) or "inferred".
    pub confidence: *const c_char,
    /// The driver's function.
    pub function: *const c_char,
    /// What the function returned.
    pub result: c_int,
    /// What was found, with its values.
    pub message: *const c_char,
    /// What to do.
    pub hint: *const c_char,
    /// All of it, with the call's arguments and what it is about, as a JSON object.
    pub json: *const c_char,
}

/// A function that is told of findings. It is called in the thread that made the call, after the driver has answered
/// and before the call returns; it may call the driver, and must return.
#[allow(non_camel_case_types)]
pub type cupeer_finding_callback =
    Option<unsafe extern "C" fn(finding: *const cupeer_finding, data: *mut c_void)>;

/// Tells a function of what rules find from now on, in place of the one before; NULL tells nobody. `data` is passed
/// on to it. The first ten findings of a rule and caller are told. A call of the one before may still be under way, or
/// begin at this moment, in another thread.
///
/// Returns 1 where rules are checked (`cupeer run --check`, CUPEER_CHECK), 0 where they are not and the function will
/// never be called.
///
/// # Safety
///
/// The function can be called, with `data`, by any thread, from now on: see above for when it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupeer_on_finding(callback: cupeer_finding_callback, data: *mut c_void) -> c_int {
    let mut checks = false;
    guarded(|| checks = check::listen(callback, data));
    c_int::from(checks)
}

/// Arms a plan of faults in this process, for a block of a test: rules as `cupeer run --inject` takes them, separated by
/// semicolons or newlines. Its rules are looked at behind those that are armed already. Forked children have it as well.
/// Some kilobytes of each plan stay until the process ends, because a call may be looking at it: arm one for a block of a
/// test, and not for each call.
///
/// Returns the number of the plan, above 0, or 0 where it is not understood: then `message`, where it is not NULL, has
/// the reason in at most `size` bytes, with its column, ended by NUL. The plan's text may be freed at once.
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

/// Takes back a plan that `cupeer_arm` gave the number of, and lets go what hangs by it. Where they are not NULL, `matched`
/// and `fired` get how many calls met the conditions of its rules, and at how many they fired, in this process and its
/// children.
///
/// Returns 1, or 0 where no such plan is armed.
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

/// What the rules of a plan have done so far: see `cupeer_disarm`.
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

/// Lets go what hangs under a label (`hang=LABEL`) in this process, now and from now on, by rules that are armed now.
///
/// Returns how many calls hang there, or -1 where `label` is NULL.
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
