//! Fault plans: the effects of each fault.

use super::Proc;
use super::word::{self, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Plan of what `--deny-peer` denies.
pub const DENY: &str = "deny-peer";

/// Number of calls of a fault that are kept: the first ones.
pub const MOST_HITS: usize = 100;

/// Fault of a fault plan, or denied pair of devices (plan `deny-peer`), over all processes and hosts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Default)]
pub struct Fault {
    /// Name of the plan.
    pub plan: String,
    /// Name of the fault, PLAN/NAME, as in `injected_by`.
    pub name: String,
    /// Text of the fault as it was written, without its name; null for a plan that a program armed itself.
    pub rule: Option<String>,
    /// True if the result of the fault is not documented for one of its functions, and real drivers were seen to return it.
    #[serde(default)]
    pub only_seen: bool,
    /// Number of calls that met the conditions and were counted for when=; null for a plan that a program armed
    /// itself.
    pub matched: Option<u64>,
    /// Number of calls at which the fault fired or, in a dry run, would have fired. For a plan that a program armed
    /// itself, it counts only calls whose events were kept.
    pub fired: u64,
    /// Number of processes that had the plan; for a plan that a program armed itself, number of processes in which the
    /// fault fired.
    pub processes: u64,
    /// True if this was a dry run.
    pub dry_run: bool,
    /// First calls at which the fault fired or, in a dry run, would have fired, ordered by time: at most 100 of those
    /// that the filters select.
    #[schemars(length(max = MOST_HITS))]
    pub hits: Vec<FaultHit>,
    /// Number of calls in the recording that `hits` omits.
    pub hits_more: u64,
}

/// Call at which a fault fired.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
pub struct FaultHit {
    /// Time when the call began.
    pub time_ns: u64,
    /// Process that made the call.
    pub proc: Proc,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Number of the call in its stream.
    pub seq: u64,
    /// Name of the function.
    pub function: Rc<str>,
    /// Number of the call among those that the fault counts, from 1; always 1 for a denied pair.
    pub count: u64,
    /// Effects of the fault; empty if it had none, because another fault was first or the call failed: `error` (the
    /// result is not the driver's), `out` (an output is not the driver's), `delay` and `delay-after` (a wait before or
    /// after the call), `hang` (a wait for a release), `signal`, `exit`, `denied` (the pair of devices is denied),
    /// `not-called` (the driver was not called), `undone` (the driver's work was undone), `dry` (nothing, in a dry
    /// run).
    #[serde(deserialize_with = "word::read")]
    pub did: Vec<Word>,
    /// Name of the result that the driver returned, or its number if it has no name; null if the driver was not called
    /// or has not returned.
    pub driver_result: Option<String>,
    /// Time in nanoseconds that the fault delayed the call.
    pub waited_ns: u64,
}
