//! The finding that a program's own function receives, laid out as in `cupeer.h`.

use core::ffi::{c_char, c_int, c_void};

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
