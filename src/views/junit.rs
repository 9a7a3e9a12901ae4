//! The report as JUnit XML, for test runners and CI servers.
//!
//! A recording is a test suite; each process is a test case, and so is each rule that applies: cupeer checks it, and the
//! recording contains a call that could have broken it. A rule fails if a finding of it fails the run. It is skipped, with
//! the reason, if an option or the recording left a part of it unchecked.

use crate::form::{FormInput, FormProperties, ReportForm};
use crate::text::TextView;
use crate::text::suppressed::suppression_lines;
use anyhow::Result;
use cupeer_report::model::{Finding, Process, Report};
use cupeer_report::moments;
use cupeer_report::terminal::clean_lines;
use cupeer_report::verdict::{
    DIED, EndVerdict, FAILED, IncidentKind, RuleFindings, Verdict, looked, sentence_with_confidence,
};
use maud::{Markup, PreEscaped, Render, html};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Width of the texts in characters.
const WIDTH: usize = 100;

/// Form `junit` of the report.
pub struct JunitForm;

impl ReportForm for JunitForm {
    fn properties(&self) -> FormProperties {
        FormProperties::new(
            "junit",
            "JUnit's XML, for CI servers: a test case for each rule that applies and each process",
        )
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(out.write_all(document(given.report()?).as_bytes()))
    }
}

