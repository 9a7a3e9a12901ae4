//! `cupeer why`: what each process of a job waits for, since when, and who owes whom.
//!
//! In: pids, or a recording whose processes run. Out: a document, and its text with the answer in the first line. No code runs in
//! the processes, and a thread that waits is not stopped; one that runs is stopped for as long as its stack is read, or not at all
//! with --no-stop. Begin with `read` in this file: `targets` → `process` and `ledger` → `assemble` → `document`. The answer is made
//! there: `waits` makes a `graph` of the threads, `roots` finds where it ends, and `phrase` puts that into words.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `times`, `graph`: parts of what follows.
//! - `refused`, `since`, `stop`, `memory`: one process or thread, read from outside.
//! - `objects`, `shared`, `syscall`: mappings, and the system call that a thread is in.
//! - `stacks`, `process`: stacks, and all that is read of a process.
//! - `diag`, `peers`: the other ends of descriptors.
//! - `document`: the document.
//! - `targets`, `ledger`: the processes, and their recording.
//! - `names`, `ranks`, `does`: clauses about a process.
//! - `apart`, `collective`, `helpers`, `locks`: kinds of waits.
//! - `waits`, `roots`, `phrase`: the answer.
//! - `assemble`, `text`: the document, and its text.

mod apart;
pub mod args;
mod assemble;
mod collective;
mod diag;
mod document;
mod does;
mod graph;
mod helpers;
mod ledger;
mod locks;
mod memory;
mod names;
mod objects;
mod peers;
mod phrase;
mod process;
mod ranks;
mod refused;
mod roots;
mod shared;
mod since;
mod stacks;
mod stop;
mod syscall;
mod targets;
mod text;
mod times;
mod waits;

use crate::args::{WhyArgs, WhyFormat};
use anyhow::Result;
use cupeer_console::output;
use cupeer_recordings::hang::HangWaits;
use cupeer_report::style::Style;
use cupeer_report::terminal::clean_lines;
use document::Document;
use ledger::RecordedJob;
use names::ProcessNames;
use process::{ProcessReader, ProcessReading};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use targets::Targets;

/// Time in which stacks are read, unless --within gives another one.
const TIME: Duration = Duration::from_secs(3);

/// Runs the command.
pub fn command(args: &WhyArgs) -> Result<ExitCode> {
    let pids = args.pid.iter().map(ToString::to_string);
    let targets = targets::find_targets(&args.what.iter().cloned().chain(pids).collect::<Vec<_>>())?;
    let read = read(targets, !args.no_stop, args.within);
    match args.format {
        WhyFormat::Json => output::print_json(&read.document),
        WhyFormat::Text => output::print_marked(&read.text(args.all, output::stdout_style())),
    }
}

/// Reads the waits of processes in a hang. `without` is the time without progress; `None` if a call hangs.
pub fn read_hanging_processes(pids: &[u32], record: Option<PathBuf>, without: Option<Duration>) -> Box<dyn HangWaits> {
    let mut read = read(targets::of_pids(pids, record), true, TIME);
    read.document.without_progress_ns = without.map(|without| without.as_nanos() as u64);
    Box::new(read)
}

/// Returns the waits of the processes that record to a directory, as lines without color.
pub fn answer_lines(directory: &Path) -> Vec<String> {
    let read = read(targets::of_record(directory), true, TIME);
    clean_lines(&read.text(false, Style::Plain)).lines().map(str::to_owned).collect()
}

/// Processes that were read, and the document about their waits.
struct ReadWaits {
    document: Document,
    names: ProcessNames,
}

impl ReadWaits {
    fn text(&self, all: bool, style: Style) -> String {
        text::format_document(&self.document, |pid| self.names.name(pid), all, style)
    }
}

impl HangWaits for ReadWaits {
    fn is_empty(&self) -> bool {
        self.document.processes.is_empty()
    }

    fn are_waiting_for_device(&self, pids: &[u32]) -> bool {
        let mut processes = self.document.processes.iter().filter(|process| pids.contains(&process.pid));
        processes.all(|process| process.threads.first().is_some_and(collective::is_collective))
    }

    fn set_ended(&mut self, ended_ns: u64) {
        self.document.ended_ns = Some(ended_ns);
    }

    fn set_resumed(&mut self, resumed_ns: u64) -> u64 {
        let document = &mut self.document;
        document.resumed_ns = Some(resumed_ns);
        let began = document.time_ns.saturating_sub(document.without_progress_ns.unwrap_or(0));
        resumed_ns.saturating_sub(began)
    }

    fn format_text(&self, style: Style) -> String {
        self.text(false, style)
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        Ok([&serde_json::to_vec_pretty(&self.document)?[..], b"\n"].concat())
    }
}

/// Reads processes. `may_stop` is true if running threads may be stopped for that; `time` is the time in which stacks are read.
fn read(targets: Targets, may_stop: bool, time: Duration) -> ReadWaits {
    let began = Instant::now();
    let record = targets.record.as_deref();
    let mut unseen = None;
    let ledger = record.and_then(|path| {
        let opened = RecordedJob::open(path);
        opened.inspect_err(|error| unseen = Some(format!("the recording cannot be read: {error:#}"))).ok().flatten()
    });
    let is_called = |about: &process::ProcessInfo, own_tid| {
        ledger.as_ref().is_some_and(|ledger| {
            ledger.process_name(about).is_some_and(|proc| ledger.is_in_recorded_call(proc, own_tid))
        })
    };
    let seen: Vec<ProcessReading> = ProcessReader::default().read_all(targets.processes, may_stop, time, is_called);
    let mut document = assemble::build_document(&seen, ledger.as_ref(), record, began);
    document.unseen.extend(unseen);
    let names = ProcessNames::of(&document.processes, &seen);
    ReadWaits { document, names }
}
