//! Exports a recording as Parquet tables for DuckDB, Spark, ClickHouse, polars, and pandas, and as a
//! [`trace`] for ui.perfetto.dev.
//!
//! The crate defines the tables ([`tables`]), how they are written ([`table`], [`cells`]), and the source of
//! their rows: the recording's events for calls and marks ([`calls`]), and the report for all others
//! ([`rows`], [`places`]), so that no fact is computed twice. Its caller chooses the recording, the redaction
//! ([`Redact`]), and the directory.
//!
//! # Threads
//!
//! The report reads all events in one thread. Other threads read them a second time, one process each, and
//! write them as rows. The rows of one thread are a part: a file with the calls of some processes of one
//! host. The rows in its row groups are sorted by time. A row group has the rows of many small processes, or
//! a part of a large one. Only one row group per thread is in memory, whatever the number of calls.
//!
//! # The modules
//!
//! From the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `options`: the options of an export.
//! - `cells`: values, and the buffers that hold them.
//! - `keys`: the columns that identify the process of a row.
//! - `table`, `tables`: the writer of tables, and their definitions.
//! - `calls`: the rows of calls.
//! - `parts`: the work of the threads.
//! - `places`, `rows`: all other rows.
//! - `page`: the page about the tables.
//! - `trace`: the recording as a trace, independent of the tables.

mod calls;
mod cells;
mod keys;
mod options;
pub mod page;
mod parts;
mod places;
mod rows;
mod table;
mod tables;
pub mod trace;

use anyhow::{Context, Result};
use cupeer_record::Job;
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::names::format_unrecorded_count;
use cupeer_report::symbols::Symbols;
use keys::ProcessKeys;
pub use options::{Options, Redact, WrittenSize};
use parts::{ExportPlan, ExportWork};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
pub use table::VERSION;

/// Results of an export.
pub struct ExportResults {
    /// Rows and bytes written, by table.
    pub tables: BTreeMap<&'static str, WrittenSize>,
    /// Number of processes.
    pub processes: usize,
    /// Problems with the recording, and parts that were left out: sentences.
    pub problems: Vec<String>,
}

/// Writes the tables of a record into a directory, which is there and is empty.
pub fn export(job: &Job, symbols: &mut Symbols, options: &Options, directory: &Path) -> Result<ExportResults> {
    let of = |process| ProcessKeys::of(job, options.job, process, options.redact);
    let keys: Arc<Vec<ProcessKeys>> = Arc::new(job.processes.iter().map(of).collect());
    let plan = ExportPlan::new(job, &keys, options.threads);
    let work = ExportWork::new(&plan, job, &keys, options, directory);
    let report = std::thread::scope(|scope| {
        // The report has one thread of its own. If only one is allowed, the two share it. If no thread can be
        // started, this one does all the work.
        for _ in 1..options.threads.max(2) {
            let _ = std::thread::Builder::new().spawn_scoped(scope, || work.write_parts());
        }
        let report = cupeer_facts::read(job, &Filter::all(job), Keep::default(), Some(symbols));
        match &report {
            Ok(_) => work.write_parts(),
            Err(_) => work.stop(),
        }
        report
    });
    let (read, mut tables) = work.into_results()?;
    let report = report.context("failed to read the recording")?;
    let rows = rows::ReportRows { job, report: &report, read: &read, keys: &keys, plan: &plan, redact: options.redact };
    rows.write_tables(symbols, directory, &mut tables)?;
    let mut problems = report.record.problems.clone();
    let left_out = |what: String, count: u64| (count > 0).then(|| format!("{count} {what}"));
    problems.extend(left_out("events could not be kept when they were recorded".into(), report.record.lost));
    problems.extend(format_unrecorded_count(report.record.count_quiet_processes(), job.processes.len()));
    let without: u64 = read.iter().map(|read| read.without_stack).sum();
    problems.extend(left_out("calls are without their stacks: there were too many".into(), without));
    problems.extend(report.reason_for_missing_calls());
    Ok(ExportResults { tables, processes: job.processes.len(), problems })
}
