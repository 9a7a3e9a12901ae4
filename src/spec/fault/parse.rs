//! Reads a plan.
//!
//! This module splits a text into lines and rules. `clauses` reads a rule into a `draft` by the table in
//! `keys`. `conditions`, `counts`, `actions`, and `name` read the values of keys, in the forms of `values`.
//! `whole` checks conditions on a whole rule.

mod actions;
mod clauses;
mod conditions;
mod counts;
mod draft;
mod keys;
mod name;
mod signals;
mod span;
#[cfg(test)]
mod tests;
mod values;
mod whole;

use super::{ConditionKey, FaultPlan, PlannedFault, fnv_hash};
use core::fmt;
use span::Span;
use std::collections::BTreeSet;

pub use actions::describe_output_values;
pub use conditions::is_comparable;
pub use keys::{KeyKind, KeySpec, keys};
pub use name::is_fault_name;

/// Length in bytes of the longest name of a fault, including the name of its plan.
pub const LONGEST_NAME: usize = 64;

/// Mistake in a plan, and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The line of the text, from 1.
    pub line: usize,
    /// The column in that line, from 1, of the first byte that is wrong.
    pub column: usize,
    /// Error message with a correction: one line without control characters.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl FaultPlan {
    /// Parses the text of a plan. `plan` is the name of the plan, with which the names of its faults begin unless
    /// they name another plan.
    pub fn parse(plan: &str, text: &str) -> Result<FaultPlan, PlanError> {
        let mut rules = FaultPlan::default();
        rules.add_parsed(plan, 0, text)?;
        Ok(rules)
    }

    /// Parses a text, and adds its faults to the plan. `already` is the number of faults that precede them in the
    /// numbering. Returns the number of added faults. After an error, some of them may have been added.
    pub fn add_parsed(&mut self, plan: &str, already: usize, text: &str) -> Result<usize, PlanError> {
        let before = self.rules.len();
        // A plan may have thousands of faults, so names are compared only if their hashes are equal.
        let mut names: BTreeSet<u64> = self.rules.iter().map(|rule| fnv_hash(rule.name.as_bytes())).collect();
        let separators = text.bytes().filter(|byte| matches!(byte, b';' | b'\n')).count();
        // Few faults are shorter than `cuInit:hang`.
        self.rules.reserve_exact(separators.min(text.len() / 8) + 1);
        for (number, line) in text.split('\n').enumerate() {
            for span in Span::of_line(line, number + 1).split(';').map(Span::trim) {
                if span.text.is_empty() {
                    continue;
                }
                let number = already + self.rules.len() - before + 1;
                let (rule, named) = clauses::parse_rule(plan, number, span)?;
                let is_new = names.insert(fnv_hash(rule.name.as_bytes()));
                if !is_new && self.rules.iter().any(|other| other.name == rule.name) {
                    let message = format!("another fault is named '{}' already; names are given once", rule.name);
                    return Err(named.error_at_start(message));
                }
                self.rules.push(rule);
            }
        }
        Ok(self.rules.len() - before)
    }
}

impl PlannedFault {
    /// Returns true if the fault makes random choices, so that its seed matters.
    pub fn is_random(&self) -> bool {
        let waits = [self.action.delay, self.action.delay_after];
        self.probability < 1.0
            || self.action.error == Some(super::FaultResult::Any)
            || waits.into_iter().flatten().any(|delay| delay.jitter > 0)
            || self.conditions.iter().any(|condition| condition.key == ConditionKey::SomeSites)
    }

    /// Returns true if the text of the fault has a clause with this key.
    pub fn has_clause(&self, key: &str) -> bool {
        self.text.split(':').skip(1).any(|clause| clause.split('=').next() == Some(key))
    }

    /// Formats the fault as a text that has the same meaning in any plan: with its full name and, if it is random and
    /// has no seed, with this seed.
    pub fn self_contained_text(&self, seed: u64) -> String {
        let named = |clause: &&str| clause.split('=').next() != Some("name");
        let mut text = self.text.split(':').filter(named).collect::<Vec<_>>().join(":");
        if self.is_random() && !self.has_clause("seed") {
            text += &format!(":seed={seed}");
        }
        text + ":name=" + &self.name
    }
}
