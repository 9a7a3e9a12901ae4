//! `cupeer report`: what a record says.
//!
//! What belongs here: the command, from its options to one of the forms. A report is made in three steps.
//! [`collect`] reads the events and tells [`functions`], [`failures`], [`findings`], [`ledger`] and [`peers`] of them;
//! nothing there grows with the number of events. [`assemble`] makes the rows of [`model`] from it. [`text`] and
//! [`json`] show those, [`diff`] compares them, and [`trace`] reads the record a second time.

mod assemble;
mod collect;
mod deviation;
mod diff;
mod failures;
pub mod faults;
mod filter;
mod findings;
mod functions;
mod hits;
mod json;
mod leaks;
mod ledger;
pub mod model;
mod moments;
mod opened;
mod peers;
mod places;
mod reading;
mod results;
pub mod summary;
pub mod text;
mod trace;
mod values;

use crate::args::{ReportArgs, ReportFormat};
use crate::output;
use crate::table::terminal_width;
use anyhow::{Context, Result, bail};
use cupeer_record::{Job, Library};
use cupeer_rules::Severity;
use cupeer_spec::record::slot::finding::Confidence;
use filter::Filter;
use model::Unnamed;
use opened::Opened;
pub use places::Places;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How many single failures are kept where not all are asked for.
const MOST_FAILURES: usize = 1000;

/// Carries out the subcommand.
pub fn command(args: &ReportArgs) -> Result<ExitCode> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => newest(Path::new("."))?,
    };
    if let Some(other) = &args.diff {
        return compare(args, &dir, other);
    }
    let (Opened { job, symbols, .. }, filter) = &mut open(args, &dir)?;
    let mut name_of = |library: &Library, address| symbols.name_of(library, address);
    let all = collect::collect(job, filter, most_failures(args))?;
    if args.format == ReportFormat::Trace {
        return trace::print(job, filter, &all, &mut name_of);
    }
    let mut report = assemble::report(job, filter, all, &mut name_of);
    let unnamed = |(library, why): (&str, &str)| Unnamed { library: library.into(), reason: why.into() };
    report.unnamed = symbols.notes().map(unnamed).collect();
    if args.format == ReportFormat::Json {
        return json::print(&report);
    }
    let options = text::Options { width: terminal_width(), all: args.all, leaks: args.leaks };
    output::print(&text::show(&report, &options))
}

/// Opens a record, and reads the filters for it.
fn open(args: &ReportArgs, dir: &Path) -> Result<(Opened, Filter)> {
    let opened = Opened::open(dir)?;
    let filter = Filter::new(args, &opened.job, assemble::began(&opened.job))?;
    Ok((opened, filter))
}

/// How many single failures are kept.
fn most_failures(args: &ReportArgs) -> usize {
    if args.all { usize::MAX } else { MOST_FAILURES }
}

/// Compares two records.
fn compare(args: &ReportArgs, dir: &Path, other: &Path) -> Result<ExitCode> {
    if args.format == ReportFormat::Trace {
        bail!("--diff compares as text or as JSON; a trace is of one record");
    }
    let report = |dir: &Path| {
        let (Opened { job, .. }, filter) = &open(args, dir).with_context(|| dir.display().to_string())?;
        let all = collect::collect(job, filter, 0)?;
        anyhow::Ok(assemble::report(job, filter, all, &mut |_: &Library, _: u64| None))
    };
    let diff = diff::compare(&report(dir)?, &report(other)?);
    match args.format {
        ReportFormat::Json => json::print(&diff),
        _ => output::print(&diff.show(terminal_width())),
    }
}

/// A text with something before it, where there is any.
fn after(before: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}") }
}

/// The newest directory `cupeer-*` that is a record.
fn newest(dir: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))?;
    let is_named = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"cupeer-");
    let mut found: Vec<_> = entries
        .flatten()
        .filter(is_named)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry)))
        .map(|(modified, entry)| (modified, PathBuf::from(entry.file_name())))
        .collect();
    found.sort();
    let newest = found.into_iter().rev().map(|(_, path)| path);
    let mut records = newest.filter(|path| Job::open(path).is_ok_and(|job| !job.processes.is_empty()));
    records.next().context("there is no record cupeer-* in this directory; give one: cupeer report DIR")
}

/// What breaks a rule in a record, certainly, and is more than a note: the rule and the function, in words.
pub fn broken(dir: &Path) -> Result<BTreeSet<String>> {
    let certain = Confidence::Certain.word();
    let is_broken =
        |finding: &model::Finding| finding.severity != Severity::Note.word() && finding.confidence == certain;
    Ok(of(dir)?
        .findings
        .into_iter()
        .filter(is_broken)
        .map(|finding| format!("{} at {}", finding.rule, finding.function))
        .collect())
}

/// The whole report of a record, without single failures and without names of functions.
fn of(dir: &Path) -> Result<model::Report> {
    let job = Job::open(dir)?;
    let filter = Filter::all(&job);
    let all = collect::collect(&job, &filter, 0)?;
    Ok(assemble::report(&job, &filter, all, &mut |_: &Library, _: u64| None))
}
