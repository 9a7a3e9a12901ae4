//! A rule while its clauses are read.

use super::span::Span;
use crate::fault::Rule;
use crate::function::FnSpec;

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
