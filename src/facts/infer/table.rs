//! Joins findings of one rule and function, with one result and from one place, over all processes.
//!
//! This step needs the rows of all processes, of one recording or of several parts of a job (`part`). So a row
//! has the numbers of its processes.

use super::ranks;
use super::row::{FindingRow, ProcessSummary};
use cupeer_report::model::{Finding, MOST_PROCS, Place, SuppressedBy, is_explanation};
use cupeer_report::suppress::{FindingFacts, Suppressions};
use cupeer_rules::{Rule, Severity};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Findings of one part of a job, before those of all processes are joined.
#[derive(Serialize, Deserialize, Default)]
pub struct FindingRows {
    pub rows: Vec<FindingRow>,
    /// Pairs of devices that continued without IPC.
    pub fallbacks: Vec<FindingRow>,
    /// Failures by function and process, from which differences between ranks follow.
    pub failing: Vec<FindingRow>,
}

impl FindingRows {
    /// Returns all joined rows: the worst first, then in the order of time. `calls` returns the calls of a function by process.
    pub fn join_rows<'c>(
        self,
        members: &[ProcessSummary],
        calls: impl Fn(&str) -> Option<&'c [u64]>,
    ) -> Vec<FindingRow> {
        let mut joined = JoinedRows::default();
        joined.extend(self.rows);
        // A fallback whose failed call also breaks a rule is left out.
        let fallbacks: Vec<FindingRow> =
            self.fallbacks.into_iter().filter(|row| !joined.has_violation_like(row, Severity::Note)).collect();
        // Differences between ranks are left out if libraries expect the failures.
        let differing = ranks::find_differing_ranks(self.failing, members, calls).into_iter();
        let differing: Vec<FindingRow> = differing.filter(|row| !joined.has_note_like(row)).collect();
        joined.extend(fallbacks);
        joined.extend(differing);
        joined.into_sorted(members)
    }

    /// Adds the findings of another part of the job, whose processes follow the `processes` of this part.
    pub fn add(&mut self, other: FindingRows, processes: usize) {
        let moved = |mut row: FindingRow| {
            row.process += processes;
            row.processes.iter_mut().for_each(|process| *process += processes);
            row
        };
        self.rows.extend(other.rows.into_iter().map(moved));
        self.fallbacks.extend(other.fallbacks.into_iter().map(moved));
        self.failing.extend(other.failing.into_iter().map(moved));
    }

    /// Marks the findings that match suppressions. `programs` has the program of each process.
    pub fn suppress(&mut self, suppressions: &Suppressions, programs: &[&str]) {
        if suppressions.is_empty() {
            return;
        }
        for row in self.rows_mut() {
            let of = |process: &usize| programs.get(*process).copied();
            let programs: Vec<&str> = row.processes.iter().filter_map(of).collect();
            let Finding { rule, caller, stack, .. } = &row.finding;
            row.finding.suppressed_by =
                suppressions.find_match(&FindingFacts { rule, caller, stack, programs: &programs });
        }
    }

    /// Returns true if all rows have valid process numbers and severities.
    pub fn is_consistent(&self, processes: usize) -> bool {
        let is_one = |row: &FindingRow| {
            row.processes.iter().chain([&row.process]).all(|process| *process < processes)
                && Severity::from_word(row.finding.severity).is_some()
        };
        [&self.rows, &self.fallbacks, &self.failing].into_iter().flatten().all(is_one)
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut FindingRow> {
        self.rows.iter_mut().chain(&mut self.fallbacks).chain(&mut self.failing)
    }
}

/// Fills in sentences of rows that were only counted: the hint of the rule, and for explanations, which a process records once
/// for each result, the sentence of another row.
fn fill_sentences(rows: &mut [FindingRow]) {
    let key = |row: &FindingRow| {
        let Finding { rule, function, result, .. } = &row.finding;
        (rule.clone(), function.clone(), result.clone())
    };
    let said = rows.iter().filter(|row| is_explanation(&row.finding.rule) && !row.finding.message.is_empty());
    let said: BTreeMap<_, String> = said.map(|row| (key(row), row.finding.message.clone())).collect();
    for row in rows.iter_mut().filter(|row| row.finding.message.is_empty()) {
        row.finding.message = said.get(&key(row)).cloned().unwrap_or_default();
        if let Some(rule) = Rule::of(&row.finding.rule).filter(|_| row.finding.hint.is_empty()) {
            row.finding.hint = rule.spec().hint().into();
        }
    }
}

