//! Fault plans: the effects of each fault.

use super::Proc;
use super::word::{self, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A rule of a fault plan, or a pair of devices that was denied (plan 'deny-peer'), over all processes and hosts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Default)]
pub struct Fault {
    /// The name of its plan.
    pub plan: String,
    /// Its own name, PLAN/NAME: injected_by refers to it.
    pub name: String,
    /// The rule as it was written, but for its name; null of a plan that a program armed itself.
    pub rule: Option<String>,
    /// Calls that met its conditions, and were counted for its when=; null of a plan that a program armed itself.
    pub matched: Option<u64>,
    /// The calls at which it fired or, in a dry run, would have; of a plan that a program armed itself, those whose
    /// events were kept.
    pub fired: u64,
    /// How many processes were under its plan; of a plan that a program armed itself, in how many it fired.
    pub processes: u64,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// The first calls at which it fired or, in a dry run, would have, at most 100: those that the filters choose, in
    /// order of time.
    #[schemars(length(max = crate::hits::MOST))]
    pub hits: Vec<FaultHit>,
    /// How many more such calls the record has.
    pub hits_more: u64,
}

/// A call at which a rule of a fault plan fired.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct FaultHit {
    /// When it began.
    pub time_ns: u64,
    /// The process.
    pub proc: Proc,
    /// The thread.
    pub tid: u32,
    /// The number of the call in its stream.
    pub seq: u64,
    /// The function.
    pub function: Rc<str>,
    /// Which call it was of those that the rule counts, from 1; of a denied pair always 1.
    pub count: u64,
    /// What was done; empty where the rule had nothing to do, because another one was first or the call failed:
    /// 'error' (the result is not the driver's), 'out' (an output is not), 'delay' and 'delay-after' (a wait before
    /// or after the call), 'hang' (a wait to be released), 'signal', 'exit', 'denied' (the pair of devices is
    /// denied), 'not-called' (the driver was not called), 'undone' (what the driver did was undone), 'dry' (nothing,
    /// in a dry run).
    #[serde(deserialize_with = "word::read")]
    pub did: Vec<Word>,
    /// The name of what the driver returned, or its number; null where it was not called, or has not returned.
    pub driver_result: Option<String>,
    /// How long the rule made it wait.
    pub waited_ns: u64,
}
