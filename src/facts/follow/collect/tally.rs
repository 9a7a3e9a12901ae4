//! Keeps the facts about the events of one process that the other tables do not have.

use crate::follow::contexts::Contexts;
use crate::follow::exhausted_calls::Scarce;
use crate::follow::functions::Number;
use crate::follow::last_stack::LastStack;
use crate::follow::ledger::Site;
use crate::follow::ledger::descriptors::Descriptors;
use crate::follow::memory::Unused;
use crate::follow::order::Order;
use crate::follow::steps::Steps;
use crate::follow::uses::Uses;
use cupeer_record::Call;
use cupeer_spec::function::FnId;

/// What is known of the events of one process.
#[derive(Default)]
pub struct Tally {
    pub events: u64,
    /// How many calls have none, because they failed as the one before them did.
    pub repeated: u64,
    /// How many of them the filters choose.
    pub chosen: u64,
    /// Calls that a fault plan changed, held or ended.
    pub injected: u64,
    pub is_ended_on_purpose: bool,
    /// The latest moment that its events tell of.
    pub last_seen: Option<u64>,
    /// Its last call: function, thread, begin.
    pub last_call: Option<(Number, u32, u64)>,
    /// The stack of its last call.
    pub last_stack: LastStack,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<(Number, Call)>,
    /// The calls that may have returned, because what would say so may be missing, the oldest first.
    pub unknown_ends: Vec<(Number, u32)>,
    /// What was wrong with its file: a sentence without a subject.
    pub problem: Option<String>,
    /// Whether there are events after the end of the time that is asked for.
    pub goes_on: bool,
    /// What it mapped, and no device could use.
    pub unused: Vec<Unused>,
    /// The calls that found no memory or addresses left.
    pub scarce: Vec<Scarce>,
    /// What it did with descriptors.
    pub descriptors: Descriptors,
    /// The most devices on which it held contexts, if these were several.
    pub holding: Option<Holding>,
    /// The contexts that it created.
    pub contexts: Contexts,
    /// What its copies used.
    pub uses: Uses,
    /// What put its work in order.
    pub order: Order,
    /// The recorded calls that record events, and when each began.
    pub records: Vec<(u64, FnId, Site)>,
    /// Its calls and uses that give nothing back.
    pub steps: Steps,
}

/// The devices on which a process holds a context, and the call at which it was seen to.
#[derive(Clone, Copy)]
pub struct Holding {
    /// A bit for each ordinal.
    pub devices: u64,
    pub function: FnId,
    pub site: Site,
    pub at: u64,
}
