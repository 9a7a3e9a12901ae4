//! Fault plans: what each rule did.

use super::Proc;
use serde::Serialize;
use std::rc::Rc;

/// A rule of a fault plan, or a pair of devices that was denied, over all processes.
#[derive(Serialize, Clone)]
pub struct Fault {
    /// The name of its plan.
    pub plan: String,
    /// Its own name, which begins with that of the plan: calls say which fault changed them by this.
    pub name: String,
    /// The rule as it was written; `None` of a plan that a program armed itself.
    pub rule: Option<String>,
    /// The calls that met its conditions; `None` of a plan that a program armed itself.
    pub matched: Option<u64>,
    /// Those at which it fired or, in a dry run, would have.
    pub fired: u64,
    /// How many processes were under its plan, or said that it fired.
    pub processes: u64,
    /// Whether it was only tried.
    pub dry_run: bool,
    /// The first calls at which it fired or, in a dry run, would have: of those that the filters choose.
    pub hits: Vec<FaultHit>,
    /// How many more there were.
    pub hits_more: u64,
}

/// A call at which a rule fired.
#[derive(Serialize, Clone)]
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
    /// Which call it was of those that the rule counts.
    pub count: u64,
    /// What was done.
    pub did: Vec<&'static str>,
    /// The name of what the driver returned, or its number; `None` where it was not called, or has not returned.
    pub driver_result: Option<String>,
    /// What was waited.
    pub waited_ns: u64,
}
