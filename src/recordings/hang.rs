//! The waits of the processes of a hang, as the run that notices the hang keeps them in the recording.

use cupeer_report::style::Style;
use std::path::PathBuf;
use std::time::Duration;

/// Reads what processes wait for: those with these pids, their recording, and for how long none has made progress.
pub type ReadWaits = fn(&[u32], Option<PathBuf>, Option<Duration>) -> Box<dyn Waits>;

/// Waits that were read.
pub trait Waits {
    /// Returns true if no process was there any more.
    fn is_empty(&self) -> bool;
    /// Returns true if these processes only wait for the device or for all others.
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
