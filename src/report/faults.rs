//! Fault plans: what each fault did, and which calls it changed.
//!
//! It reads the files of counters, and the faults that calls name. Nobody is to blame for an injected failure, so
//! everything else in a report omits it.

use super::functions::Functions;
use super::hits::{At, FirstHits};
use super::ledger::settle::Fate;
pub use super::model::Fault;
use cupeer_record::{Call, FaultRule, Hit, Job};
use cupeer_spec::env;
use cupeer_spec::fault::{Error, Plan};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Largest number of names of faults that calls bring.
pub const MOST_NAMES: usize = 1 << 12;

/// Name of the plan of denied pairs.
pub const DENY: &str = "deny-peer";

/// The rows: the rules of files in the order of their plans, then those that only calls name.
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

/// The rows of rules.
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

/// How often each rule fired, as calls say.
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
    /// Counts the hits of a call, and keeps it where it `is_chosen` and one of the first. Processes are read one after
    /// the other.
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

/// Why a call failed, as far as fault plans go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The driver said so.
    Driver,
    /// The driver said so of something that a fault plan had changed before.
    Followed,
    /// A rule said so: the number of its name, where the record says which it was.
    Rule(Option<u16>),
}

/// Whether the driver has done what the call asked for, although the program was told that it failed.
pub fn is_done_all_the_same(call: &Call) -> bool {
    call.injected && call.details.hits.iter().any(Hit::is_done_all_the_same)
}

/// Whether a rule has fired at a call, or would have.
#[inline]
pub fn is_touched(call: &Call) -> bool {
    call.injected || !call.details.hits.is_empty()
}

/// Whether a rule has fired at a call, and done something.
pub fn has_changed(call: &Call) -> bool {
    call.injected || call.details.hits.iter().any(|hit| !hit.has(did::DRY))
}

/// The label that ends the wait of a hit; `None` where it does not wait.
pub fn label(hit: &Hit, rules: &[FaultRule]) -> Option<String> {
    let rule = rules.iter().find(|rule| hit.has(did::HANG) && rule.name == hit.rule)?;
    label_of(rule)
}

/// The label that ends the waits of a rule; `None` where it does not wait.
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

/// A rule without the clause that names it: its name is known.
fn without_name(text: &str) -> String {
    let clauses = text.split(':').enumerate().filter(|(i, clause)| *i == 0 || !clause.starts_with("name="));
    clauses.map(|(_, clause)| clause).collect::<Vec<_>>().join(":")
}
