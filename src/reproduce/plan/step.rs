//! A step of the plan.

use super::objects::VariableId;

/// Recorded end of a step.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ExpectedOutcome {
    /// The call returned the result of this name, or number.
    Result(String),
    /// The call did not return.
    NoReturn,
    /// The process ended: not a call.
    #[default]
    ProcessEnd,
}

/// A call, or the end of a process.
#[derive(Clone, Default)]
pub struct Step {
    pub process: usize,
    /// Statements that initialize the driver, or make a context current.
    pub setup: Vec<String>,
    /// Statements for objects that were created without a recorded call.
    pub before: Vec<String>,
    /// The call, or the statement that ends the process.
    pub call: String,
    pub expected: ExpectedOutcome,
    /// Statements after it and its messages: descriptors that the program closed.
    pub after: Vec<String>,
    /// Address of the call in the program; 0 if it is none.
    pub call_site: u64,
    /// Number of calls with this result.
    pub times: u64,
    /// Shared objects that it uses, and handles that it makes or reads.
    pub uses: Vec<VariableId>,
    /// True if the order of two of these steps in processes that did not create the object does not matter.
    pub is_unordered: bool,
}
