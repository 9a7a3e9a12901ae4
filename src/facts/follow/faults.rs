//! Fault plans: the effect of each fault, and the first calls that it changed.
//!
//! It reads the files in which faults count, and the names of faults in recorded calls. A fault plan causes an injected
//! failure, not the program, so all other parts of a report leave it out.

use cupeer_record::{Call, FaultCounts, FiredFault, Job, Outcome, effect_words_of};
pub use cupeer_report::model::Fault;
use cupeer_report::model::{FaultHit, MOST_HITS, Proc};
use cupeer_report::results;
use cupeer_spec::env;
use cupeer_spec::fault::{FaultPlan, FaultResult};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of different fault names of recorded calls that are counted: the first ones; calls with further names are
/// not.
pub const MOST_NAMES: usize = 1 << 12;

/// Returns the rows of all faults: those of files in the order of their plans, then those that only calls name.
pub(crate) fn rows(job: &Job, fired: FiredFaults) -> Vec<Fault> {
    let is_set = |(name, value): &(String, String)| name == env::DRY_RUN && value == "1";
    let is_dry = job.processes.iter().any(|process| process.variables.iter().any(is_set));
    let mut rows = rows_of_faults(job.merged_faults(), is_dry);
    let others: Vec<Fault> = fired
        .0
        .iter()
        .filter(|(name, _)| rows.iter().all(|row| row.name != ***name))
        .map(|(name, rule)| Fault {
            plan: name.split('/').next().unwrap_or_default().to_owned(),
            name: name.to_string(),
            fired: rule.times,
            processes: rule.processes,
            dry_run: rule.is_dry,
            ..Fault::default()
        })
        .collect();
    rows.extend(others);
    // Faults of several hosts may have the same name and different texts. Recorded calls have only the name: the first fault
    // gets the calls.
    for (name, rule) in fired.0 {
        if let Some(row) = rows.iter_mut().find(|row| row.name == *name) {
            row.hits_more = rule.chosen - rule.first.len() as u64;
            row.hits = rule.first.into_values().collect();
        }
    }
    rows
}

/// Returns a row for each fault, without the calls at which it fired.
pub fn rows_of_faults(rules: Vec<FaultCounts>, dry_run: bool) -> Vec<Fault> {
    let row = |rule: FaultCounts| Fault {
        plan: rule.plan_name().to_owned(),
        only_seen: sets_undocumented_result(&rule),
        rule: Some(strip_name_clause(&rule.text)),
        name: rule.name,
        matched: Some(rule.matched),
        fired: rule.fired,
        processes: rule.processes,
        dry_run,
        ..Fault::default()
    };
    rules.into_iter().map(row).collect()
}

/// The faults that fired, each with counts from the recorded calls.
#[derive(Default)]
pub(crate) struct FiredFaults(BTreeMap<Rc<str>, FiringCounts>);

#[derive(Default)]
struct FiringCounts {
    times: u64,
    processes: u64,
    last: Option<usize>,
    is_dry: bool,
    /// The first calls at which the fault fired, by their order in the job.
    first: BTreeMap<HitOrder, FaultHit>,
    /// Number of calls that pass the filters of the report, and at which the fault fired.
    chosen: u64,
}

/// Sort key of the hits of a fault: time of the call, process, stream, number of the call in the stream, and number of the hit.
type HitOrder = (u64, usize, u32, u64, u64);

/// A call at which faults fired.
pub(crate) struct FaultedCall<'a> {
    pub at: u64,
    pub process: usize,
    pub proc: &'a str,
    pub function: Rc<str>,
    pub call: &'a Call,
}

impl FaultedCall<'_> {
    fn row(&self, hit: &FiredFault) -> FaultHit {
        FaultHit {
            time_ns: self.at,
            proc: Proc::from(self.proc),
            tid: self.call.tid,
            seq: self.call.seq,
            function: self.function.clone(),
            count: hit.what.count,
            did: effect_words_of(hit.what.did).collect(),
            driver_result: driver_result(self.call, hit).map(|result| results::result_name(self.call.function, result)),
            waited_ns: hit.what.waited,
        }
    }
}