/// Key of calls that count as the same: function, result, and caller.
type CallKey = (Rc<str>, Option<String>, Place);

fn call_key(row: &FindingRow) -> CallKey {
    let Finding { function, result, caller, .. } = &row.finding;
    (function.clone(), result.clone(), caller.clone())
}

/// Returns the key of a row's calls, and the key with the place that called that caller: a rule may be broken at either.
fn call_keys(row: &FindingRow) -> [CallKey; 2] {
    let (function, result, caller) = call_key(row);
    let maker = caller.calling_place().clone();
    [(function.clone(), result.clone(), caller), (function, result, maker)]
}

pub fn library_of(caller: &Place) -> &str {
    caller.calling_place().library.as_deref().unwrap_or_default()
}

/// The joined rows, by rule, severity, calls, and suppression.
#[derive(Default)]
struct JoinedRows(BTreeMap<(Rc<str>, Severity, CallKey, Option<SuppressedBy>), FindingRow>);

impl Extend<FindingRow> for JoinedRows {
    fn extend<I: IntoIterator<Item = FindingRow>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.add(row));
    }
}

impl JoinedRows {
    /// Returns true if calls like those of a row break a rule of at least this severity.
    fn has_violation_like(&self, row: &FindingRow, least: Severity) -> bool {
        let places = call_keys(row);
        let is_alike = |known: &FindingRow| places.contains(&call_key(known)) && known.severity() >= least;
        self.0.values().any(|known| is_alike(known) && !is_explanation(&known.finding.rule))
    }

    /// Returns true if a note covers calls of the same function with the same result.
    fn has_note_like(&self, row: &FindingRow) -> bool {
        let is_note = |known: &&FindingRow| known.severity() == Severity::Note && !is_explanation(&known.finding.rule);
        let key = |row: &FindingRow| (row.finding.function.clone(), row.finding.result.clone());
        self.0.values().filter(is_note).any(|known| key(known) == key(row))
    }

    fn add(&mut self, row: FindingRow) {
        let key = (row.finding.rule.clone(), row.severity(), call_key(&row), row.finding.suppressed_by.clone());
        let row = match self.0.remove(&key) {
            Some(known) => known.join(row),
            None => row,
        };
        self.0.insert(key, row);
    }

    fn into_sorted(self, members: &[ProcessSummary]) -> Vec<FindingRow> {
        let mut rows: Vec<FindingRow> = self.0.into_values().collect();
        // An explanation of a failure is left out if a violation explains the same calls.
        let is_broken = |row: &&FindingRow| {
            !is_explanation(&row.finding.rule) && Rule::of(&row.finding.rule) != Some(Rule::IpcFallback)
        };
        let mut broken: BTreeMap<_, BTreeMap<Rc<str>, u64>> = BTreeMap::new();
        for row in rows.iter().filter(is_broken) {
            // A rule may have two rows for the same calls, if only some findings are suppressed.
            *broken.entry(call_key(row)).or_default().entry(row.finding.rule.clone()).or_default() += row.finding.count;
        }
        rows.retain(|row| {
            let rules = call_keys(row).into_iter().filter_map(|place| broken.get(&place)).flat_map(BTreeMap::values);
            let explained = rules.max().copied().unwrap_or(0);
            Rule::of(&row.finding.rule) != Some(Rule::CallFailed) || explained < row.finding.count
        });
        fill_sentences(&mut rows);
        for row in &mut rows {
            row.processes.sort_unstable();
            row.processes.dedup();
            let of = |process: &usize| members.get(*process)?.rank;
            row.finding.ranks = row.processes.iter().filter_map(of).collect();
            row.finding.ranks.sort_unstable();
            row.finding.ranks.dedup();
            let named = row.processes.iter().take(MOST_PROCS);
            row.finding.procs = named.filter_map(|process| Some(members.get(*process)?.proc.clone())).collect();
            row.finding.procs_more = row.processes.len().saturating_sub(MOST_PROCS) as u64;
        }
        rows.sort_by_key(|row| (Reverse(row.severity()), row.finding.time_ns, row.process));
        rows
    }
}
