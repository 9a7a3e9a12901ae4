//! The options `--error-exitcode` and `--error-on`: findings, and hangs, that change the exit status of a run.
//!
//! What counts is what the report of the run's processes says: it has what was found at the calls, what only the end of the
//! processes or all of them together show, and it judges again what a process could only infer. The page that the processes
//! share counts what was found at calls, without saying what it was. It is asked where there is no report, and for what the
//! record could not keep.

use super::ran::FinishedRun;
use crate::args::RunArgs;
use anyhow::{Result, bail};
use cupeer_console::output;
use cupeer_recordings::suppressions::parse_error_on;
use cupeer_report::model::{Finding, Report};
use cupeer_report::names::counted;
use cupeer_report::verdict::is_hang_error;
use cupeer_rules::{ErrorChoice, Rule, Severity};
use std::collections::BTreeMap;

/// Exit status if `--error-on` is given without `--error-exitcode`.
const DEFAULT_STATUS: u8 = 1;

pub struct ExitGate {
    status: u8,
    /// Option that selects the findings, for messages.
    option: &'static str,
    /// Findings that count as errors; `None` for all warnings and errors.
    pub error_selection: Option<ErrorChoice>,
}

impl ExitGate {
    /// Creates the gate; `None` if no option makes the exit status depend on findings.
    pub fn new(args: &RunArgs) -> Result<Option<ExitGate>> {
        let chosen = args.error_on.as_deref().map(parse_error_on).transpose()?;
        let option = if chosen.is_some() { "--error-on" } else { "--error-exitcode" };
        let status = args.error_exitcode.or_else(|| chosen.as_ref().map(|_| DEFAULT_STATUS));
        Ok(status.map(|status| ExitGate { status, option, error_selection: chosen }))
    }

    /// Returns true if exactly the warnings and errors are selected, which the shared page counts.
    fn selects_warnings_and_errors(&self) -> bool {
        self.error_selection.as_ref().is_none_or(ErrorChoice::has_warnings_as_errors)
    }

    /// Returns the exit status of the run and the reason, if a selected finding or hang occurred. If the findings are not
    /// known, prints why, and returns `None`.
    pub fn status_and_reason(&self, report: Option<&Report>, run: &FinishedRun) -> Option<(u8, String)> {
        let hung = run.hung.as_ref().filter(|_| is_hang_error(self.error_selection.as_ref()));
        let hung = hung.map(|_| format!("the job hung ({})", self.option));
        let why = hung.or_else(|| {
            self.find_reason(report, run).unwrap_or_else(|why| {
                output::print_problem(&format!("{}: {why}", self.option));
                None
            })
        });
        why.map(|why| (self.status, why))
    }

    fn find_reason(&self, report: Option<&Report>, run: &FinishedRun) -> Result<Option<String>> {
        // A report without processes is no answer: processes that could not record left nothing in it.
        let report = report.filter(|report| !report.processes.is_empty());
        let Some(report) = report else {
            return match run.findings {
                None => bail!("cannot count findings: no page could be shared with the program"),
                Some(0) => Ok(None),
                Some(count) if self.selects_warnings_and_errors() => {
                    Ok(Some(self.format_reason(count.into(), String::new())))
                }
                Some(count) => {
                    bail!("cannot tell what was found: {} and no recording", counted(count.into(), "finding"))
                }
            };
        };
        let mut by_rule: BTreeMap<&str, u64> = BTreeMap::new();
        for finding in report.failing() {
            *by_rule.entry(&finding.rule).or_default() += finding.count;
        }
        let mut count = by_rule.values().sum();
        let mut which: Vec<String> = by_rule.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
        let gone = count_findings_not_kept(report, run);
        if gone > 0 && self.selects_warnings_and_errors() {
            count += gone;
            which.push(format!("{gone} that the recording could not keep"));
        }
        match count {
            0 if gone > 0 => {
                bail!("cannot tell what {} were that the recording could not keep", counted(gone, "finding"))
            }
            0 => Ok(None),
            _ => Ok(Some(self.format_reason(count, format!(": {}", which.join(", "))))),
        }
    }

    fn format_reason(&self, count: u64, which: String) -> String {
        let findings = counted(count, "finding");
        match (self.option, count) {
            ("--error-on", 1) => format!("{findings} is chosen by --error-on{which}"),
            ("--error-on", _) => format!("{findings} are chosen by --error-on{which}"),
            (option, 1) => format!("{findings} is a warning or an error ({option})"),
            (option, _) => format!("{findings} are warnings or errors ({option})"),
        }
    }
}

/// Returns the number of warnings and errors that were found at calls and that the recording could not keep.
fn count_findings_not_kept(report: &Report, run: &FinishedRun) -> u64 {
    let is_whole = report.record.lost == 0 && !report.record.dropped && run.record_lost == 0;
    if is_whole {
        return 0;
    }
    // A finding that the report has withdrawn still counts as recorded.
    let is_counted = |finding: &&Finding| {
        let rule = Rule::of(&finding.rule).map(|rule| rule.spec().severity);
        rule.map_or(finding.severity != Severity::Note.word(), |severity| severity > Severity::Note)
    };
    let kept: u64 = report.findings.iter().filter(is_counted).map(|finding| finding.count).sum();
    u64::from(run.findings.unwrap_or(0)).saturating_sub(kept)
}

