//! Suppressed findings: how many, by which file, and which entries match nothing.

use super::TextView;
use cupeer_report::model::{Finding, Suppression};
use cupeer_report::names::{clean, counted};
use std::collections::BTreeMap;

/// Returns a line per file with the number of findings that it suppresses.
pub fn suppression_lines<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<String> {
    let mut by_file: BTreeMap<&str, u64> = BTreeMap::new();
    for finding in findings {
        if let Some(by) = &finding.suppressed_by {
            *by_file.entry(&by.file).or_default() += finding.count;
        }
    }
    let line = |(file, count): (&str, u64)| format!("{} suppressed by {}", counted(count, "finding"), clean(file));
    by_file.into_iter().map(line).collect()
}

/// Returns a line per entry that no finding matches.
pub fn unmatched_lines(entries: &[Suppression]) -> Vec<String> {
    let line = |entry: &Suppression| {
        let choices = [("rule", Some(&entry.rule)), ("library", entry.library.as_ref())].into_iter();
        let choices = choices.chain([("caller", entry.caller.as_ref()), ("program", entry.program.as_ref())]);
        let given = choices.filter_map(|(key, value)| Some(format!("{key} {}", clean(value?))));
        let given: Vec<String> = given.collect();
        format!("{}:{}: no finding matches this suppression: {}", clean(&entry.file), entry.line, given.join(", "))
    };
    entries.iter().filter(|entry| entry.findings == 0).map(line).collect()
}

impl TextView<'_> {
    pub fn suppressed(&self) -> String {
        let mut lines = suppression_lines(self.report.findings.iter());
        // With filters, an entry may match a finding that is not selected.
        if self.report.record.filters.is_empty() {
            lines.extend(unmatched_lines(&self.report.suppressions));
        }
        let text: String = lines.iter().map(|line| self.wrap_item("- ", line)).collect();
        if text.is_empty() { text } else { self.title("Suppressed") + &text }
    }
}
