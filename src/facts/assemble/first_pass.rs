//! The facts that a second reading of a recording needs, as for a trace.

use crate::assemble::rows;
use crate::follow::collect::{Collected, collect};
pub use crate::follow::ledger::{ExportCall, HandleDomain};
use crate::infer::{self, Context};
use anyhow::Result;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::{Finding, MemoryOverTime};
use cupeer_report::places::PlaceTable;
use cupeer_report::{Keep, lives};
use cupeer_spec::effect::Object;

/// The facts from the first reading of a recording, for a caller that reads the events a second time.
pub struct FirstPass<'a> {
    job: &'a Job,
    filter: &'a Filter,
    all: Collected,
}

impl<'a> FirstPass<'a> {
    /// Reads the recording.
    ///
    /// # Errors
    ///
    /// The events of a process cannot be read.
    pub fn read(job: &'a Job, filter: &'a Filter) -> Result<Self> {
        Ok(FirstPass { job, filter, all: collect(job, filter, Keep::default())? })
    }

    /// Returns the number of events that the filter chooses.
    pub fn count_chosen_events(&self) -> u64 {
        self.all.stats.iter().map(|stats| stats.chosen).sum()
    }

    /// Returns the end of the recording.
    pub fn end_time(&self) -> u64 {
        rows::end_of_recording(&self.all, self.filter, lives::recording_start(self.job))
    }

    /// Returns the domain of a process.
    pub fn handle_domain(&self, process: usize) -> HandleDomain {
        self.all.domains[process]
    }

    /// Returns the last stored call that exported a handle before it was opened.
    pub fn last_export_before(
        &self,
        domain: HandleDomain,
        kind: Object,
        fingerprint: u64,
        opened: u64,
    ) -> Option<ExportCall> {
        self.all.ledger.last_export_before(domain, kind, fingerprint, opened)
    }

    /// Returns the memory of each device over time.
    pub fn memory_over_time(&self, places: &mut PlaceTable) -> Vec<MemoryOverTime> {
        let context = Context::new(self.job, &self.all, self.filter, false);
        infer::device_memory(&context, places).1
    }

    /// Returns the findings that no process recorded itself, each with the index of its process.
    pub fn inferred_findings(&self, places: &mut PlaceTable) -> impl Iterator<Item = (usize, Finding)> {
        let context = Context::new(self.job, &self.all, self.filter, false);
        let rows = infer::finding_rows(&context, places).into_iter().filter(|row| row.by_report);
        rows.map(|row| (row.process, row.finding))
    }
}
