//! The summary of a recording when its run ends. This reads the report, unless the recording is large; the lines are
//! [`cupeer_views::summary`]'s.

use super::hung;
use anyhow::{Error, Result};
use cupeer_record::{Job, Process};
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::Report;
use cupeer_report::names::format_unrecorded_count;
use cupeer_report::style::Emphasis;
use cupeer_report::suppress::Suppressions;
use cupeer_report::symbols::Symbols;
use cupeer_rules::ErrorChoice;
use cupeer_views::summary::{self, SummaryLine};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// Maximum size in bytes of a recording that is read at the end of a run; reading it takes a second or two.
const MOST_READ: u64 = 1 << 30;
/// Maximum number of checks at the end of a run whether its last processes have ended.
const END_CHECKS: u32 = 5;
/// Pause between two checks at the end of a run.
const END_PAUSE: Duration = Duration::from_millis(40);

/// Waits a moment for processes that end together with the started one, so that the summary does not call them
/// running.
pub fn wait_for_last_processes(directory: &Path) {
    for _ in 0..END_CHECKS {
        let is_running = Job::open(directory).is_ok_and(|job| job.are_alive().contains(&Some(true)));
        if !is_running {
            return;
        }
        std::thread::sleep(END_PAUSE);
    }
}

/// Options for the summary at the end of a run.
#[derive(Default)]
pub struct SummaryOptions {
    /// Findings that the user suppressed.
    pub suppressions: Suppressions,
    /// True if the exit status depends on findings: the recording is then read even if it is large or if other
    /// processes write to it.
    pub decides: bool,
    /// Selection of the findings that count as errors; `None` for the selection in the recording.
    pub error_on: Option<ErrorChoice>,
    /// Pid of the launched program, which decides the exit status of the run.
    pub launched: u32,
    /// True if the report is needed for annotations, unless the recording is large.
    pub annotates: bool,
    /// True if no source lines are printed.
    pub no_source: bool,
}

/// Summary at the end of a run.
#[derive(Default)]
pub struct Summary {
    /// Lines to print.
    pub lines: Vec<SummaryLine>,
    /// Report of the run's processes, if it was built.
    pub report: Option<Report>,
}

/// Returns the summary of a complete recording; `shown` is the recording's name in the command `cupeer report`.
pub fn summarize_whole(directory: &Path, shown: &str, how: &SummaryOptions) -> Summary {
    let size = recording_size(directory);
    if size > MOST_READ && !how.decides {
        let mut lines = vec![too_large_line(size, shown).into()];
        lines.extend(Job::open(directory).ok().and_then(|job| summary::limit_line_of_job(&job)));
        return Summary { lines, report: None };
    }
    match build_report(directory, how, |_| true) {
        Ok(report) => Summary { lines: summary::recording_summary(&report, shown, how.launched), report: Some(report) },
        Err(error) => Summary { lines: vec![unreadable_line(shown, &error)], report: None },
    }
}

/// Returns the size of a recording.
fn recording_size(directory: &Path) -> u64 {
    let list = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| entry.metadata().map_or(0, |about| about.len());
    // Recordings of a large job are in folders.
    let with_inner = |entry: fs::DirEntry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
        true => list(&entry.path()).map(of).fold(0, u64::saturating_add),
        false => of(entry),
    };
    list(directory).map(with_inner).fold(0, u64::saturating_add)
}

/// Builds the report of the chosen processes; its findings take all processes of the recording into account.
fn build_report(directory: &Path, how: &SummaryOptions, is_chosen: impl Fn(&Process) -> bool) -> Result<Report> {
    let job = Job::open(directory)?;
    let mut filter = Filter::of(&job, is_chosen);
    filter.suppressions = how.suppressions.clone();
    filter.error_on = how.error_on.clone();
    let mut symbols = Symbols::of_record(directory, &job.processes);
    // Names of functions take time, and only annotations and suppressions need all of them.
    let few_names = !how.annotates && how.suppressions.is_empty();
    let keep = Keep { few_names, ..Keep::default() };
    let mut report = cupeer_facts::read(&job, &filter, keep, Some(&mut symbols))?;
    if let Some(mut sources) = symbols.sources().filter(|_| !how.no_source) {
        report.read_source_lines(&mut sources);
    }
    Ok(report)
}

fn unreadable_line(shown: &str, error: &Error) -> SummaryLine {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound) {
        // The directory exists and had files, so another run must have replaced them by a reduced file.
        return format!("recorded in {shown}, where another run reduces it; 'cupeer report {shown}' shows it").into();
    }
    SummaryLine::about_problem(Emphasis::Error, format!("recorded in {shown}, which cannot be read: {error:#}"))
}

fn too_large_line(size: u64, shown: &str) -> String {
    format!("recorded {} MiB in {shown}; 'cupeer report {shown}' shows it", size >> 20)
}

/// Returns the summary of the processes for which `is_of_it` is true: those of one run in a directory with others.
/// Facts about all processes together are in the report. There are no lines if no process reached the driver.
pub fn summarize_run(
    directory: &Path,
    shown: &str,
    how: &SummaryOptions,
    is_of_it: impl Fn(&Process) -> bool,
) -> Summary {
    let is_wanted = how.decides || how.annotates && recording_size(directory) <= MOST_READ;
    let report = is_wanted.then(|| build_report(directory, how, &is_of_it));
    let mut lines = lines_without_findings(directory, shown, how, is_of_it);
    if let Some(Err(error)) = &report {
        lines.push(unreadable_line(shown, error));
    }
    let report = report.and_then(Result::ok);
    let report = report.filter(|report| !report.processes.is_empty());
    lines.extend(report.iter().flat_map(summary::suppressed_lines).map(SummaryLine::from));
    Summary { lines, report }
}

/// Returns the lines of [`summarize_run`] without the findings.
fn lines_without_findings(
    directory: &Path,
    shown: &str,
    how: &SummaryOptions,
    is_of_it: impl Fn(&Process) -> bool,
) -> Vec<SummaryLine> {
    let read = || -> Result<Vec<SummaryLine>> {
        let mut job = Job::open(directory)?;
        let all = job.processes.len();
        job.processes.retain(is_of_it);
        job.hangs.retain(|path| hung::is_file_of_this_run(path));
        if job.processes.is_empty() {
            let quiet = format_unrecorded_count(job.quiet.len() as u64, all);
            let line = quiet.map(|quiet| format!("no process of this run is recorded in {shown}: {quiet}"));
            return Ok(line.map(SummaryLine::from).into_iter().collect());
        }
        let sizes = job.processes.iter().filter_map(|process| Some(process.path.metadata().ok()?.len()));
        let size = sizes.fold(0, u64::saturating_add);
        if size > MOST_READ {
            return Ok([too_large_line(size, shown).into()]
                .into_iter()
                .chain(summary::limit_line_of_job(&job))
                .collect());
        }
        let others = (all - job.processes.len()) as u64;
        let report = cupeer_facts::read(&job, &Filter::all(&job), Keep::default(), None)?;
        Ok(summary::run_summary(report, all, others, shown, how.launched))
    };
    read().unwrap_or_else(|error| vec![unreadable_line(shown, &error)])
}
