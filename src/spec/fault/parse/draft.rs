//! A rule while its clauses are read.

use super::span::Span;
use crate::fault::Rule;
use crate::function::FnSpec;

/// A rule of which some clauses are read.
pub struct Draft<'a> {
    /// What is known of it.
    pub rule: Rule,
    /// The functions that it selects.
    pub functions: Vec<&'static FnSpec>,
    /// The value of `error`, which is read when all else is known.
    pub error: Option<Span<'a>>,
    /// The value of `stage`.
    pub stage: Option<Span<'a>>,
    /// Where the clauses that do something stand.
    pub actions: Vec<(&'static str, Span<'a>)>,
    /// Where `until` stands.
    pub until: Option<Span<'a>>,
    /// Whether what is dangerous is meant.
    pub force: bool,
    /// The value of `name`.
    pub name: Option<Span<'a>>,
}
