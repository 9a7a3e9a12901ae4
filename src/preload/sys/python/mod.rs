//! Reads the Python frames of the current thread: file, function, and line of each, without running any Python.
//!
//! `cupeer_stacks` finds and reads the frames. This module adds the interpreter of this process (`interpreter`), its
//! memory, copied in pieces (`pieces`), and a cache of earlier results (`kept`). The only allocation is the description
//! of an interpreter, and no lock is taken, because the call may come from a signal handler.

mod interpreter;
mod kept;
mod pieces;

pub use cupeer_stacks::python::{Frame, Texts};
pub use interpreter::meet;

use crate::sys::arch::thread_description;
use cupeer_stacks::python::Interpreter;
use pieces::Pieces;

/// Where code of the interpreter lies.
pub struct Native(&'static Interpreter);

/// The interpreter, where this process has one.
pub fn native() -> Option<Native> {
    interpreter::get().map(Native)
}

impl Native {
    /// The index of the frame that executes a run of frames of Python among the return addresses of a call; their number
    /// where it is beyond those.
    pub fn place(&self, frames: &[u64], run: usize) -> u8 {
        self.0.place(frames, run) as u8
    }
}

/// Calls `found` with the frames of Python that this thread is in, the innermost first, at most `most` and as long as it
/// says so. None is left out before another. Of a function whose key `is_known`, the texts may be left out.
pub fn each_frame(most: usize, is_known: fn(u64) -> bool, mut found: impl FnMut(&Frame) -> bool) {
    if let Some(interpreter) = interpreter::get() {
        let thread = thread_description();
        Pieces::with(|pieces| interpreter.each_frame(pieces, thread, most, is_known, &mut found));
    }
}

#[cfg(test)]
mod tests;
