//! The last call of a process: the first place to look at if it crashed.

use crate::follow::functions::Number;
use cupeer_record::Call;
use cupeer_spec::record::slot::Line;

/// A call with its stack. It reuses its memory for the next call.
pub struct LastCall {
    pub function: Number,
    pub tid: u32,
    /// When it began.
    pub at: u64,
    /// The same on the clock of the record.
    pub ticks: u64,
    /// Return addresses, the caller's first.
    pub frames: Vec<u64>,
    /// Python frames among them.
    pub python: Vec<Line>,
}

impl LastCall {
    /// Replaces the call by a later one. Its time is set when all calls have been read.
    #[inline]
    pub fn set(last: &mut Option<LastCall>, function: Number, call: &Call) {
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
