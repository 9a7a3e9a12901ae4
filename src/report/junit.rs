//! The report as JUnit XML, for test runners and CI servers.
//!
//! A recording is a test suite; each process is a test case, and so is each rule that applies: cupeer checks it, and the
//! recording contains a call that could have broken it. A rule fails if a finding of it fails the run. It is skipped, with
//! the reason, if an option or the recording left a part of it unchecked.

use super::incidents::{self, DIED, FAILED};
use super::looked;
use super::model::{ExitKind, Finding, Process, Report};
use super::moments;
use super::text::View;
use super::text::endings::death;
use super::text::suppressed::lines;
use super::xml::Element;
use cupeer_rules::{RULES, RuleSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Columns of the texts.
const WIDTH: usize = 100;

/// How a test case came out.
enum Outcome {
    Passed,
    /// Why nobody can say.
    Skipped(String),
    /// A word for it, the message, and all that is known.
    Failed(&'static str, String, String),
}

struct Case {
    class: &'static str,
    name: String,
    outcome: Outcome,
    /// What else is to be said.
    out: String,
}

/// Returns the XML document.
///
/// # Examples
///
/// ```no_run
/// fn write(report: &cupeer_report::model::Report) -> std::io::Result<()> {
///     std::fs::write("cupeer.xml", cupeer_report::junit::document(report))
/// }
/// ```
pub fn document(report: &Report) -> String {
    let view = View::new(report, WIDTH, true);
    // As everywhere, deaths come first.
    let mut cases = of_processes(&view);
    cases.extend(of_rules(&view));
    cases.extend(nothing_ran(report));
    let count = |is_one: fn(&Outcome) -> bool| cases.iter().filter(|case| is_one(&case.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(..)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let record = &report.record;
    let directory = Path::new(&record.path).file_name().unwrap_or_default().to_string_lossy();
    let lasted = record.ended_ns.saturating_sub(record.began_ns) / 1_000_000;
    let time = format!("{}.{:03}", lasted / 1000, lasted % 1000);
    let counted = |element: Element| {
        element.with("tests", cases.len()).with("failures", failed).with("errors", 0).with("time", &time)
    };
    let property =
        |(name, value): (&str, String)| Element::new("property").with("name", name).with("value", value);
    let said = [("record", record.path.clone()), ("shown", record.filters.join(" "))];
    let properties = said.into_iter().filter(|(_, value)| !value.is_empty()).map(property);
    let suite = counted(Element::new("testsuite").with("name", format!("cupeer {directory}")))
        .with("skipped", skipped)
        .with("timestamp", moments::iso(record.began_ns))
        .with("hostname", record.hosts.join(","))
        .and([Element::new("properties").and(properties)])
        .and(cases.iter().map(Case::element));
    counted(Element::new("testsuites").with("name", "cupeer")).and([suite]).document()
}

impl Case {
    fn element(&self) -> Element {
        let case = Element::new("testcase").with("classname", self.class).with("name", &self.name);
        let case = match &self.outcome {
            Outcome::Passed => case,
            Outcome::Skipped(why) => case.and([Element::new("skipped").with("message", why)]),
            Outcome::Failed(kind, message, text) => {
                case.and([Element::new("failure").with("type", kind).with("message", message).text(text)])
            }
        };
        let out = Some(&self.out).filter(|out| !out.is_empty());
        case.and(out.map(|out| Element::new("system-out").text(out)))
    }
}

fn of_rules(view: &View) -> Vec<Case> {
    let is_found = |rule: &&RuleSpec| view.report.findings.iter().any(|finding| *finding.rule == *rule.name);
    let applies = |rule: &&RuleSpec| looked::applies(view.report, rule) || is_found(rule);
    let known = RULES.iter().filter(applies).map(|rule| (rule.name, Some(rule)));
    // What a newer version has found.
    let is_new = |name: &&str| RULES.iter().all(|rule| rule.name != *name);
    let new: BTreeSet<&str> =
        view.report.findings.iter().map(|finding| &*finding.rule).filter(is_new).collect();
    let all = known.chain(new.into_iter().map(|name| (name, None)));
    all.map(|(name, rule)| of_rule(view, name, rule)).collect()
}

fn of_rule(view: &View, name: &str, rule: Option<&RuleSpec>) -> Case {
    let found: Vec<&Finding> = view.report.findings.iter().filter(|finding| *finding.rule == *name).collect();
    let (suppressed, found): (Vec<&Finding>, Vec<&Finding>) =
        found.iter().partition(|finding| finding.suppressed_by.is_some());
    let (told, others): (Vec<&Finding>, Vec<&Finding>) = found.iter().partition(|finding| finding.fails);
    let text =
        |findings: &[&Finding]| findings.iter().map(|finding| view.finding(finding)).collect::<String>();
    let unknown = || rule.and_then(|rule| looked::why_unknown(view.report, rule));
    let outcome = match told.first() {
        Some(first) => {
            let message = match (first.message.is_empty(), rule) {
                (true, Some(rule)) => rule.page().says,
                _ => &first.message,
            };
            let message = format!("{}: {message}", view.who_and_how_often(first));
            Outcome::Failed(first.severity, message, text(&told))
        }
        None if !suppressed.is_empty() => Outcome::Skipped(lines(suppressed.into_iter()).join("; ")),
        None => unknown().map_or(Outcome::Passed, Outcome::Skipped),
    };
    Case { class: "cupeer.rules", name: name.to_owned(), outcome, out: text(&others) }
}

/// Says of a recording without calls that nothing was tested, and why.
fn nothing_ran(report: &Report) -> Option<Case> {
    let why = looked::why_nothing_ran(report)?;
    let (name, outcome) = ("calls".into(), Outcome::Skipped(why));
    Some(Case { class: "cupeer.recording", name, outcome, out: String::new() })
}

fn of_processes(view: &View) -> Vec<Case> {
    let mut alike: BTreeMap<String, u32> = BTreeMap::new();
    let case = |process: &Process| {
        let program = Path::new(&process.program).file_name().unwrap_or_default().to_string_lossy();
        let name = match process.rank {
            Some(rank) => format!("rank {rank}"),
            None if program.is_empty() => "unknown program".into(),
            None => program.clone().into_owned(),
        };
        // A name stays the same over runs, which no pid does.
        let number = alike.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number == 1 { name } else { format!("{name} ({number})") };
        let out = format!("process {} on {}: {}\n", process.pid, process.host, process.arguments.join(" "));
        Case { class: "cupeer.processes", name, outcome: of_end(view, process), out }
    };
    let mut cases: Vec<Case> = view.report.processes.iter().map(case).collect();
    cases.extend(incidents::of_others(view).into_iter().map(|incident| {
        let (name, text) = (incident.kind.id.to_owned(), incident.message);
        let outcome = Outcome::Failed(incident.kind.id, text.clone(), text);
        Case { class: "cupeer.processes", name, outcome, out: String::new() }
    }));
    cases
}

/// How a process ended.
fn of_end(view: &View, process: &Process) -> Outcome {
    let died = death(process).map(|how| {
        let text = view.death(process, &how);
        Outcome::Failed(DIED.id, text.clone(), text)
    });
    let skipped = |why: &str| Outcome::Skipped(why.into());
    died.unwrap_or_else(|| match (process.exit.kind, process.exit.code) {
        _ if process.is_stopped_on_purpose() => skipped("a fault plan ended it"),
        (ExitKind::Returned, Some(0)) => Outcome::Passed,
        (ExitKind::Returned, Some(code)) if view.is_injected() => {
            Outcome::Skipped(format!("it ended with exit status {code}, and a fault plan changed calls"))
        }
        (ExitKind::Returned, Some(code)) => {
            let text = format!("{} ended with exit status {code}", view.names.process(&process.proc));
            Outcome::Failed(FAILED.id, text.clone(), text)
        }
        (ExitKind::Returned, None) => skipped("it returned, and its exit status is unknown"),
        (ExitKind::Running, _) => skipped("it is still running"),
        (ExitKind::Executed, _) => skipped("it became another program"),
        _ => skipped("how it ended is unknown"),
    })
}
