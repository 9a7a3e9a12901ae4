//! Facts from the events of one process that are in no other table.

use crate::follow::contexts::Contexts;
use crate::follow::functions::Number;
use crate::follow::last_call::LastCall;
use crate::follow::ledger::CallSite;
use crate::follow::ledger::descriptors::Descriptors;
use crate::follow::memory::Unused;
use crate::follow::oom_calls::OomCall;
use crate::follow::order::Order;
use crate::follow::steps::Steps;
use crate::follow::uses::Uses;
use cupeer_record::Call;

/// Facts from the events of one process.
#[derive(Default)]
pub struct ProcessStats {
    pub events: u64,
    /// Number of calls without an event of their own, because they failed as the call before them did.
    pub repeated: u64,
    /// Number of calls that the filters choose.
    pub chosen: u64,
    /// Number of calls that a fault plan changed, held, or ended.
    pub injected: u64,
    pub is_ended_on_purpose: bool,
    /// The latest time in its events.
    pub last_seen: Option<u64>,
    /// Its last call.
    pub last_call: Option<LastCall>,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<(Number, Call)>,
    /// The calls whose end may be missing from the recording, the oldest first.
    pub unknown_ends: Vec<(Number, u32)>,
    /// The problem with the process's file: a sentence without a subject.
    pub problem: Option<String>,
    /// True if the process has events after the selected time.
    pub goes_on: bool,
    /// Its mappings that no device could use.
    pub unused: Vec<Unused>,
    /// The calls that failed because no memory or no addresses were left.
    pub oom: Vec<OomCall>,
    /// Its file descriptors.
    pub descriptors: Descriptors,
    /// The devices on which the process held contexts when these were most; `None` if it was never more than one.
    pub holding: Option<Holding>,
    /// The contexts that the process created.
    pub contexts: Contexts,
    /// The device memory that its copies and memsets used.
    pub uses: Uses,
    /// The calls that order its work.
    pub order: Order,
    /// Its calls that record CUDA events.
    pub records: Vec<CallSite>,
    /// Its recorded calls that release nothing, and its uses of shared memory, as a clock.
    pub steps: Steps,
}

/// The devices on which a process holds contexts, and the call at which that was seen.
#[derive(Clone, Copy)]
pub struct Holding {
    /// Bit mask of device ordinals.
    pub devices: u64,
    pub call: CallSite,
}
