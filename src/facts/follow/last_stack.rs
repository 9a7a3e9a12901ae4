//! Stack of the last call of a process: where to look first if it crashed.

use cupeer_record::Call;
use cupeer_spec::record::slot::Line;

/// Stack of a call, which reuses its memory for the next one.
#[derive(Default)]
pub struct LastStack {
    /// When the call began, in ticks.
    pub ticks: u64,
    /// Return addresses, the caller's first.
    pub frames: Vec<u64>,
    /// Python frames among them.
    pub python: Vec<Line>,
}

impl LastStack {
    /// Keeps the stack of a later call instead.
    #[inline]
    pub fn set(&mut self, call: &Call) {
        self.ticks = call.start;
        self.frames.clear();
        self.python.clear();
        if call.details.frames.is_empty() {
            self.frames.push(call.caller);
        } else {
            self.frames.extend_from_slice(&call.details.frames);
            self.python.extend_from_slice(&call.details.python);
        }
    }
}
