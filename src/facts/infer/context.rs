//! The input of all findings that only the whole recording shows.

use super::touched::{self, SharedRanges, UsedMemory};
use crate::follow::collect::Collected;
use crate::follow::holdings::MemoryHoldings;
use crate::follow::judged::ordinal_of_uuid;
use crate::follow::ledger::HandleEntry;
use crate::follow::virtual_memory::ImportGraph;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::{Allocator, Uuid};
use cupeer_rules::reason;
use std::cell::OnceCell;

/// The input of the functions that find something in the whole recording.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// The selected processes, calls, and rules.
    pub filter: &'a Filter,
    /// True if the recording is one part of a job that is merged later.
    pub is_part: bool,
    imports: OnceCell<ImportGraph<'a>>,
    holdings: OnceCell<MemoryHoldings<'a>>,
    ranges: OnceCell<SharedRanges<'a>>,
    used_memories: OnceCell<Vec<UsedMemory<'a>>>,
}

impl<'a> Context<'a> {
    pub fn new(job: &'a Job, all: &'a Collected, filter: &'a Filter, is_part: bool) -> Self {
        let (imports, holdings) = Default::default();
        let (ranges, touched) = Default::default();
        Context { job, all, filter, is_part, imports, holdings, ranges, used_memories: touched }
    }

    /// Returns a process as sentences name it.
    pub fn named_process(&self, process: usize) -> reason::Process {
        let process = &self.job.processes[process];
        reason::Process { pid: process.header.pid, rank: process.rank() }
    }

    /// Returns a device as a process numbers it.
    pub fn numbered_device(&self, process: usize, device: Uuid) -> reason::Device {
        reason::Device { ordinal: ordinal_of_uuid(&self.job.processes[process], device.0), uuid: device.0 }
    }

    /// Returns the allocator of the memory of a handle, if it is known.
    pub fn allocator(&self, entry: &HandleEntry) -> Option<Allocator> {
        self.all.allocators.allocator_of(entry, &self.job.processes, &self.all.stacks)
    }

    /// Returns true if a process of the job failed.
    pub fn has_failed_process(&self) -> bool {
        self.all.fates.iter().any(|fate| fate.has_failed)
    }

    /// Returns the imports of virtual memory, each joined with its allocation.
    pub fn imports(&self) -> &ImportGraph<'a> {
        self.imports.get_or_init(|| ImportGraph::new(&self.all.memories))
    }

    /// Returns the state of all memory of the processes of the job.
    pub fn holdings(&self) -> &MemoryHoldings<'a> {
        self.holdings.get_or_init(|| {
            let all = self.all;
            let knows_all = |process: usize| all.has_all_calls_of(all.domains[process]);
            MemoryHoldings::new(self.imports(), &all.ledger, &all.fates, knows_all)
        })
    }

    /// Returns the address ranges of memory that processes exported or opened.
    pub fn shared_ranges(&self) -> &SharedRanges<'a> {
        self.ranges.get_or_init(|| touched::find_shared_ranges(self.all))
    }

    /// Returns the shared memory that recorded copies used.
    pub fn used_memories(&self) -> &[UsedMemory<'a>] {
        self.used_memories.get_or_init(|| touched::find_used_memories(self.all, self.shared_ranges()))
    }
}
