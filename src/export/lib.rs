//! The record of a job as tables in Parquet, for engines that read those: DuckDB, Spark, ClickHouse, polars, pandas. And as a
//! [`trace`], for ui.perfetto.dev.
//!
//! What belongs here: which tables there are ([`tables`]), how they are written ([`table`], [`cells`]), and
//! where their rows come from: calls and marks from the record's events ([`calls`]), all else from the report
//! ([`rows`], [`places`]), so that nothing is decided twice. What does not: where a record comes from, what is redacted
//! ([`Redact`] is asked), and what becomes of the directory.
//!
//! # The way of the calls
//!
//! The report reads all events in one thread. Meanwhile others read them a second time, a process each, and write them
//! as rows. What one thread writes is a part, a file with the calls of some processes of one host. Its groups of rows
//! are sorted by time; one has many processes where they are small, and one process has many where it is large. So one
//! group for each thread is in memory, however many calls there are.
//!
//! # The modules
//!
//! From the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `options`: what is asked for.
//! - `cells`: values, and the buffers that hold them.
//! - `keys`: what names the process of a row.
//! - `table`, `tables`: how a table is written, and which there are.
//! - `calls`: the rows of calls.
//! - `parts`: the work of the threads.
//! - `places`, `rows`: all other rows.
//! - `page`: the page about the tables.
//! - `trace`: the record as a trace, which shares nothing with the tables.

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
use cupeer_report::names::quiet_ones;
use cupeer_report::symbols::Symbols;
use keys::Keys;
pub use options::{Options, Redact, Written};
use parts::{Plan, Work};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
pub use table::VERSION;

/// What was exported.
pub struct Exported {
    /// What was written, by the names of the tables.
    pub tables: BTreeMap<&'static str, Written>,
    /// How many processes there are.
    pub processes: usize,
    /// What is wrong with the record, and what was left out: sentences.
    pub problems: Vec<String>,
}

/// Writes the tables of a record into a directory, which is there and is empty.
pub fn export(job: &Job, symbols: &mut Symbols, options: &Options, directory: &Path) -> Result<Exported> {
    let of = |process| Keys::of(job, options.job, process, options.redact);
    let keys: Arc<Vec<Keys>> = Arc::new(job.processes.iter().map(of).collect());
    let plan = Plan::new(job, &keys, options.threads);
    let work = Work::new(&plan, job, &keys, options, directory);
    let report = std::thread::scope(|scope| {
        // The report is one thread's; where there is but one, two share it. Where there can be no more, this thread does all.
        for _ in 1..options.threads.max(2) {
            let _ = std::thread::Builder::new().spawn_scoped(scope, || work.run());
        }
        let report = cupeer_facts::read(job, &Filter::all(job), Keep::default(), Some(symbols));
        match &report {
            Ok(_) => work.run(),
            Err(_) => work.stop(),
        }
        report
    });
    let (read, mut tables) = work.finish()?;
    let report = report.context("failed to read the recording")?;
    let rows =
        rows::Rows { job, report: &report, read: &read, keys: &keys, plan: &plan, redact: options.redact };
    rows.write(symbols, directory, &mut tables)?;
    let mut problems = report.record.problems.clone();
    let left_out = |what: String, count: u64| (count > 0).then(|| format!("{count} {what}"));
    problems.extend(left_out("events could not be kept when they were recorded".into(), report.record.lost));
    problems.extend(quiet_ones(report.record.quiet_processes(), job.processes.len()));
    let without: u64 = read.iter().map(|read| read.without_stack).sum();
    problems.extend(left_out("calls are without their stacks: there were too many".into(), without));
    problems.extend(report.dropped());
    Ok(Exported { tables, processes: job.processes.len(), problems })
}
