//! A rule while its clauses are read.

use super::span::Span;
use crate::fault::{CallSelection, CounterScope, FaultAction, PlannedFault};
use crate::function::{FUNCTIONS, FnSpec};
use crate::selector::FunctionSet;

/// Fault of which some clauses were parsed.
pub struct FaultDraft<'a> {
    /// Fault with the values of the clauses that were parsed.
    pub rule: PlannedFault,
    /// Functions that the fault selects.
    pub functions: Vec<&'static FnSpec>,
    /// Value of `error`, which is parsed after all other clauses.
    pub error: Option<Span<'a>>,
    /// Value of `stage`, as written.
    pub stage: Option<Span<'a>>,
    /// Positions of the clauses with actions.
    pub actions: Vec<(&'static str, Span<'a>)>,
    /// Position of `until`.
    pub until: Option<Span<'a>>,
    /// True if the fault has the clause `force`, which allows dangerous actions.
    pub force: bool,
    /// Value of `name`, as written.
    pub name: Option<Span<'a>>,
}

impl FaultDraft<'_> {
    /// Creates the draft of a fault, before its clauses are parsed.
    pub fn new(text: &str, functions: FunctionSet) -> Self {
        let selected = FUNCTIONS.iter().enumerate().filter(|(index, _)| functions.contains(*index));
        FaultDraft {
            functions: selected.map(|(_, function)| function).collect(),
            rule: PlannedFault {
                name: String::new(),
                text: text.into(),
                functions,
                conditions: Vec::new(),
                when: CallSelection::ALWAYS,
                per: CounterScope::Process,
                together: false,
                probability: 1.0,
                seed: 0,
                times: None,
                action: FaultAction::default(),
            },
            error: None,
            stage: None,
            actions: Vec::new(),
            until: None,
            force: false,
            name: None,
        }
    }
}
