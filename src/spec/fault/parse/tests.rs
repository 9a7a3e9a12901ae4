//! Plans that are accepted, and plans that are refused.

mod generated;
mod keys;
mod mutated;
mod read;
mod refused;
mod shell;

use crate::fault::{Plan, Rule};

/// Parses a text with one rule.
fn rule(text: &str) -> Rule {
    let mut plan = Plan::parse("plan", text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(plan.rules.len(), 1, "{text}");
    plan.rules.remove(0)
}
