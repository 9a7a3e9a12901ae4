//! What the processes of a hang wait for, as the run that notices the hang keeps it in the recording.

use cupeer_report::style::Style;
use std::path::PathBuf;
use std::time::Duration;

/// Reads what processes wait for: those with these pids, their recording, and for how long none has made progress.
pub type ReadWaits = fn(&[u32], Option<PathBuf>, Option<Duration>) -> Box<dyn Waits>;

/// What was read.
pub trait Waits {
    /// Returns true if no process was there any more.
    fn is_empty(&self) -> bool;
    /// Returns true if these processes wait for the device, or for all others, whatever they do meanwhile.
    fn wait_for_device(&self, pids: &[u32]) -> bool;
    /// Notes when cupeer began to end the job, in nanoseconds since 1970.
    fn end(&mut self, ended_ns: u64);
    /// Notes when the job made progress again; returns for how long it had made none.
    fn resume(&mut self, resumed_ns: u64) -> u64;
    /// The answer, and a block for each process.
    fn text(&self, style: Style) -> String;
    /// The file that a recording keeps of it.
    fn json(&self) -> serde_json::Result<Vec<u8>>;
}
