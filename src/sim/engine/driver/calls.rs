//! Functions of the program that the driver calls.

use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::cell::Cell;

/// A function of the program, with its argument. The function may unwind when it ends its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramCall {
    /// A function that was passed to `cuLaunchHostFunc`.
    Host(unsafe extern "C-unwind" fn(*mut c_void), u64),
    /// A function that was passed to `cuStreamAddCallback`, with the handle of the stream.
    Stream(unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void), u64, u64),
}

impl ProgramCall {
    pub(crate) fn run(self) {
        // SAFETY: the program promised, as it passed the function, that it takes this pointer, on any thread.
        unsafe {
            match self {
                ProgramCall::Host(function, data) => function(data as *mut c_void),
                ProgramCall::Stream(function, stream, data) => {
                    function(stream as *mut c_void, Code::SUCCESS as i32, data as *mut c_void);
                }
            }
        }
    }
}

thread_local! {
    pub(crate) static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the calling thread is in a function of the program that the driver called. Such a function
/// must not call the driver.
pub(crate) fn is_in_program_call() -> bool {
    IN_CALL.get()
}
