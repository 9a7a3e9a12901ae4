//! Keeps the facts about the events of one process that the other tables do not have.

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
    /// Calls that a fault plan changed, held or ended.
    pub injected: u64,
    pub is_ended_on_purpose: bool,
    /// The latest moment that its events tell of.
    pub last_seen: Option<u64>,
    /// Its last call.
    pub last_call: Option<LastCall>,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<(Number, Call)>,
    /// The calls that may have returned, because what would say so may be missing, the oldest first.
    pub unknown_ends: Vec<(Number, u32)>,
    /// The problem with its file: a sentence without a subject.
    pub problem: Option<String>,
    /// True if it has events after the end of the selected time.
    pub goes_on: bool,
    /// Its mappings that no device could use.
    pub unused: Vec<Unused>,
    /// The calls that found no memory or addresses left.
    pub oom: Vec<OomCall>,
    /// Its file descriptors.
    pub descriptors: Descriptors,
    /// The most devices on which it held contexts, if these were several.
    pub holding: Option<Holding>,
    /// The contexts that it created.
    pub contexts: Contexts,
    /// The memory that its copies used.
    pub uses: Uses,
    /// The calls that order its work.
    pub order: Order,
    /// The recorded calls that record events.
    pub records: Vec<CallSite>,
    /// Its calls and uses that give nothing back.
    pub steps: Steps,
}

/// The devices on which a process holds a context, and the call at which it was seen to.
#[derive(Clone, Copy)]
pub struct Holding {
    /// A bit for each ordinal.
    pub devices: u64,
    pub call: CallSite,
}
