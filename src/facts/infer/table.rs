//! Joins findings of one rule and function, with one result and from one place, over all processes.
//!
//! It contains what needs all processes together, of one recording or of several parts of a job (`part`). So a row
//! has the numbers of its processes.

use super::ranks;
use super::row::{Member, Row};
use cupeer_report::model::{Finding, MOST_PROCS, Place, SuppressedBy, is_explanation};
use cupeer_report::suppress::{Facts, Suppressions};
use cupeer_rules::{Rule, Severity};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Findings of one part of a job, before those of all processes are joined.
#[derive(Serialize, Deserialize, Default)]
pub struct FindingRows {
    pub rows: Vec<Row>,
    /// Pairs of devices that continued without IPC.
    pub fallbacks: Vec<Row>,
    /// Failures by function and process, for [`ranks::differing`].
    pub failing: Vec<Row>,
}

impl FindingRows {
    /// All rows: the worst first, then in the order of time. The calls of a function are by process.
    pub fn rows<'c>(self, members: &[Member], calls: impl Fn(&str) -> Option<&'c [u64]>) -> Vec<Row> {
        let mut joined = JoinedRows::default();
        joined.extend(self.rows);
        // A fallback at a place that breaks a rule is no news.
        let fallbacks: Vec<Row> =
            self.fallbacks.into_iter().filter(|row| !joined.explains(row, Severity::Note)).collect();
        // Ranks may differ in failures that libraries expect.
        let differing = ranks::differing(self.failing, members, calls).into_iter();
        let differing: Vec<Row> = differing.filter(|row| !joined.has_note_like(row)).collect();
        joined.extend(fallbacks);
        joined.extend(differing);
        joined.finish(members)
    }

    /// Adds what was found in other processes, which come behind so many of these.
    pub fn add(&mut self, other: FindingRows, processes: usize) {
        let moved = |mut row: Row| {
            row.process += processes;
            row.processes.iter_mut().for_each(|process| *process += processes);
            row
        };
        self.rows.extend(other.rows.into_iter().map(moved));
        self.fallbacks.extend(other.fallbacks.into_iter().map(moved));
        self.failing.extend(other.failing.into_iter().map(moved));
    }

    /// Suppresses what entries mean; processes execute these programs.
    pub fn suppress(&mut self, suppressions: &Suppressions, programs: &[&str]) {
        if suppressions.is_empty() {
            return;
        }
        for row in self.all_mut() {
            let of = |process: &usize| programs.get(*process).copied();
            let programs: Vec<&str> = row.processes.iter().filter_map(of).collect();
            let Finding { rule, caller, stack, .. } = &row.finding;
            row.finding.suppressed_by =
                suppressions.find(&Facts { rule, caller, stack, programs: &programs });
        }
    }

    /// Returns true if all rows have valid process numbers and severities.
    pub fn is_sound(&self, processes: usize) -> bool {
        let is_one = |row: &Row| {
            row.processes.iter().chain([&row.process]).all(|process| *process < processes)
                && Severity::of(row.finding.severity).is_some()
        };
        [&self.rows, &self.fallbacks, &self.failing].into_iter().flatten().all(is_one)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut().chain(&mut self.fallbacks).chain(&mut self.failing)
    }
}

/// Puts words into rows of which all were only counted: the rule's own hint, and of explanations, which a process gives
/// once for each result, what was said in another place.
fn complete(rows: &mut [Row]) {
    let key = |row: &Row| {
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

/// Calls that are alike: function, result and caller.
type Calls = (Rc<str>, Option<String>, Place);

fn place(row: &Row) -> Calls {
    let Finding { function, result, caller, .. } = &row.finding;
    (function.clone(), result.clone(), caller.clone())
}

/// The same, and that with the place that made the calls for this one: the place of a rule that is broken there.
fn places(row: &Row) -> [Calls; 2] {
    let (function, result, caller) = place(row);
    let maker = caller.maker().clone();
    [(function.clone(), result.clone(), caller), (function, result, maker)]
}

pub fn library(caller: &Place) -> &str {
    caller.maker().library.as_deref().unwrap_or_default()
}

/// The rows by what they have in common: the rule, how bad it is there, the calls, and what suppresses them.
#[derive(Default)]
struct JoinedRows(BTreeMap<(Rc<str>, Severity, Calls, Option<SuppressedBy>), Row>);

impl Extend<Row> for JoinedRows {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.add(row));
    }
}

impl JoinedRows {
    /// Returns true if calls like those of a row break a rule of at least this severity.
    fn explains(&self, row: &Row, least: Severity) -> bool {
        let places = places(row);
        let is_alike = |known: &Row| places.contains(&place(known)) && known.severity() >= least;
        self.0.values().any(|known| is_alike(known) && !is_explanation(&known.finding.rule))
    }

    /// Returns true if a note covers calls of the same function with the same result.
    fn has_note_like(&self, row: &Row) -> bool {
        let is_note =
            |known: &&Row| known.severity() == Severity::Note && !is_explanation(&known.finding.rule);
        let key = |row: &Row| (row.finding.function.clone(), row.finding.result.clone());
        self.0.values().filter(is_note).any(|known| key(known) == key(row))
    }

    fn add(&mut self, row: Row) {
        let key = (row.finding.rule.clone(), row.severity(), place(&row), row.finding.suppressed_by.clone());
        let row = match self.0.remove(&key) {
            Some(known) => known.and(row),
            None => row,
        };
        self.0.insert(key, row);
    }

    fn finish(self, members: &[Member]) -> Vec<Row> {
        let mut rows: Vec<Row> = self.0.into_values().collect();
        // A violation explains the failures of its calls.
        let is_broken = |row: &&Row| {
            !is_explanation(&row.finding.rule) && Rule::of(&row.finding.rule) != Some(Rule::IpcFallback)
        };
        let mut broken: BTreeMap<_, BTreeMap<Rc<str>, u64>> = BTreeMap::new();
        for row in rows.iter().filter(is_broken) {
            // One rule has two rows where some of them are suppressed.
            *broken.entry(place(row)).or_default().entry(row.finding.rule.clone()).or_default() +=
                row.finding.count;
        }
        rows.retain(|row| {
            let rules =
                places(row).into_iter().filter_map(|place| broken.get(&place)).flat_map(BTreeMap::values);
            let explained = rules.max().copied().unwrap_or(0);
            Rule::of(&row.finding.rule) != Some(Rule::CallFailed) || explained < row.finding.count
        });
        complete(&mut rows);
        for row in &mut rows {
            row.processes.sort_unstable();
            row.processes.dedup();
            let of = |process: &usize| members.get(*process)?.rank;
            row.finding.ranks = row.processes.iter().filter_map(of).collect();
            row.finding.ranks.sort_unstable();
            row.finding.ranks.dedup();
            let named = row.processes.iter().take(MOST_PROCS);
            row.finding.procs =
                named.filter_map(|process| Some(members.get(*process)?.proc.clone())).collect();
            row.finding.procs_more = row.processes.len().saturating_sub(MOST_PROCS) as u64;
        }
        rows.sort_by_key(|row| (Reverse(row.severity()), row.finding.time_ns, row.process));
        rows
    }
}
