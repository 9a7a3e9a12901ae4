//! Merges pending findings of one kind, so that a million of them need the memory of one.

use crate::follow::functions::{FunctionCounts, Number};
use crate::follow::pending::PendingFinding;
use cupeer_report::filter::Filter;
use cupeer_report::places::StackNumber;
use cupeer_rules::{Cache, Severity};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// Key of pending findings that share a row: rule, confidence, argument, function, result, processes, stack, cache, and
/// recorded severity.
type FindingKey = (
    Rc<str>,
    &'static str,
    Option<&'static str>,
    Number,
    Option<i32>,
    Vec<usize>,
    StackNumber,
    Option<Cache>,
    Option<Severity>,
);

/// Pending findings, one for each kind: the first finding that has sentences, with the count of all.
pub struct MergedFindings<'a> {
    filter: &'a Filter,
    all: Vec<PendingFinding>,
    numbers: HashMap<FindingKey, usize>,
}

impl<'a> MergedFindings<'a> {
    /// Creates an empty collection for the findings that a filter selects.
    pub fn new(filter: &'a Filter) -> Self {
        MergedFindings { filter, all: Vec::new(), numbers: HashMap::new() }
    }

    pub fn push(&mut self, found: PendingFinding) {
        if !self.filter.has_call_of(FunctionCounts::id(found.function), found.result != Some(0), found.at) {
            return;
        }
        match self.numbers.entry(finding_key(&found)) {
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.all.push(found);
            }
            Entry::Occupied(place) => {
                let known = &mut self.all[*place.get()];
                let (count, last) = (known.count.saturating_add(found.count), known.last.max(found.last));
                let order = |found: &PendingFinding| (found.message.is_empty(), found.at);
                if order(&found) < order(known) {
                    *known = found;
                }
                (known.count, known.last) = (count, last);
            }
        }
    }

    pub fn into_all(self) -> Vec<PendingFinding> {
        self.all
    }
}

fn finding_key(found: &PendingFinding) -> FindingKey {
    (
        found.rule.clone(),
        found.confidence.word(),
        found.argument,
        found.function,
        found.result,
        found.processes.clone(),
        found.site.stack,
        found.cache,
        found.recorded_severity,
    )
}
