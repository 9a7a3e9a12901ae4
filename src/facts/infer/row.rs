//! A row of findings: one finding, with the facts by which it is joined with others.

use cupeer_report::model::{Finding, Proc};
use cupeer_rules::{Confidence, Severity};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// A finding of the report, with the facts that are needed to join it with others.
#[derive(Serialize, Deserialize)]
pub struct FindingRow {
    pub finding: Finding,
    /// The process of the first call.
    pub process: usize,
    /// True if the report found it, and false if a process recorded it.
    pub by_report: bool,
    /// All processes with this finding.
    pub(super) processes: Vec<usize>,
}

/// Facts about a process that rows need.
pub struct ProcessSummary {
    pub proc: Proc,
    pub rank: Option<u32>,
    /// True if a fault plan changed calls of the process.
    pub has_injected: bool,
}

impl FindingRow {
    pub fn severity(&self) -> Severity {
        Severity::from_word(self.finding.severity).unwrap_or(Severity::Note)
    }

    /// Joins two rows. The sentences are those of the less certain row, or else of the earlier one.
    pub fn join(self, other: FindingRow) -> FindingRow {
        // A row that was only counted has no sentences, so the other row comes first. The less certain sentence is true of all
        // calls.
        let sure = |row: &FindingRow| Confidence::ALL.iter().position(|one| one.word() == row.finding.confidence);
        let order =
            |row: &FindingRow| (row.finding.message.is_empty(), Reverse(sure(row)), row.finding.time_ns, row.process);
        let (mut first, other) = if order(&other) < order(&self) { (other, self) } else { (self, other) };
        first.finding.count = first.finding.count.saturating_add(other.finding.count);
        first.finding.last_ns = first.finding.last_ns.max(other.finding.last_ns);
        first.finding.severity = first.severity().max(other.severity()).word();
        first.processes.extend(other.processes);
        first
    }
}
