//! `cupeer why`: what each process of a job waits in, since when, and who owes whom.
//!
//! It reads processes from outside: no code runs in them. A thread that waits is not stopped; one that runs is stopped for as
//! long as its stack is read, or not at all with --no-stop. [`targets`] finds the processes, [`process`] reads one of
//! them, [`ledger`] their recording, [`assemble`] makes a [`document`] of all that, and [`text`] shows it.
//!
//! The answer: [`waits`] makes a [`graph`] of the threads, [`roots`] finds where it ends, and [`phrase`] puts that into words.

mod apart;
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

use crate::start::args::{WhyArgs, WhyFormat};
use crate::start::output;
use anyhow::Result;
use cupeer_report::style::Style;
use cupeer_report::terminal::clean_lines;
pub use document::Document;
use ledger::Ledger;
use names::Names;
use process::{Readers, Seen};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use targets::Targets;

/// For how long stacks are read, without --within.
const TIME: Duration = Duration::from_secs(3);

pub fn command(args: &WhyArgs) -> Result<ExitCode> {
    let pids = args.pid.iter().map(ToString::to_string);
    let targets = targets::find(&args.what.iter().cloned().chain(pids).collect::<Vec<_>>())?;
    let read = read(targets, !args.no_stop, args.within);
    match args.format {
        WhyFormat::Json => output::print_json(&read.document),
        WhyFormat::Text => output::print_marked(&read.text(args.all, output::stdout_style())),
    }
}

/// What processes wait in that hang, and for how long none has made progress.
pub fn of_hang(pids: &[u32], record: Option<PathBuf>, without: Option<Duration>) -> Read {
    let mut read = read(targets::of(pids, record), true, TIME);
    read.document.without_progress_ns = without.map(|without| without.as_nanos() as u64);
    read
}

/// What the processes wait in that record to a directory, as lines without marks.
pub fn lines(directory: &Path) -> Vec<String> {
    let read = read(targets::of_record(directory), true, TIME);
    clean_lines(&read.text(false, Style::Plain)).lines().map(str::to_owned).collect()
}

/// What was read.
pub struct Read {
    document: Document,
    names: Names,
}

impl Read {
    pub fn document(&self) -> &Document {
        &self.document
    }

    pub fn document_mut(&mut self) -> &mut Document {
        &mut self.document
    }

    /// Whether no process was there any more.
    pub fn is_empty(&self) -> bool {
        self.document.processes.is_empty()
    }

    /// Whether these processes wait for the device, or for all others, whatever they do meanwhile.
    pub fn wait_for_device(&self, pids: &[u32]) -> bool {
        let mut processes = self.document.processes.iter().filter(|process| pids.contains(&process.pid));
        processes.all(|process| process.threads.first().is_some_and(collective::is_collective))
    }

    pub fn text(&self, all: bool, style: Style) -> String {
        text::show(&self.document, |pid| self.names.name(pid), all, style)
    }
}

/// Reads processes; `may_stop` says whether threads that run may be stopped for that, and `time` for how long stacks are read.
fn read(targets: Targets, may_stop: bool, time: Duration) -> Read {
    let began = Instant::now();
    let record = targets.record.as_deref();
    let mut unseen = None;
    let ledger = record.and_then(|path| {
        let opened = Ledger::open(path);
        opened
            .inspect_err(|error| unseen = Some(format!("the recording cannot be read: {error:#}")))
            .ok()
            .flatten()
    });
    let is_called = |about: &process::About, own_tid| {
        ledger
            .as_ref()
            .is_some_and(|ledger| ledger.name(about).is_some_and(|proc| ledger.is_called(proc, own_tid)))
    };
    let seen: Vec<Seen> = Readers::default().read(targets.processes, may_stop, time, is_called);
    let mut document = assemble::document(&seen, ledger.as_ref(), record, began);
    document.unseen.extend(unseen);
    let names = Names::of(&document.processes, &seen);
    Read { document, names }
}
