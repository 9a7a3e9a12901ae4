//! Reduced data of some processes of a job, in place of their events. It can be merged with that of others, and gives
//! the report that all their recordings would give.
//!
//! [`JobPart`] is the data; `merge` merges two, `finish` builds the report, and [`mod@file`] reads and writes the file. The
//! other modules compute the data; a recording that is reported directly takes the same path, as the only part of its job.
//!
//! Its rows are those of the report, so that there is one form. Rows that are sums over processes are kept in a form
//! that can be added again; for rows that follow from all processes together, their inputs are kept.

pub(crate) mod directory;
pub mod file;
mod finish;
mod merge;

pub use directory::read_hangs;

use crate::follow::callers::CallerSum;
use crate::follow::functions::FunctionSum;
use crate::infer::FindingRows;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::{
    Allocations, Clue, Device, Escaped, Failure, FailureGroup, Fault, Handle, Leak, Mark, Memory, MemoryOverTime, Peer,
    Pool, Process, Record, State, Unnamed,
};
use cupeer_report::suppress::Suppressions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Extent of reduced data.
pub struct PartExtent {
    /// Number of processes.
    pub processes: u64,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of events.
    pub events: u64,
}

impl JobPart {
    /// Returns the extent of the data.
    pub fn extent(&self) -> PartExtent {
        let boots: BTreeSet<&str> = self.processes.iter().map(|process| process.boot_id.as_str()).collect();
        PartExtent { processes: self.processes.len() as u64, hosts: boots.len() as u64, events: self.record.events }
    }

    /// Returns the processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Sets the path of the recording that the report shows.
    pub fn set_path(&mut self, path: &str) {
        path.clone_into(&mut self.record.path);
    }

    /// Adds the contents of a directory except for the records of processes, which were reduced.
    pub fn add_other_files(&mut self, job: &Job) {
        self.record.started.extend(job.started.iter().map(directory::started_row));
        for hang in read_hangs(&job.hangs) {
            // A hang in the reduced data may lack its end, which the hang file has by now.
            self.record.hangs.retain(|known| known.time_ns != hang.time_ns);
            self.record.hangs.push(hang);
        }
        self.escaped.extend(directory::bypassing_processes(job));
        self.record.add_quiet(directory::unrecorded_processes(job));
        self.record.problems.extend(job.problems.iter().map(ToString::to_string));
    }

    /// Suppresses the findings that match an entry of the suppressions.
    pub fn suppress(&mut self, suppressions: &Suppressions) {
        let programs: Vec<&str> = self.processes.iter().map(|process| process.program.as_str()).collect();
        self.found.suppress(suppressions, &programs);
    }

    /// Returns the filter that selects all of the data.
    pub fn filter(&self, suppressions: Suppressions) -> Filter {
        Filter::all_processes(self.processes.len(), suppressions)
    }
}

/// Reduced data of some processes. The fields are those of the report, in the order in which processes were read.
#[derive(Serialize, Deserialize)]
pub struct JobPart {
    pub(crate) record: Record,
    /// The check values of the keys of fingerprints, by process.
    pub(crate) keys: Vec<u64>,
    pub(crate) processes: Vec<Process>,
    pub(crate) devices: Vec<Device>,
    pub(crate) functions: Vec<FunctionSum>,
    pub(crate) callers: Vec<CallerSum>,
    pub(crate) callers_more: u64,
    pub(crate) found: FindingRows,
    pub(crate) faults: Vec<Fault>,
    pub(crate) handles: Vec<Handle>,
    pub(crate) handles_more: u64,
    pub(crate) handles_more_bytes: u64,
    pub(crate) allocations: Allocations,
    #[serde(default)]
    pub(crate) memory: Vec<Memory>,
    #[serde(default)]
    pub(crate) memory_over_time: Vec<MemoryOverTime>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) leaks: Vec<Leak>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) failures_more: u64,
    pub(crate) failure_groups: Vec<FailureGroup>,
    #[serde(default)]
    pub(crate) clues: Vec<Clue>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) marks_more: u64,
    pub(crate) escaped: Vec<Escaped>,
    pub(crate) unnamed: Vec<Unnamed>,
}

/// Number of properly closed handles that are kept as examples.
const MOST_EXAMPLES: usize = 1000;

impl JobPart {
    /// Removes handles that were properly closed, except for the first ones, which are kept as examples.
    pub fn fold(&mut self) {
        let mut kept = 0;
        let (mut more, mut bytes) = (0, 0u64);
        self.handles.retain(|handle| {
            if !is_closed_properly(handle) || kept < MOST_EXAMPLES {
                kept += usize::from(is_closed_properly(handle));
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

/// Returns true if a handle was properly closed: its exporter is known, and all opens were closed.
fn is_closed_properly(handle: &Handle) -> bool {
    handle.state == State::Closed
        && handle.exporter.is_some()
        && handle.damaged_from.is_none()
        && handle.failed.is_empty()
}
