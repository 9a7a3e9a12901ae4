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

use super::{Key, Plan, Rule, fnv};
use core::fmt;
use span::Span;
use std::collections::BTreeSet;

pub use actions::output_values;
pub use conditions::is_comparable;
pub use keys::{KeyKind, KeySpec, keys};
pub use name::is_name;

/// The longest name in bytes, including the name of its plan.
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

impl Plan {
    /// Reads rules. `plan` is the name of the plan: it begins the names of its rules that do not name another one.
    pub fn parse(plan: &str, text: &str) -> Result<Plan, PlanError> {
        let mut rules = Plan::default();
        rules.add(plan, 0, text)?;
        Ok(rules)
    }

    /// Adds the rules of a text to a plan that has `already` rules. Returns their number. After an error,
    /// some of them may have been added.
    pub fn add(&mut self, plan: &str, already: usize, text: &str) -> Result<usize, PlanError> {
        let before = self.rules.len();
        // A plan may have thousands of rules, so names are compared only if their hashes are equal.
        let mut names: BTreeSet<u64> = self.rules.iter().map(|rule| fnv(rule.name.as_bytes())).collect();
        let separators = text.bytes().filter(|byte| matches!(byte, b';' | b'\n')).count();
        // Hardly a rule is shorter than `cuInit:hang`.
        self.rules.reserve_exact(separators.min(text.len() / 8) + 1);
        for (number, line) in text.split('\n').enumerate() {
            for span in Span::line(line, number + 1).split(';').map(Span::trim) {
                if span.text.is_empty() {
                    continue;
                }
                let number = already + self.rules.len() - before + 1;
                let (rule, named) = clauses::rule(plan, number, span)?;
                let is_new = names.insert(fnv(rule.name.as_bytes()));
                if !is_new && self.rules.iter().any(|other| other.name == rule.name) {
                    let message =
                        format!("another fault is named '{}' already; names are given once", rule.name);
                    return Err(named.error(message));
                }
                self.rules.push(rule);
            }
        }
        Ok(self.rules.len() - before)
    }
}

impl Rule {
    /// Returns true if the plan is random, so that its seed matters.
    pub fn is_random(&self) -> bool {
        let waits = [self.action.delay, self.action.delay_after];
        self.probability < 1.0
            || self.action.error == Some(super::Error::Any)
            || waits.into_iter().flatten().any(|delay| delay.jitter > 0)
            || self.conditions.iter().any(|condition| condition.key == Key::SomeSites)
    }

    /// Returns true if the plan's text has a clause with this key.
    pub fn says(&self, key: &str) -> bool {
        self.text.split(':').skip(1).any(|clause| clause.split('=').next() == Some(key))
    }

    /// Formats the rule as a text that has the same meaning everywhere: with its full name and, if it is
    /// random and has no seed, with this seed.
    pub fn whole_text(&self, seed: u64) -> String {
        let named = |clause: &&str| clause.split('=').next() != Some("name");
        let mut text = self.text.split(':').filter(named).collect::<Vec<_>>().join(":");
        if self.is_random() && !self.says("seed") {
            text += &format!(":seed={seed}");
        }
        text + ":name=" + &self.name
    }
}
