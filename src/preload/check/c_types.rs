//! The finding that a program's own function receives, laid out as in `cupeer.h`.

use core::ffi::{c_char, c_int, c_void};

/// Finding of a rule in a call. All texts are valid only until the callback returns.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct cupeer_finding {
    /// Size of this structure in bytes. Later versions may append members.
    pub size: usize,
    /// Name of the rule, such as "ipc-flags"; `cupeer explain RULE` describes it.
    pub rule: *const c_char,
    /// Severity: "error", "warning", or "note".
    pub severity: *const c_char,
    /// Certainty: "certain", "stale" (it follows from the data of a process that ended), or "inferred".
    pub confidence: *const c_char,
    /// Name of the driver's function.
    pub function: *const c_char,
    /// Result that the function returned (a CUresult).
    pub result: c_int,
    /// Sentence that states the error, with its values.
    pub message: *const c_char,
    /// Action that fixes the error.
    pub hint: *const c_char,
    /// Finding as a JSON object, with the arguments of the call and the objects that it is about.
    pub json: *const c_char,
}

/// Function that receives findings. It runs in the thread that made the call, after the driver has returned and before
/// the call returns. If the thread made the call in a signal handler, it runs in that handler.
///
/// It may call the driver and the functions of this header, fork, and end the process. A child that it forks returns
/// from it as the parent does. A cancellation of the thread waits until the call returns.
///
/// It must return. If it throws a C++ exception or calls `pthread_exit`, cupeer prints a line and aborts the process.
/// It must not call `longjmp` to a place outside of itself: cupeer does not notice that, the thread can no longer be
/// canceled, and the recording shows the call as one that did not return.
#[allow(non_camel_case_types)]
pub type cupeer_finding_callback =
    Option<unsafe extern "C-unwind" fn(finding: *const cupeer_finding, data: *mut c_void)>;
