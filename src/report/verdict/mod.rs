//! Decides which problems a report has, once for all outputs and exit statuses.
//!
//! [`grade_findings`] grades the findings when a report is built: how severe each counts, and whether it fails a run.
//! A [`Verdict`] lists the problems in order, each in a sentence and with its evidence: processes that died, findings,
//! and other problems. [`Verdict::headline`] sums them up; without any, [`Verdict::describe_coverage`] says what was
//! seen and not checked ([`looked`]). Views (text, HTML, SARIF, JUnit, annotations, and the summary after a run)
//! render these lists: they wrap, mark, and cut them, and decide nothing.

mod calls;
mod clues;
mod ends;
mod findings;
mod handles;
mod hang;
mod headline;
mod incidents;
pub mod looked;
mod outside;
mod ranks;
mod roots;
mod rules;
mod seen;

pub use calls::{describe_runtime_call, format_fault_cause};
pub use clues::{keep_clues, of as clue};
pub use ends::{ABNORMAL, EndVerdict, LAUNCHED};
pub use findings::{FindingGroup, sentence_with_confidence, times};
pub use handles::{format_total_size, state_severity};
pub use hang::is_hang_error;
pub use headline::{HeadlineLine, LineSubject};
pub use incidents::{ASKED_TO_END, DIED, FAILED, HUNG, Incident, IncidentKind, KINDS};
pub use rules::RuleFindings;

use crate::base::moments;
use crate::model::is_explanation;
use crate::model::{Finding, Process, Report};
use crate::words::names::{Labels, counted};
use cupeer_rules::{ErrorChoice, Rule, Severity};
use cupeer_spec::env;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Sets the severity with which each finding counts. `chosen` selects the findings that count as errors;
/// `None` uses the selection of each recorded run.
pub fn grade_findings(report: &mut Report, chosen: Option<&ErrorChoice>) {
    let of_run = report.processes.iter().filter_map(|process| {
        let text = process.variables.get(env::ERROR_ON).filter(|text| !text.is_empty())?;
        // A process ignored a selection that cannot be parsed.
        Some((process.proc.clone(), ErrorChoice::parse(text).ok()?))
    });
    let of_run: HashMap<_, _> = if chosen.is_none() { of_run.collect() } else { HashMap::new() };
    for finding in &mut report.findings {
        let chosen = chosen.or_else(|| of_run.get(&finding.proc));
        let library = finding.caller.calling_place().library.as_deref().unwrap_or_default().as_bytes();
        let own = Severity::from_word(finding.severity).unwrap_or(Severity::Note);
        let severity = chosen.map_or(own, |chosen| chosen.counted_severity(Rule::of(&finding.rule), library, own));
        let least = if chosen.is_some() { Severity::Error } else { Severity::Warning };
        finding.severity = severity.word();
        finding.fails = finding.suppressed_by.is_none() && severity >= least;
    }
    // Put calls that failed for lack of memory first. Such a call usually ends its process, and other errors
    // about that memory are its causes, which say less.
    let is_end =
        |finding: &Finding| [Rule::MemoryExhausted, Rule::MemoryKept].map(Some).contains(&Rule::of(&finding.rule));
    report.findings.sort_by_key(|finding| (Reverse(Severity::from_word(finding.severity)), !is_end(finding)));
    roots::find_roots(&mut report.findings);
}

impl Report {
    /// Returns the findings that no suppression matches.
    pub fn unsuppressed(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.suppressed_by.is_none())
    }

    /// Returns the findings that fail a run.
    pub fn failing(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.fails)
    }
}

/// Problems of a report, in the order in which people should read them.
pub struct Verdict<'a> {
    /// Report that has the problems.
    pub report: &'a Report,
    /// Short names of the processes and devices of the report.
    pub names: Labels,
    /// True if sentences list everything that they are about, instead of only the first few items.
    pub lists_all: bool,
    /// Hangs after which the job made no progress: the problem to read first.
    pub hangs: Option<Problem<'a>>,
    /// Processes that ended abnormally: the problem to read next.
    pub deaths: Option<Problem<'a>>,
    /// Findings that are warnings or errors, and explanations of failed calls. The worst is first, and each
    /// is above the findings that follow from it.
    pub main_findings: Vec<&'a Finding>,
    /// All other findings that no suppression matches.
    pub other_findings: Vec<&'a Finding>,
    /// Problems that no finding is about, the worst first.
    pub other_problems: Vec<Problem<'a>>,
}

/// Problem: things of one kind that went wrong.
pub struct Problem<'a> {
    /// Number and kind of the things, and what happened to them, such as `2 processes ended abnormally`.
    pub what: String,
    /// Sentences, one for each thing. Further lines of a sentence are its details.
    pub items: Vec<String>,
    /// Line of the headline for the problem; empty if other lines of the headline cover it.
    pub in_short: String,
    /// Option of `cupeer report` that shows more about the problem; empty if there is none.
    pub option: &'static str,
    /// Severity of the problem.
    pub severity: Severity,
    /// Kind of the incidents of the problem; `None` if tools do not list them.
    pub kind: Option<&'static IncidentKind>,
    /// Incident for each thing, for tools; empty if another problem has the incidents.
    pub incidents: Vec<Incident<'a>>,
}

