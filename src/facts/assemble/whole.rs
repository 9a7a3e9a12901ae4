//! The report of a recording as a whole: reads, collects, and assembles.

use crate::assemble::part::JobPart;
use crate::assemble::rows;
use crate::follow::collect::{Collected, collect};
use crate::infer::{self, Context};
use anyhow::Result;
use cupeer_record::Job;
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::{Finding, Report, Unnamed, is_explanation};
use cupeer_report::places::{NoSymbols, OwnLibraries, PlaceTable};
use cupeer_rules::{Severity, Tells};
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_symbols::Symbols;
use std::collections::BTreeSet;
use std::path::Path;

/// Builds the report of a recording. Functions have names if there are `symbols`.
///
/// # Errors
///
/// The events of a process cannot be read.
///
/// # Examples
///
/// ```no_run
/// use cupeer_facts::read;
/// use cupeer_record::Job;
/// use cupeer_report::{Keep, filter::Filter, symbols::Symbols};
///
/// let dir = std::path::Path::new("recording");
/// let job = Job::open(dir)?;
/// let mut symbols = Symbols::of_record(dir, &job.processes);
/// let keep = Keep { failures: 100, durations: true, callers: false, few_names: false };
/// let report = read(&job, &Filter::all(&job), keep, Some(&mut symbols))?;
/// for finding in &report.findings {
///     println!("{} {}: {}", finding.severity, finding.rule, finding.message);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(job: &Job, filter: &Filter, keep: Keep, symbols: Option<&mut Symbols>) -> Result<Report> {
    Ok(collect_part(job, filter, keep, symbols, false)?.report(filter))
}

/// Reduces a recording that is a part of a job to data that can be merged with that of other parts.
///
/// # Errors
///
/// The events of a process cannot be read.
pub fn reduce(job: &Job, most_failures: usize, symbols: &mut Symbols) -> Result<JobPart> {
    let keep = Keep { failures: most_failures, durations: true, callers: true, few_names: false };
    collect_part(job, &Filter::all(job), keep, Some(symbols), true)
}

fn collect_part(
    job: &Job,
    filter: &Filter,
    keep: Keep,
    symbols: Option<&mut Symbols>,
    is_part: bool,
) -> Result<JobPart> {
    let all = collect(job, filter, keep)?;
    let Some(symbols) = symbols.filter(|_| !keep.few_names || needs_symbols(job, filter, &all)) else {
        return Ok(rows::build_part(job, filter, all, &mut NoSymbols, is_part));
    };
    let mut reduced = match keep.few_names {
        true => rows::build_part(job, filter, all, &mut OwnLibraries(symbols), is_part),
        false => rows::build_part(job, filter, all, symbols, is_part),
    };
    let unnamed = |(library, why): (&str, &str)| Unnamed { library: library.into(), reason: why.into() };
    reduced.unnamed = symbols.notes().map(unnamed).collect();
    Ok(reduced)
}

/// Returns true if the report needs names of functions: it has a finding above a note, an explanation of a failure, a
/// finding about waste, or a clue.
fn needs_symbols(job: &Job, filter: &Filter, all: &Collected) -> bool {
    let mut nameless = NoSymbols;
    let context = Context::new(job, all, filter, false);
    let mut places = PlaceTable::new(&job.processes, &mut nameless);
    let rows = infer::finding_rows(&context, &mut places);
    let is_due = |finding: &Finding| is_explanation(&finding.rule) || finding.states_fact(Tells::Waste);
    rows.iter().any(|row| row.severity() > Severity::Note || is_due(&row.finding))
        || !infer::clues(&context, &mut places).is_empty()
}

/// Returns the rules that a recording certainly breaks, without notes: each with its function, in words.
///
/// # Errors
///
/// The directory contains no recording, or the events of a process cannot be read.
pub fn find_broken_rules(dir: &Path) -> Result<BTreeSet<String>> {
    let certain = Confidence::Certain.word();
    let is_broken = |finding: &Finding| finding.severity != Severity::Note.word() && finding.confidence == certain;
    Ok(read_report(dir)?
        .findings
        .into_iter()
        .filter(is_broken)
        .map(|finding| format!("{} at {}", finding.rule, finding.function))
        .collect())
}

/// Returns the whole report of a recording, without single failures and without names of functions.
fn read_report(dir: &Path) -> Result<Report> {
    let job = Job::open(dir)?;
    read(&job, &Filter::all(&job), Keep::default(), None)
}
