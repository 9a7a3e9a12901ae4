//! Merges the findings of calls of one kind, so that a million of them need the memory of one.

use super::rows::Draft;
use crate::asked::filter::Filter;
use crate::facts::functions::{Functions, Number};
use crate::words::places::Stack;
use cupeer_rules::{Cache, Severity};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// What drafts have in common that one row tells: the rule and how sure it is, the argument, function, result, processes,
/// stack, cache, and the severity that a process has said.
type Kind = (
    Rc<str>,
    &'static str,
    Option<&'static str>,
    Number,
    Option<i32>,
    Vec<usize>,
    Stack,
    *const Cache,
    Option<Severity>,
);

/// Drafts, one for each kind: the first that has words, with the count of all.
pub struct Drafts<'a, 'f> {
    filter: &'f Filter,
    all: Vec<Draft<'a>>,
    numbers: HashMap<Kind, usize>,
}

impl<'a, 'f> Drafts<'a, 'f> {
    /// None yet, of what a filter shows.
    pub fn new(filter: &'f Filter) -> Self {
        Drafts { filter, all: Vec::new(), numbers: HashMap::new() }
    }

    pub fn push(&mut self, draft: Draft<'a>) {
        if !self.filter.shows(Functions::id(draft.function), draft.result != Some(0), draft.at) {
            return;
        }
        match self.numbers.entry(kind(&draft)) {
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.all.push(draft);
            }
            Entry::Occupied(place) => {
                let known = &mut self.all[*place.get()];
                let (count, last) = (known.count.saturating_add(draft.count), known.last.max(draft.last));
                let order = |draft: &Draft| (draft.sentence.message.is_empty(), draft.at);
                if order(&draft) < order(known) {
                    *known = draft;
                }
                (known.count, known.last) = (count, last);
            }
        }
    }

    pub fn into_all(self) -> Vec<Draft<'a>> {
        self.all
    }
}

fn kind(draft: &Draft) -> Kind {
    let sentence = &draft.sentence;
    (
        sentence.rule.clone(),
        sentence.confidence.word(),
        sentence.argument,
        draft.function,
        draft.result,
        draft.processes.clone(),
        draft.site.stack,
        draft.cache.map_or(std::ptr::null(), std::ptr::from_ref),
        draft.said,
    )
}
