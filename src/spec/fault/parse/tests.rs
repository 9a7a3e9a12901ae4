//! What is read, and what is refused.

mod generated;
mod keys;
mod mutated;
mod read;
mod refused;
mod shell;

use crate::fault::{Plan, Rule};

/// The one rule of a text.
fn rule(text: &str) -> Rule {
    let mut plan = Plan::parse("plan", text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(plan.rules.len(), 1, "{text}");
    plan.rules.remove(0)
}