#[cfg(test)]
mod tests {
    use super::super::child::ProgramEnd;
    use super::super::told::{self, SummaryOptions};
    use super::*;
    use clap::Parser;
    use cupeer_record::Outcome;
    use cupeer_record::writer::{self, About, Writer};
    use cupeer_spec::function::FnId;
    use cupeer_spec::record::slot::finding::Confidence;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: RunArgs,
    }

    fn gate(options: &[&str]) -> ExitGate {
        let words = Words::try_parse_from([&["run"], options, &["program"]].concat()).unwrap();
        ExitGate::new(&words.args).unwrap().expect("one of its options")
    }

    /// A run of which the page has counted findings.
    fn run(findings: Option<u32>) -> FinishedRun {
        FinishedRun {
            end: ProgramEnd::Exited(0),
            process: (1, 1),
            ended: 0,
            orphans: Vec::new(),
            ends: Default::default(),
            bypasses: Vec::new(),
            reached: 1,
            hung: None,
            findings,
            record_lost: 0,
            unrecorded: 0,
            notes: Vec::new(),
            unreached: Vec::new(),
            unused: None,
            unseen_processes: 0,
            bypassing_libraries: 0,
        }
    }

    /// The report of a process that broke `ipc-flags` once, and whose record lacks some events.
    fn report(lost: u64, options: &[&str]) -> Report {
        let folder = tempfile::tempdir().unwrap();
        writer::write_job_file(folder.path()).unwrap();
        let mut writer = Writer::create(folder.path(), About::default()).unwrap();
        let stream = writer.stream(1000).unwrap();
        let mut call = writer::call(FnId::cuIpcOpenMemHandle_v2, 10, 20);
        call.outcome = Outcome::Returned(1);
        call.details.findings = vec![cupeer_record::Finding {
            confidence: Confidence::Certain,
            severity: Severity::Error,
            argument: None,
            rule: "ipc-flags".into(),
            message: "it is so".into(),
            hint: String::new(),
            objects: Vec::new(),
        }];
        writer.call(stream, &call).unwrap();
        writer.change_header(|header| header.lost = lost).unwrap();
        writer.finish().unwrap();
        let how =
            SummaryOptions { decides: true, error_on: gate(options).error_selection, ..SummaryOptions::default() };
        told::summarize_whole(folder.path(), "DIR", &how).report.unwrap()
    }

    fn verdict(options: &[&str], report: Option<&Report>, findings: Option<u32>) -> String {
        match gate(options).find_reason(report, &run(findings)) {
            Ok(None) => "none".into(),
            Ok(Some(why)) => why,
            Err(error) => format!("unknown: {error}"),
        }
    }

    #[test]
    fn the_report_is_the_truth_and_the_page_knows_what_it_lacks() {
        let severe = ["--error-exitcode", "9"];
        let [rules, warnings] = ["peer-*", "warning"].map(|set| ["--error-on", set]);
        let why = |count| format!("{count} findings are warnings or errors (--error-exitcode)");
        assert_eq!(
            verdict(&severe, Some(&report(0, &severe)), Some(7)),
            "1 finding is a warning or an error (--error-exitcode)"
        );
        assert_eq!(verdict(&rules, Some(&report(0, &rules)), Some(7)), "none");
        let lacking = |options: &[&str]| report(3, options);
        assert_eq!(
            verdict(&severe, Some(&lacking(&severe)), Some(1)),
            "1 finding is a warning or an error (--error-exitcode)"
        );
        assert_eq!(verdict(&severe, Some(&lacking(&severe)), Some(7)), why(7));
        assert_eq!(
            verdict(&warnings, Some(&lacking(&warnings)), Some(7)),
            "7 findings are chosen by --error-on: 1 ipc-flags, 6 that the recording could not keep"
        );
        let unknown = "unknown: cannot tell what 6 findings were that the recording could not keep";
        assert_eq!(verdict(&rules, Some(&lacking(&rules)), Some(7)), unknown);
    }

    #[test]
    fn without_a_report_the_page_counts_as_far_as_it_knows() {
        let severe = ["--error-exitcode", "9"];
        assert_eq!(verdict(&severe, None, Some(2)), "2 findings are warnings or errors (--error-exitcode)");
        assert_eq!(verdict(&severe, None, Some(0)), "none");
        let unknown = "unknown: cannot count findings: no page could be shared with the program";
        assert_eq!(verdict(&severe, None, None), unknown);
        assert_eq!(verdict(&["--error-on", "ipc-flags"], None, Some(0)), "none");
        let unknown = "unknown: cannot tell what was found: 2 findings and no recording";
        assert_eq!(verdict(&["--error-on", "ipc-flags"], None, Some(2)), unknown);
        assert_eq!(verdict(&["--error-on", "error"], None, Some(2)), unknown, "some may be warnings");
    }

    #[test]
    fn the_status_is_that_of_the_options() {
        assert_eq!(gate(&["--error-on", "all"]).status, 1);
        assert_eq!(gate(&["--error-on", "all", "--error-exitcode", "4"]).status, 4);
    }
}
