//! Counts the handles that a reduced file omits because they have nothing to report.

use super::JobPart;
use cupeer_report::model::{Handle, State};

/// How many of them are kept all the same: enough to see what they are.
const MOST: usize = 1000;

impl JobPart {
    /// Leaves out handles that were closed as they should be, but for the first ones.
    pub fn fold(&mut self) {
        let mut kept = 0;
        let (mut more, mut bytes) = (0, 0u64);
        self.handles.retain(|handle| {
            if !is_dull(handle) || kept < MOST {
                kept += usize::from(is_dull(handle));
                return true;
            }
            more += 1;
            bytes = bytes.saturating_add(handle.bytes.unwrap_or(0));
            false
        });
        self.handles_more = self.handles_more.saturating_add(more);
        self.handles_more_bytes = self.handles_more_bytes.saturating_add(bytes);
    }
}

/// Whether there is nothing to tell of a handle: its exporter is known, and all that was opened was closed.
fn is_dull(handle: &Handle) -> bool {
    handle.state == State::Closed
        && handle.exporter.is_some()
        && handle.damaged_from.is_none()
        && handle.failed.is_empty()
}
