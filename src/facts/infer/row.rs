//! A row of findings: one finding, with the facts by which it is joined with others.

use cupeer_report::model::{Finding, Proc};
use cupeer_rules::{Confidence, Severity};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// A row, with what it takes to join it to others.
#[derive(Serialize, Deserialize)]
pub struct Row {
    pub finding: Finding,
    /// The process of the first.
    pub process: usize,
    /// True if the report found it, and no process recorded it.
    pub by_report: bool,
    /// All processes.
    pub(super) processes: Vec<usize>,
}

/// A process, as far as rows need it.
pub struct Member {
    pub proc: Proc,
    pub rank: Option<u32>,
    /// True if a fault plan changed its calls.
    pub has_injected: bool,
}

impl Row {
    pub fn severity(&self) -> Severity {
        Severity::of(self.finding.severity).unwrap_or(Severity::Note)
    }

    /// Both as one: the words are those of the first that is least sure.
    pub fn and(self, other: Row) -> Row {
        // One that is only counted says nothing, whenever it was; and what is certain of one call may be wrong of the others.
        let sure = |row: &Row| Confidence::ALL.iter().position(|one| one.word() == row.finding.confidence);
        let order = |row: &Row| {
            (row.finding.message.is_empty(), Reverse(sure(row)), row.finding.time_ns, row.process)
        };
        let (mut first, other) = if order(&other) < order(&self) { (other, self) } else { (self, other) };
        first.finding.count = first.finding.count.saturating_add(other.finding.count);
        first.finding.last_ns = first.finding.last_ns.max(other.finding.last_ns);
        first.finding.severity = first.severity().max(other.severity()).word();
        first.processes.extend(other.processes);
        first
    }
}
