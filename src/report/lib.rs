//! The report of a recording: as a model, as text, HTML, or a trace, and compared with another report.
//!
//! Everything that follows from a recording is here. The source of a recording (a directory, a packed file), and
//! arguments and output, are up to the command. A report is built in three steps. `collect` reads the events and
//! passes them to `functions`, `failures`, `findings`, `ledger`, `virtual_memory`, and `peers`; nothing
//! there grows with the number of events. `assemble` builds the rows of [`model`], which are serialized unchanged.
//! `verdict` decides which findings fail a run, which problems there are, and in which order. The views render rows and
//! verdict: [`text`] and [`html`] show them, and [`sarif`], [`junit`], and [`annotations`] write them for other tools.
//! [`diff`] compares rows, and [`trace`] reads the recording a second time. [`symbols`] names addresses.

mod allocator;
pub mod annotations;
mod assemble;
pub mod beside;
mod callers;
mod collect;
mod deviation;
pub mod diff;
mod durations;
pub mod endings;
mod expected;
mod failures;
pub mod faults;
pub mod filter;
mod findings;
mod functions;
mod hits;
pub mod html;
pub mod junit;
mod leaks;
mod ledger;
mod limited;
mod marks;
pub mod model;
pub mod moments;
pub mod names;
mod numbered;
mod pairs;
mod peers;
mod places;
mod pools;
mod reading;
pub mod reduced;
mod results;
mod runtime;
pub mod sarif;
mod scarce;
pub mod schema;
pub mod style;
pub mod summary;
pub mod suppress;
pub mod symbols;
pub mod table;
pub mod terminal;
pub mod text;
pub mod trace;
mod values;
mod verdict;
mod virtual_memory;

use anyhow::Result;
use cupeer_record::Job;
use cupeer_rules::Severity;
use cupeer_spec::record::slot::finding::Confidence;
pub use expected::why as why_expected;
use filter::Filter;
use model::Unnamed;
pub use places::{Places, Stack, Stacks};
use reduced::Reduced;
pub use results::is_usual;
use std::collections::BTreeSet;
use std::path::Path;
use symbols::Symbols;
pub use values::handle;

/// Data that a report has in addition to sums.
#[derive(Clone, Copy, Default)]
pub struct Keep {
    /// Number of single failures.
    pub failures: usize,
    /// True to keep the durations of calls, by function.
    pub durations: bool,
    /// True to tell calls apart by caller. It takes a twentieth of the time, and only JSON shows it.
    pub callers: bool,
}

/// Builds the report of a recording. Functions have names if there are `symbols`.
///
/// # Errors
///
/// The events of a process cannot be read.
///
/// # Examples
///
/// ```no_run
/// use cupeer_record::Job;
/// use cupeer_report::{Keep, filter::Filter, read, symbols::Symbols};
///
/// let dir = std::path::Path::new("recording");
/// let job = Job::open(dir)?;
/// let mut symbols = Symbols::of_record(dir, &job.processes);
/// let keep = Keep { failures: 100, durations: true, callers: false };
/// let report = read(&job, &Filter::all(&job), keep, Some(&mut symbols))?;
/// for finding in &report.findings {
///     println!("{} {}: {}", finding.severity, finding.rule, finding.message);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(job: &Job, filter: &Filter, keep: Keep, symbols: Option<&mut Symbols>) -> Result<model::Report> {
    Ok(parts(job, filter, keep, symbols, false)?.report(filter))
}

/// Reduces a recording that is a part of a job to data that can be merged with that of other parts.
///
/// # Errors
///
/// The events of a process cannot be read.
pub fn reduce(job: &Job, most_failures: usize, symbols: &mut Symbols) -> Result<Reduced> {
    let keep = Keep { failures: most_failures, durations: true, callers: true };
    parts(job, &Filter::all(job), keep, Some(symbols), true)
}

fn parts(
    job: &Job,
    filter: &Filter,
    keep: Keep,
    symbols: Option<&mut Symbols>,
    is_part: bool,
) -> Result<Reduced> {
    let all = collect::collect(job, filter, keep)?;
    let Some(symbols) = symbols else {
        return Ok(assemble::reduced(job, filter, all, &mut places::Nameless, is_part));
    };
    let mut reduced = assemble::reduced(job, filter, all, symbols, is_part);
    let unnamed = |(library, why): (&str, &str)| Unnamed { library: library.into(), reason: why.into() };
    reduced.unnamed = symbols.notes().map(unnamed).collect();
    Ok(reduced)
}

/// Returns the rules that a recording certainly breaks, without notes: each with its function, in words.
///
/// # Errors
///
/// The directory contains no recording, or the events of a process cannot be read.
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
    read(&job, &Filter::all(&job), Keep::default(), None)
}
