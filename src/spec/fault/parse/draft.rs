//! A rule while its clauses are read.

use super::span::Span;
use crate::fault::{Action, Per, Rule, When};
use crate::function::{FUNCTIONS, FnSpec};
use crate::selector::FunctionSet;

/// A rule with some of its clauses parsed.
pub struct Draft<'a> {
    /// The rule so far.
    pub rule: Rule,
    /// The functions that it selects.
    pub functions: Vec<&'static FnSpec>,
    /// Value of `error`, which is parsed last.
    pub error: Option<Span<'a>>,
    /// The value of `stage`.
    pub stage: Option<Span<'a>>,
    /// Positions of the clauses with actions.
    pub actions: Vec<(&'static str, Span<'a>)>,
    /// Position of `until`.
    pub until: Option<Span<'a>>,
    /// True if the rule may do something dangerous.
    pub force: bool,
    /// The value of `name`.
    pub name: Option<Span<'a>>,
}

impl Draft<'_> {
    /// A rule of this text, before its clauses are read.
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
