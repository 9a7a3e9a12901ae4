//! A rule while its clauses are read.

use super::span::Span;
use crate::fault::{Action, Per, Rule, When};
use crate::function::{FUNCTIONS, FnSpec};
use crate::selector::FunctionSet;

/// Rule of which some clauses were parsed.
pub struct Draft<'a> {
    /// Rule with the values of the clauses that were parsed.
    pub rule: Rule,
    /// Functions that the rule selects.
    pub functions: Vec<&'static FnSpec>,
    /// Value of `error`, which is parsed after all other clauses.
    pub error: Option<Span<'a>>,
    /// Value of `stage`, as written.
    pub stage: Option<Span<'a>>,
    /// Positions of the clauses with actions.
    pub actions: Vec<(&'static str, Span<'a>)>,
    /// Position of `until`.
    pub until: Option<Span<'a>>,
    /// True if the rule may do something dangerous.
    pub force: bool,
    /// Value of `name`, as written.
    pub name: Option<Span<'a>>,
}

impl Draft<'_> {
    /// Creates the draft of a rule, before its clauses are parsed.
    pub fn new(text: &str, functions: FunctionSet) -> Self {
        let selected = FUNCTIONS.iter().enumerate().filter(|(index, _)| functions.contains(*index));
        Draft {
            functions: selected.map(|(_, function)| function).collect(),
            rule: Rule {
                name: String::new(),
                text: text.into(),
                functions,
                conditions: Vec::new(),
                when: When::ALWAYS,
                per: Per::Process,
                together: false,
                probability: 1.0,
                seed: 0,
                times: None,
                action: Action::default(),
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
