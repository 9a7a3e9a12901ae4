//! Fault plans: what each rule did, and because of what calls are as they are.
//!
//! What belongs here: what the files of counters say, and the names of rules that calls carry. What failed because a
//! fault plan said so is nobody's fault: everything else in a report leaves it alone.

use super::model::Fault;
use cupeer_record::{Call, FaultRule, Hit, Job};
use cupeer_spec::env;
use cupeer_spec::fault::Plan;
use cupeer_spec::record::slot::hit::did;
use std::collections::HashMap;
use std::rc::Rc;

/// The rows, in the order of the plans.
pub fn rows(job: &Job) -> Vec<Fault> {
    let is_set = |(name, value): &(String, String)| name == env::DRY_RUN && value == "1";
    let dry_run = job.processes.iter().any(|process| process.variables.iter().any(is_set));
    let rules = job.fault_rules().into_iter();
    rules
        .map(|rule| Fault {
            plan: rule.plan().to_owned(),
            rule: without_name(&rule.text),
            name: rule.name,
            matched: rule.matched,
            fired: rule.fired,
            processes: rule.processes,
            dry_run,
        })
        .collect()
}

/// Why a call failed, as far as fault plans go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The driver said so.
    Driver,
    /// The driver said so of a handle that a fault plan had damaged.
    DamagedHandle,
    /// A rule said so: its number in [`Rules`].
    Rule(u16),
}

/// The names of rules, each once. The first stands for all that have no name.
pub struct Rules {
    numbers: HashMap<Rc<str>, u16>,
    all: Vec<Rc<str>>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { numbers: HashMap::new(), all: vec!["".into()] }
    }
}

impl Rules {
    /// The number of the rule because of which a call failed.
    pub fn number(&mut self, call: &Call) -> u16 {
        let Some(name) = call.injected_by() else { return 0 };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let Ok(number) = u16::try_from(self.all.len()) else { return 0 };
        let name: Rc<str> = name.into();
        self.numbers.insert(name.clone(), number);
        self.all.push(name);
        number
    }

    /// The name of a rule; `None` where the record does not say which it was.
    pub fn name(&self, number: u16) -> Option<Rc<str>> {
        self.all.get(usize::from(number)).filter(|name| !name.is_empty()).cloned()
    }
}

/// Whether the driver has done what the call asked for, although the program was told that it failed.
pub fn is_done_all_the_same(call: &Call) -> bool {
    call.injected && call.details.hits.iter().any(Hit::is_done_all_the_same)
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

/// A rule without the clause that names it: its name is known.
fn without_name(text: &str) -> String {
    let clauses = text.split(':').enumerate().filter(|(i, clause)| *i == 0 || !clause.starts_with("name="));
    clauses.map(|(_, clause)| clause).collect::<Vec<_>>().join(":")
}
