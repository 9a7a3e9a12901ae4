//! The last call of a process: the first place to look at if it crashed.

use crate::follow::functions::Number;
use cupeer_record::Call;
use cupeer_spec::record::slot::PythonLine;

/// The last call so far, with its stack. A later call overwrites it and reuses its allocated memory.
pub struct LastCall {
    pub function: Number,
    pub tid: u32,
    /// Time at which the call began.
    pub at: u64,
    /// Time at which the call began, in ticks of the recording's clock.
    pub ticks: u64,
    /// Return addresses of the stack, the innermost first.
    pub frames: Vec<u64>,
    /// The Python lines of the stack.
    pub python: Vec<PythonLine>,
}

impl LastCall {
    /// Replaces the last call by a later one. The field `at` is set only when all calls have been read.
    #[inline]
    pub fn replace(last: &mut Option<LastCall>, function: Number, call: &Call) {
        let last = last.get_or_insert_with(|| {
            let (frames, python) = (Vec::new(), Vec::new());
            LastCall { function, tid: call.tid, at: 0, ticks: call.start, frames, python }
        });
        (last.function, last.tid, last.ticks) = (function, call.tid, call.start);
        last.frames.clear();
        last.python.clear();
        if call.details.frames.is_empty() {
            last.frames.push(call.caller);
        } else {
            last.frames.extend_from_slice(&call.details.frames);
            last.python.extend_from_slice(&call.details.python);
        }
    }
}
