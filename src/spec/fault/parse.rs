//! Reads a plan.
//!
//! What belongs here: the text as a whole, its lines and rules. `clauses` reads one rule into a `draft`, by the table in `keys`;
//! how values of keys are read is in `conditions`, `counts`, `actions` and `name`, what values look like in `values`, and what
//! only the whole rule tells in `whole`.

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

/// The most bytes of a name, with that of its plan.
pub const LONGEST_NAME: usize = 64;

/// What is wrong with a plan, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The line of the text, from 1.
    pub line: usize,
    /// The column in that line, from 1, of the first byte that is wrong.
    pub column: usize,
    /// The sentence: what is wrong and what would be right. One line without control characters.
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

    /// Reads more rules, of a plan that has so many already. Says how many they are. After an error some of them may have
    /// been added.
    pub fn add(&mut self, plan: &str, already: usize, text: &str) -> Result<usize, PlanError> {
        let before = self.rules.len();
        // A plan may have thousands of rules: names are compared where their hashes are the same.
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
    /// Whether something is left to chance, so that its seed matters.
    pub fn is_random(&self) -> bool {
        let waits = [self.action.delay, self.action.delay_after];
        self.probability < 1.0
            || self.action.error == Some(super::Error::Any)
            || waits.into_iter().flatten().any(|delay| delay.jitter > 0)
            || self.conditions.iter().any(|condition| condition.key == Key::SomeSites)
    }

    /// Whether its text has a clause of this key.
    pub fn says(&self, key: &str) -> bool {
        self.text.split(':').skip(1).any(|clause| clause.split('=').next() == Some(key))
    }

    /// The rule as a text that means the same wherever it stands: with its whole name, and, where chance is involved and
    /// it has no seed, with this one.
    pub fn whole_text(&self, seed: u64) -> String {
        let named = |clause: &&str| clause.split('=').next() != Some("name");
        let mut text = self.text.split(':').filter(named).collect::<Vec<_>>().join(":");
        if self.is_random() && !self.says("seed") {
            text += &format!(":seed={seed}");
        }
        text + ":name=" + &self.name
    }
}
