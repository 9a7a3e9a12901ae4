//! Plans that are accepted, and plans that are refused.

mod generated;
mod keys;
mod mutated;
mod read;
mod refused;
mod shell;

use crate::fault::{FaultPlan, PlannedFault};

/// Parses a text with one rule.
fn rule(text: &str) -> PlannedFault {
    let mut plan = FaultPlan::parse("plan", text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(plan.rules.len(), 1, "{text}");
    plan.rules.remove(0)
}
