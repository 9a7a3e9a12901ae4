//! Writes a file of suppressions that matches exactly the findings of a recording.

use super::{FindingFacts, Suppressions};
use crate::base::terminal::clean;
use crate::model::{Finding, Process, Report};
use crate::verdict::Verdict;
use cupeer_rules::Severity;
use std::collections::BTreeSet;

/// Contents of a suppression file without entries.
const NOTHING: &str = "# No finding is more than a note: there is nothing to suppress.\n";

/// Returns the text of a file with suppressions: an entry for each place with findings above note that no entry
/// suppresses yet.
pub fn suppression_file_text(report: &Report) -> String {
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for finding in Verdict::of(report, true).findings_above_note() {
        let entry = narrowest_entry(report, finding);
        if seen.insert(entry.clone()) {
            let first = clean(finding.message.split("; ").next().unwrap_or_default());
            let comment = format!("# {} {}: {first}", finding.severity, clean(&finding.function));
            text += &format!("{}\n{entry}\n", comment.trim_end_matches([' ', ':']));
        }
    }
    if text.is_empty() { NOTHING.into() } else { text.trim_end().to_owned() + "\n" }
}

/// Returns an entry for a finding, by its function. Of inlined functions, it names the innermost, which stays
/// the same when the library is rebuilt. It uses the offset if the function is unknown, or if the entry would
/// match notes. If no entry matches the finding alone, a comment says so.
fn narrowest_entry(report: &Report, finding: &Finding) -> String {
    let place = &finding.caller;
    let Some(library) = place.calling_place().file_name() else {
        return format!("# Nothing but its rule, {}, is known of it: no entry can mean it alone.\n", finding.rule);
    };
    let mut callers = place.functions().take(1).map(str::to_owned).chain([place.calling_place().short()]);
    let entry = |caller: String| {
        let [rule, library, caller] = [&finding.rule, library, &caller].map(quote_toml);
        format!("[[suppression]]\nrule = {rule}\nlibrary = {library}\ncaller = {caller}\n")
    };
    let alone = callers.find_map(|caller| Some(entry(caller)).filter(|entry| !is_match_for_notes(report, entry)));
    alone.unwrap_or_else(|| {
        format!("# No entry means {} at {} and no note.\n", clean(&finding.rule), clean(&place.short()))
    })
}

/// Returns true if an entry would also match notes.
fn is_match_for_notes(report: &Report, entry: &str) -> bool {
    let mut one = Suppressions::default();
    if one.add("", entry).is_err() {
        return true;
    }
    let notes = report.findings.iter().filter(|finding| finding.severity == Severity::Note.word());
    notes.into_iter().any(|finding| {
        let of = |process: &&Process| finding.procs.contains(&process.proc);
        let programs: Vec<&str> = report.processes.iter().filter(of).map(|process| process.program.as_str()).collect();
        let Finding { rule, caller, stack, .. } = finding;
        one.find_match(&FindingFacts { rule, caller, stack, programs: &programs }).is_some()
    })
}

/// Returns a text as a TOML string: its JSON string, in which one more character must be escaped.
fn quote_toml(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_as_it_was_written() {
        for text in ["", "a\"b\\c", "f(int)\n\t\x7f\x01ä", "'"] {
            let line = format!("x = {}", quote_toml(text));
            let read = toml::de::DeTable::parse(&line).unwrap();
            assert_eq!(read.get_ref()["x"].get_ref().as_str(), Some(text));
        }
    }
}