impl<'a> Verdict<'a> {
    /// Finds the problems of a report.
    pub fn of(report: &'a Report, all: bool) -> Self {
        let (told, noted): (Vec<_>, _) = report.unsuppressed().partition(|finding| is_main_finding(finding));
        let told = roots::sort_by_root(report, told);
        let names = Labels::new(report);
        let mut verdict = Verdict {
            report,
            names,
            lists_all: all,
            hangs: None,
            deaths: None,
            main_findings: told,
            other_findings: noted,
            other_problems: Vec::new(),
        };
        verdict.hangs = verdict.find_hangs();
        verdict.deaths = verdict.find_deaths();
        let calls = [verdict.find_unreturned_calls(), verdict.find_unexplained_failures()].into_iter().flatten();
        let ends = [verdict.find_failing_ends(), verdict.find_failing_starts()];
        let links = [verdict.find_unmapped_pairs(), verdict.find_deviating_ranks()];
        let asked = verdict.find_requested_ends();
        verdict.other_problems = asked
            .into_iter()
            .chain(calls)
            .chain(verdict.find_handle_problems())
            .chain(links.into_iter().chain(ends).flatten())
            .collect();
        verdict
    }

    /// Returns the problems that no finding is about, one by one, in their order.
    pub fn incidents(&self) -> impl Iterator<Item = &Incident<'a>> {
        self.hangs.iter().chain(&self.deaths).chain(&self.other_problems).flat_map(|problem| &problem.incidents)
    }

    /// Returns the problem whose incidents are of a kind.
    pub fn problem_of_kind(&self, kind: &IncidentKind) -> Option<&Problem<'a>> {
        self.other_problems.iter().find(|problem| problem.kind.is_some_and(|own| own.id == kind.id))
    }

    /// Returns true if a finding may explain how processes ended.
    pub fn explains_ends(&self) -> bool {
        self.main_findings.iter().any(|finding| !is_explanation(&finding.rule))
    }

    /// Returns the findings above note, the worst first.
    pub fn findings_above_note(&self) -> impl Iterator<Item = &'a Finding> {
        self.main_findings.iter().copied().filter(|finding| finding.severity != Severity::Note.word())
    }

    /// Returns a time in seconds since the start of the recording.
    pub fn at(&self, moment: u64) -> String {
        moments::since(self.report.record.began_ns, moment)
    }

    /// Returns the number of items to list if `few` are listed by default.
    pub fn list_limit(&self, few: usize) -> usize {
        if self.lists_all { usize::MAX } else { few }
    }
}

/// Returns true if a finding is among the problems: its severity is above note, or it explains a failed call.
fn is_main_finding(finding: &Finding) -> bool {
    finding.severity != Severity::Note.word() || is_explanation(&finding.rule)
}

impl<'a> Problem<'a> {
    /// Creates a problem with a number of things; `None` for zero.
    pub fn of((count, word): (u64, &str), what: &str, items: Vec<String>) -> Option<Problem<'a>> {
        (count > 0).then(|| Problem::new(format!("{} {what}", counted(count, word)), items))
    }

    /// Returns the recorded processes that the incidents of the problem are about.
    pub fn processes(&self) -> impl Iterator<Item = &'a Process> {
        self.incidents.iter().filter_map(|incident| incident.process)
    }

    fn new(what: String, items: Vec<String>) -> Problem<'a> {
        let first = items.first().and_then(|item| item.lines().next());
        let in_short = match (first, items.len()) {
            (None, _) => what.clone(),
            (Some(one), 1) => format!("{what}: {one}"),
            (Some(first), _) => format!("{what}, first {first}"),
        };
        Problem { what, items, in_short, option: "", severity: Severity::Warning, kind: None, incidents: Vec::new() }
    }

    /// Creates a problem from incidents of one kind; `None` if there is no incident.
    fn from_incidents(
        kind: &'static IncidentKind,
        word: &str,
        what: &str,
        incidents: Vec<Incident<'a>>,
    ) -> Option<Self> {
        let count = incidents.iter().map(|incident| incident.count).sum();
        let items = incidents.iter().map(|incident| incident.message.clone()).collect();
        let problem = Problem::of((count, word), what, items)?;
        Some(Problem { kind: Some(kind), severity: kind.severity, incidents, ..problem })
    }

    /// Returns the problem as a line of the headline.
    fn headline_line(&self) -> HeadlineLine<'a> {
        HeadlineLine { text: self.in_short.clone(), about: LineSubject::Problem(self.severity) }
    }
}
