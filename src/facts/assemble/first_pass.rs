//! The facts that a second reading of a recording needs, as for a trace.

use crate::assemble::rows;
use crate::follow::collect::{Collected, collect};
pub use crate::follow::ledger::{Exported, HandleDomain};
use crate::infer::{self, Context};
use anyhow::Result;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::{Finding, MemoryOverTime};
use cupeer_report::places::Places;
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
    pub fn chosen(&self) -> u64 {
        self.all.stats.iter().map(|stats| stats.chosen).sum()
    }

    /// Returns the end of the recording.
    pub fn ended(&self) -> u64 {
        rows::ended(&self.all, self.filter, lives::began(self.job))
    }

    /// Returns the domain of a process.
    pub fn domain(&self, process: usize) -> HandleDomain {
        self.all.domains[process]
    }

    /// Returns the last stored call that exported a handle before it was opened.
    pub fn exported(
        &self,
        domain: HandleDomain,
        kind: Object,
        fingerprint: u64,
        opened: u64,
    ) -> Option<Exported> {
        self.all.ledger.exported(domain, kind, fingerprint, opened)
    }

    /// Returns the memory of each device over time.
    pub fn memory(&self, places: &mut Places) -> Vec<MemoryOverTime> {
        let context = Context::new(self.job, &self.all, self.filter, false);
        infer::device_memory(&context, places).1
    }

    /// Returns the findings that no process recorded itself, each with the index of its process.
    pub fn found(&self, places: &mut Places) -> impl Iterator<Item = (usize, Finding)> {
        let context = Context::new(self.job, &self.all, self.filter, false);
        let rows = infer::finding_rows(&context, places).into_iter().filter(|row| row.by_report);
        rows.map(|row| (row.process, row.finding))
    }
}