enum TestOutcome {
    Passed,
    /// It is unknown whether the test passed, for this reason.
    Skipped(String),
    /// The test failed: the type of failure, the message, and the details.
    Failed(&'static str, String, String),
}

struct TestCase {
    class: &'static str,
    name: String,
    outcome: TestOutcome,
    /// Text of the element `system-out`: further messages.
    out: String,
}

/// Returns the XML document.
///
/// # Examples
///
/// ```no_run
/// fn write(report: &cupeer_report::model::Report) -> std::io::Result<()> {
///     std::fs::write("cupeer.xml", cupeer_views::junit::document(report))
/// }
/// ```
pub fn document(report: &Report) -> String {
    let verdict = Verdict::of(report, true);
    let view = TextView::new(&verdict, WIDTH);
    // As in other forms, test cases of crashed processes come first.
    let mut cases = process_cases(&view);
    cases.extend(view.findings_by_rule().iter().map(|of| rule_case(&view, of)));
    cases.extend(no_calls_case(report));
    let count = |is_one: fn(&TestOutcome) -> bool| cases.iter().filter(|case| is_one(&case.outcome)).count();
    let failed = count(|outcome| matches!(outcome, TestOutcome::Failed(..)));
    let skipped = count(|outcome| matches!(outcome, TestOutcome::Skipped(_)));
    let (record, all) = (&report.record, cases.len());
    let directory = Path::new(&record.path).file_name().unwrap_or_default().to_string_lossy();
    let lasted = record.ended_ns.saturating_sub(record.began_ns) / 1_000_000;
    let time = format!("{}.{:03}", lasted / 1000, lasted % 1000);
    let (name, hosts) = (escape_attribute(&format!("cupeer {directory}")), escape_attribute(&record.hosts.join(",")));
    let timestamp = moments::iso(record.began_ns);
    let properties = [("record", record.path.clone()), ("shown", record.filters.join(" "))];
    let suites = html! {
        testsuites name="cupeer" tests=(all) failures=(failed) errors="0" time=(time) {
            testsuite name=(name) tests=(all) failures=(failed) errors="0" time=(time) skipped=(skipped)
                timestamp=(timestamp) hostname=(hosts) {
                properties {
                    @for (name, text) in properties.iter().filter(|(_, text)| !text.is_empty()) {
                        property name=(name) value=(escape_attribute(text)) {}
                    }
                }
                @for case in &cases { "\n" (case.xml_element()) }
                "\n"
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", suites.into_string())
}

impl TestCase {
    fn xml_element(&self) -> Markup {
        html! {
            testcase classname=(self.class) name=(escape_attribute(&self.name)) {
                @match &self.outcome {
                    TestOutcome::Passed => {},
                    TestOutcome::Skipped(why) => skipped message=(escape_attribute(why)) {},
                    TestOutcome::Failed(kind, message, all) => {
                        failure type=(kind) message=(escape_attribute(message)) { (clean_text(all)) }
                    }
                }
                @if !self.out.is_empty() { system-out { (clean_text(&self.out)) } }
            }
        }
    }
}

/// Returns a text without characters that an XML reader or a terminal would interpret.
fn clean_text(text: &str) -> String {
    // XML does not allow these two characters.
    clean_lines(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Escapes an attribute. Readers replace line ends by spaces unless they are written as references.
fn escape_attribute(value: &str) -> PreEscaped<String> {
    let mut escaped = String::new();
    clean_text(value).render_to(&mut escaped);
    PreEscaped(escaped.replace('\n', "&#10;"))
}

fn rule_case(view: &TextView, of: &RuleFindings) -> TestCase {
    let text = |findings: &[&Finding]| findings.iter().map(|finding| view.format_finding(finding)).collect::<String>();
    let outcome = match (&of.failing[..], &of.suppressed[..]) {
        ([first, ..], _) => {
            let message = match (first.message.is_empty(), of.rule) {
                (true, Some(rule)) => rule.page().says.into(),
                _ => sentence_with_confidence(first),
            };
            let message = format!("{}: {message}", view.who_and_how_often(first));
            TestOutcome::Failed(first.severity, message, text(&of.failing))
        }
        ([], [_, ..]) => TestOutcome::Skipped(suppression_lines(of.suppressed.iter().copied()).join("; ")),
        ([], []) => of.reason_unknown.clone().map_or(TestOutcome::Passed, TestOutcome::Skipped),
    };
    TestCase { class: "cupeer.rules", name: of.name.to_owned(), outcome, out: text(&of.others) }
}

/// Returns a test case for a recording without calls: nothing was tested, and why.
fn no_calls_case(report: &Report) -> Option<TestCase> {
    let why = looked::why_no_calls(report)?;
    let (name, outcome) = ("calls".into(), TestOutcome::Skipped(why));
    Some(TestCase { class: "cupeer.recording", name, outcome, out: String::new() })
}

fn process_cases(view: &TextView) -> Vec<TestCase> {
    let mut alike: BTreeMap<String, u32> = BTreeMap::new();
    let case = |process: &Process| {
        // Leave out the pid, so that the name of the test case stays the same in all runs.
        let name = Some(process.name_in_every_run()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "unknown program".into());
        let number = alike.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number == 1 { name } else { format!("{name} ({number})") };
        let out = format!("process {} on {}: {}\n", process.pid, process.host, process.arguments.join(" "));
        TestCase { class: "cupeer.processes", name, outcome: end_outcome(view, process), out }
    };
    let mut cases: Vec<TestCase> = view.report.processes.iter().map(case).collect();
    // Failures that belong to no recorded process: of programs without a recording, and of children that were
    // forked too late.
    let others = view.incidents().filter(|incident| incident.kind.fails_test_case && incident.process.is_none());
    cases.extend(others.map(|incident| {
        let (name, outcome) = (incident.kind.id.to_owned(), failed_outcome(incident.kind, incident.message.clone()));
        TestCase { class: "cupeer.processes", name, outcome, out: String::new() }
    }));
    cases
}

fn failed_outcome(kind: &'static IncidentKind, text: String) -> TestOutcome {
    TestOutcome::Failed(kind.id, text.clone(), text)
}

/// Returns the outcome for the end of a process.
fn end_outcome(view: &TextView, process: &Process) -> TestOutcome {
    match view.judge_end(process) {
        EndVerdict::Normal => TestOutcome::Passed,
        EndVerdict::Unknown(why) => TestOutcome::Skipped(why),
        EndVerdict::Requested => TestOutcome::Skipped(view.describe_death(process)),
        EndVerdict::Died => failed_outcome(&DIED, view.describe_death(process)),
        EndVerdict::Failed(code) => failed_outcome(&FAILED, view.describe_failure(process, code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_text() {
        let wild = "a<b>&\"]]>\u{0}\x1b[2J\u{fffe}\u{85}\nä";
        let element = html! { e a=(escape_attribute(wild)) { (clean_text(wild)) } }.into_string();
        let body = "a&lt;b&gt;&amp;&quot;]]&gt;\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}";
        assert_eq!(element, format!("<e a=\"{body}&#10;ä\">{body}\nä</e>"));
    }
}
