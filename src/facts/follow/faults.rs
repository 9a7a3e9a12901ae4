//! Fault plans: what each fault did, and which calls it changed.
//!
//! It reads the files of counters, and the faults that calls name. Nobody is to blame for an injected failure, so
//! everything else in a report omits it.

use crate::follow::fault_hits::{At, FirstHits};
use crate::follow::functions::Functions;
use crate::follow::ledger::settle::Fate;
use cupeer_record::{Call, FaultRule, Hit, Job};
pub use cupeer_report::model::Fault;
use cupeer_spec::env;
use cupeer_spec::fault::{Error, Plan};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Largest number of names of faults that calls bring.
pub const MOST_NAMES: usize = 1 << 12;

/// Returns the rows of all faults: those of files in the order of their plans, then those that only calls name.
pub fn rows(job: &Job, fired: Fired, functions: &Functions, fates: &[Fate]) -> Vec<Fault> {
    let is_set = |(name, value): &(String, String)| name == env::DRY_RUN && value == "1";
    let is_dry = job.processes.iter().any(|process| process.variables.iter().any(is_set));
    let mut rows = of_rules(job.fault_rules(), is_dry);
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
    // Rules of one name, whose text differs from host to host, cannot be told apart by their calls: the first has them.
    for (name, rule) in fired.0 {
        if let Some(row) = rows.iter_mut().find(|row| row.name == *name) {
            (row.hits, row.hits_more) = rule.first.rows(functions, fates);
        }
    }
    rows
}

/// Returns a row for each fault, without the calls at which it fired.
pub fn of_rules(rules: Vec<FaultRule>, dry_run: bool) -> Vec<Fault> {
    let row = |rule: FaultRule| Fault {
        plan: rule.plan().to_owned(),
        only_seen: has_seen_result(&rule),
        rule: Some(without_name(&rule.text)),
        name: rule.name,
        matched: Some(rule.matched),
        fired: rule.fired,
        processes: rule.processes,
        dry_run,
        ..Fault::default()
    };
    rules.into_iter().map(row).collect()
}

/// Number of times that each fault fired, counted from the recorded calls.
#[derive(Default)]
pub struct Fired(BTreeMap<Rc<str>, Times>);

#[derive(Default)]
struct Times {
    times: u64,
    processes: u64,
    last: Option<usize>,
    is_dry: bool,
    first: FirstHits,
}

impl Fired {
    /// Counts the hits of a call. If the call `is_chosen`, also keeps it while the fault has few. Takes processes one
    /// after the other.
    pub fn add(&mut self, at: &At, is_chosen: bool) {
        let At { process, call, .. } = *at;
        for hit in &call.details.hits {
            if !self.0.contains_key(&*hit.rule) {
                if self.0.len() >= MOST_NAMES {
                    continue;
                }
                self.0.insert(hit.rule.as_str().into(), Times::default());
            }
            let Some(rule) = self.0.get_mut(&*hit.rule) else { continue };
            rule.times += 1;
            rule.is_dry |= hit.has(did::DRY);
            rule.processes += u64::from(rule.last != Some(process));
            rule.last = Some(process);
            if is_chosen {
                rule.first.add(at, hit);
            }
        }
    }
}

/// Source of a failure, as far as fault plans are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The driver returned the result.
    Driver,
    /// The driver returned the result for something that a fault plan had changed before.
    Followed,
    /// A fault set the result: the number of its name, or `None` if the recording does not have it.
    Rule(Option<u16>),
}

/// Returns true if a fault fired at the call or, in a dry run, would have fired.
#[inline]
pub fn is_touched(call: &Call) -> bool {
    call.injected || !call.details.hits.is_empty()
}

/// Returns true if a fault fired at the call and had an effect.
pub fn has_changed(call: &Call) -> bool {
    call.injected || call.details.hits.iter().any(|hit| !hit.has(did::DRY))
}

/// Returns the label with which `cupeer release` ends the wait of a hit; `None` if the hit does not wait.
pub fn label(hit: &Hit, rules: &[FaultRule]) -> Option<String> {
    let rule = rules.iter().find(|rule| hit.has(did::HANG) && rule.name == hit.rule)?;
    label_of(rule)
}

/// Returns the label with which `cupeer release` ends the waits of a fault; `None` if the fault does not wait.
pub fn label_of(rule: &FaultRule) -> Option<String> {
    let plan = Plan::parse(rule.plan(), &rule.text).ok()?;
    plan.rules.into_iter().find_map(|rule| rule.action.hang)
}

/// Whether the result of a rule is not documented for one of its functions, but was seen there.
fn has_seen_result(rule: &FaultRule) -> bool {
    let Ok(plan) = Plan::parse(rule.plan(), &rule.text) else { return false };
    plan.rules.iter().any(|rule| {
        let Some(Error::Code(code)) = rule.action.error else { return false };
        FnId::all().any(|id| rule.functions.contains(id as usize) && id.spec().is_only_seen(code))
    })
}

/// Returns a rule without the clause that names it.
pub fn without_name(text: &str) -> String {
    let clauses = text.split(':').enumerate().filter(|(i, clause)| *i == 0 || !clause.starts_with("name="));
    clauses.map(|(_, clause)| clause).collect::<Vec<_>>().join(":")
}
