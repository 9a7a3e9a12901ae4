//! Reads the Python frames of the current thread: file, function, and line of each, without running any Python.
//!
//! `cupeer_stacks` finds and reads the frames. This module adds the interpreter of this process (`interpreter`), its
//! memory, copied in pieces (`pieces`), and a cache of earlier results (`kept`). The only allocation is the description
//! of an interpreter, and no lock is taken, because the call may come from a signal handler.

mod interpreter;
mod kept;
mod pieces;

pub use cupeer_stacks::python::{FunctionTexts, PythonFrame};
pub use interpreter::note_interpreter;

use crate::sys::arch::thread_description;
use cupeer_stacks::python::Interpreter;
use pieces::Pieces;

/// The interpreter of this process, which tells the positions of Python frames in a native stack.
pub struct NativeInterpreter(&'static Interpreter);

/// Returns the interpreter of this process; `None` if there is none.
pub fn find_native_interpreter() -> Option<NativeInterpreter> {
    interpreter::get().map(NativeInterpreter)
}

impl NativeInterpreter {
    /// Returns the index in `frames` (the return addresses of a call) of the native frame that executes a run of Python frames;
    /// the number of frames if the native frame is beyond them.
    pub fn native_frame_index(&self, frames: &[u64], run: usize) -> u8 {
        self.0.find_run_frame(frames, run) as u8
    }
}

/// Calls `found` with the Python frames of this thread, innermost first, at most `most`, until it returns false. Skips no frame.
/// May leave out the file and the name of a function if `is_known` returns true for its key.
pub fn each_frame(most: usize, is_known: fn(u64) -> bool, mut found: impl FnMut(&PythonFrame) -> bool) {
    if let Some(interpreter) = interpreter::get() {
        let thread = thread_description();
        Pieces::walk_with(|pieces| interpreter.for_each_frame(pieces, thread, most, is_known, &mut found));
    }
}

#[cfg(test)]
mod tests;