impl FiredFaults {
    /// Counts the hits of faults at a call. If the call `is_chosen`, also keeps it as one of the fault's first calls. The calls
    /// of one process must be added before those of the next.
    pub fn count_hits(&mut self, faulted: &FaultedCall, is_chosen: bool) {
        let FaultedCall { at, process, call, .. } = *faulted;
        for hit in &call.details.hits {
            if !self.0.contains_key(&*hit.fault_name) {
                if self.0.len() >= MOST_NAMES {
                    continue;
                }
                self.0.insert(hit.fault_name.as_str().into(), FiringCounts::default());
            }
            let Some(rule) = self.0.get_mut(&*hit.fault_name) else { continue };
            rule.times += 1;
            rule.is_dry |= hit.has_effect(did::DRY);
            rule.processes += u64::from(rule.last != Some(process));
            rule.last = Some(process);
            if is_chosen {
                rule.add_first((at, process, call.stream, call.seq, rule.chosen), || faulted.row(hit));
            }
        }
    }
}

impl FiringCounts {
    /// Adds a call to the first calls. If there are too many, drops the latest.
    fn add_first(&mut self, order: HitOrder, row: impl FnOnce() -> FaultHit) {
        self.chosen += 1;
        if self.first.len() == MOST_HITS {
            if self.first.last_key_value().is_some_and(|(last, _)| *last < order) {
                return;
            }
            self.first.pop_last();
        }
        self.first.insert(order, row());
    }
}

/// Returns the result of the driver; `None` if the driver was not called, or has not returned.
fn driver_result(call: &Call, hit: &FiredFault) -> Option<i32> {
    let Outcome::Returned(result) = call.outcome else { return None };
    let hits = &call.details.hits;
    if hits.iter().any(|hit| hit.has_effect(did::NOT_CALLED)) {
        return None;
    }
    // A hit that was recorded before the call returned does not contain the result.
    let changed = |hit: &&FiredFault| hit.has_effect(did::ERROR | did::OUT | did::DENIED) && !hit.has_effect(did::DRY);
    let known = hits.iter().find(changed).unwrap_or(hit);
    Some(if call.injected { known.what.driver_result } else { result })
}

/// Source of a failure, as far as fault plans are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum FailureCause {
    /// The driver returned the result.
    Driver,
    /// The driver returned the result because a fault plan had changed an earlier call.
    EarlierFault,
    /// A fault set the result. The value is the number of the fault's name, or `None` if the recording does not have the name.
    Fault(Option<u16>),
}

/// Returns true if a fault fired at the call or, in a dry run, would have fired.
#[inline]
pub fn is_hit_by_fault(call: &Call) -> bool {
    call.injected || !call.details.hits.is_empty()
}

/// Returns true if a fault fired at the call and had an effect.
pub fn has_fault_effect(call: &Call) -> bool {
    call.injected || call.details.hits.iter().any(|hit| !hit.has_effect(did::DRY))
}

/// Returns the label with which `cupeer release` ends the wait of a hit; `None` if the hit does not wait.
pub fn release_label(hit: &FiredFault, rules: &[FaultCounts]) -> Option<String> {
    let rule = rules.iter().find(|rule| hit.has_effect(did::HANG) && rule.name == hit.fault_name)?;
    release_label_of_fault(rule)
}

/// Returns the label with which `cupeer release` ends the waits of a fault; `None` if the fault does not wait.
pub fn release_label_of_fault(rule: &FaultCounts) -> Option<String> {
    let plan = FaultPlan::parse(rule.plan_name(), &rule.text).ok()?;
    plan.rules.into_iter().find_map(|rule| rule.action.hang)
}

/// Returns true if the result that a fault sets is not documented for one of its functions, but real drivers returned it.
fn sets_undocumented_result(rule: &FaultCounts) -> bool {
    let Ok(plan) = FaultPlan::parse(rule.plan_name(), &rule.text) else { return false };
    plan.rules.iter().any(|rule| {
        let Some(FaultResult::Code(code)) = rule.action.error else { return false };
        FnId::all().any(|id| rule.functions.contains(id as usize) && id.spec().is_undocumented_result(code))
    })
}

/// Returns the text of a fault rule without its `name` clause.
pub fn strip_name_clause(text: &str) -> String {
    let clauses = text.split(':').enumerate().filter(|(i, clause)| *i == 0 || !clause.starts_with("name="));
    clauses.map(|(_, clause)| clause).collect::<Vec<_>>().join(":")
}
