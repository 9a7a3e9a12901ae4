//! Facts from the events of one process that are in no other table.

use crate::follow::contexts::CreatedContexts;
use crate::follow::functions::Number;
use crate::follow::last_call::LastCall;
use crate::follow::ledger::CallSite;
use crate::follow::ledger::descriptors::FileDescriptors;
use crate::follow::memory::UnusedMapping;
use crate::follow::oom_calls::OomCall;
use crate::follow::order::OrderingCalls;
use crate::follow::steps::StepTimes;
use crate::follow::uses::MemoryUses;
use cupeer_record::Call;

/// Facts from the events of one process.
#[derive(Default)]
pub struct ProcessStats {
    pub events: u64,
    /// Number of calls without an event of their own, because they failed as the call before them did.
    pub repeated: u64,
    /// Number of calls that pass the filters of the report.
    pub chosen: u64,
    /// Number of calls that a fault plan changed, held, or ended.
    pub injected: u64,
    pub is_ended_on_purpose: bool,
    /// The latest time in the events of the process.
    pub last_seen: Option<u64>,
    /// The last call of the process.
    pub last_call: Option<LastCall>,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<(Number, Call)>,
    /// The calls whose end may be missing from the recording, the oldest first.
    pub unknown_ends: Vec<(Number, u32)>,
    /// The problem with the process's file: a sentence without a subject.
    pub problem: Option<String>,
    /// True if the process has events after the selected time.
    pub goes_on: bool,
    /// The mappings of the process that no device could use.
    pub unused_mappings: Vec<UnusedMapping>,
    /// The calls that failed because no memory or no addresses were left.
    pub oom_calls: Vec<OomCall>,
    /// The file descriptors that the process exported and imported.
    pub descriptors: FileDescriptors,
    /// The devices on which the process held contexts at the time when it held most; `None` if it never held more than
    /// one.
    pub most_contexts: Option<HeldContexts>,
    /// The contexts that the process created.
    pub contexts: CreatedContexts,
    /// The device memory that copies and memsets of the process used.
    pub uses: MemoryUses,
    /// The calls that order the work of the process.
    pub order: OrderingCalls,
    /// The calls of the process that record CUDA events (cuEventRecord).
    pub event_records: Vec<CallSite>,
    /// The times of the calls that release nothing, and of the uses of shared memory: they serve as a clock.
    pub steps: StepTimes,
}

/// The devices on which a process holds contexts, and the call at which that was seen.
#[derive(Clone, Copy)]
pub struct HeldContexts {
    /// Bit mask of device ordinals.
    pub devices: u64,
    pub call: CallSite,
}
