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
/// the call returns. It may call the driver, and must return.
#[allow(non_camel_case_types)]
pub type cupeer_finding_callback =
    Option<unsafe extern "C" fn(finding: *const cupeer_finding, data: *mut c_void)>;
