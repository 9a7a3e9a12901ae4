//! The functions that programs may call on purpose: the only file that the header `cupeer.h` is made
//! from. Find them with dlsym: where the library is not preloaded, they are not there.

use crate::{call, check, log, record};
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
    call::quietly(|| {
        // SAFETY: not null, and the caller's text ends in NUL.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let recorded = record::mark(text);
        written = log::mark(text) || recorded;
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
    call::quietly(|| checks = check::listen(callback, data));
    c_int::from(checks)
}
