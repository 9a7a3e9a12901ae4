//! The interface to what processes wait for in a hang: a `cupeer run` that notices a hang stores it in the recording.

use cupeer_report::style::Style;
use std::path::PathBuf;
use std::time::Duration;

/// Function that reads what processes wait for. Arguments: their pids, their recording, and the time without any progress.
pub type ReadWaits = fn(&[u32], Option<PathBuf>, Option<Duration>) -> Box<dyn HangWaits>;

/// Waits of the processes of a job, as read at one moment.
pub trait HangWaits {
    /// Returns true if all processes had ended before they were read.
    fn is_empty(&self) -> bool;
    /// Returns true if the processes with these pids wait only for the device or for all other processes.
    fn are_waiting_for_device(&self, pids: &[u32]) -> bool;
    /// Stores the time at which cupeer began to end the job, in nanoseconds since 1970.
    fn set_ended(&mut self, ended_ns: u64);
    /// Stores the time at which the job made progress again, in nanoseconds since 1970. Returns the duration without progress, in
    /// nanoseconds.
    fn set_resumed(&mut self, resumed_ns: u64) -> u64;
    /// Returns the text for a terminal: a summary, and a paragraph for each process.
    fn format_text(&self, style: Style) -> String;
    /// Returns the contents of the file that the recording keeps of the hang.
    fn to_json(&self) -> serde_json::Result<Vec<u8>>;
}
