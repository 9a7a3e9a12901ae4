//! Groups findings of one kind: a rule that one function breaks, over all processes and callers.
//!
//! The summary after a run and the summary of the report have one line per kind.

use super::findings::is_explanation;
use super::model::{Finding, Report};
use super::text::findings::is_told;
use super::text::names::{counted, in_words};
use cupeer_rules::Rule;
use cupeer_spec::record::slot::finding::STALE;
use std::collections::{BTreeMap, BTreeSet};

/// Findings of one kind, the first one first.
pub struct Kind<'a>(Vec<&'a Finding>);

/// The kinds of what is more than a note, and of failures that are explained, in the order of their first findings.
pub fn told(report: &Report) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind> = Vec::new();
    for finding in report.findings.iter().filter(|finding| is_told(finding)) {
        let is_alike =
            |kind: &&mut Kind| (&kind.0[0].rule, &kind.0[0].function) == (&finding.rule, &finding.function);
        match kinds.iter_mut().find(is_alike) {
            Some(kind) => kind.0.push(finding),
            None => kinds.push(Kind(vec![finding])),
        }
    }
    kinds
}

impl<'a> Kind<'a> {
    /// The first one.
    pub fn first(&self) -> &'a Finding {
        self.0[0]
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|finding| finding.count).sum()
    }

    /// The ranks of the findings; their processes, where not all have one.
    pub fn who(&self, report: &Report) -> String {
        let ranks: BTreeSet<u32> = self.0.iter().flat_map(|finding| &finding.ranks).copied().collect();
        let procs: BTreeSet<&str> =
            self.0.iter().flat_map(|finding| &finding.procs).map(|proc| &**proc).collect();
        let pids: BTreeMap<&str, u32> =
            report.processes.iter().map(|process| (&*process.proc, process.pid)).collect();
        let more: u64 = self.0.iter().map(|finding| finding.procs_more).sum();
        match procs.first() {
            _ if ranks.len() >= procs.len() => in_words(ranks.into_iter()),
            Some(proc) if procs.len() == 1 => format!("process {}", pids.get(proc).copied().unwrap_or(0)),
            _ => counted(procs.len() as u64 + more, "process"),
        }
    }

    /// What was found first, and how sure that is. Of an explanation, what failed and its likeliest cause: the report has the others.
    pub fn message(&self) -> String {
        let first = self.first();
        let is_explanation = is_explanation(&first.rule);
        let message = if is_explanation { first_clauses(&first.message, 2) } else { &first.message };
        match first.confidence {
            "inferred" if !is_explanation => format!("probably, {message}"),
            "stale" if *first.rule != *Rule::IpcExporterGone.spec().name => format!("{message}; {STALE}"),
            _ => message.to_owned(),
        }
    }
}

/// What stands before the first semicolon of a sentence.
pub fn first_clause(message: &str) -> &str {
    first_clauses(message, 1)
}

/// What stands before a semicolon of a sentence, counted from 1; all of it where it has fewer.
fn first_clauses(message: &str, count: usize) -> &str {
    message.match_indices("; ").nth(count - 1).map_or(message, |(end, _)| &message[..end])
}
