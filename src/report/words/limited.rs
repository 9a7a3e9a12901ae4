//! Recordings that reached their limit, and others that do not have all calls: what to say of them.

use crate::base::moments::bytes;
use crate::model::Report;
use crate::words::names::counted;

/// Processes whose recordings reached their limit.
pub struct ReachedLimits {
    /// Number of the processes.
    pub processes: usize,
    /// Largest limit in bytes.
    limit: u64,
}

impl ReachedLimits {
    /// Summarizes the limits that processes reached; `None` if no process reached one.
    pub fn of(reached: impl Iterator<Item = Option<u64>>) -> Option<ReachedLimits> {
        let reached: Vec<u64> = reached.flatten().collect();
        Some(ReachedLimits { processes: reached.len(), limit: *reached.iter().max()? })
    }

    /// Returns the sentence about the limits, without its period.
    pub fn sentence(&self) -> String {
        let processes = counted(self.processes as u64, "process");
        format!(
            "{processes} reached the limit of {} for a recording, which has the first calls, the last calls, and everything still open",
            bytes(self.limit)
        )
    }
}

impl Report {
    /// Returns the processes whose recordings reached their limit.
    pub fn reached_limits(&self) -> Option<ReachedLimits> {
        ReachedLimits::of(self.processes.iter().map(|process| process.reached_limit))
    }

    /// Returns the words before a number of events or calls that says which of them the recording kept; empty
    /// if it kept all.
    pub fn kept_prefix(&self) -> &'static str {
        match (self.record.dropped, self.reached_limits()) {
            (false, _) => "",
            (true, None) => "the last ",
            (true, Some(_)) => "the first and the last ",
        }
    }

    /// Returns a clause with the reason why recorded calls are missing; `None` if none are.
    pub fn reason_for_missing_calls(&self) -> Option<String> {
        let ring = || "a ring keeps only the last events, and older ones are gone".to_owned();
        self.record.dropped.then(|| self.reached_limits().map_or_else(ring, |limited| limited.sentence()))
    }
}
