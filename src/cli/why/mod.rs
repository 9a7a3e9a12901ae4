//! `cupeer why`: what each process of a job waits in, since when, and who owes whom.
//!
//! It reads processes from outside: no code runs in them. A thread that waits is not stopped; one that runs is stopped for as
//! long as its stack is read, or not at all with --no-stop. [`targets`] finds the processes, [`process`] reads one of
//! them, [`ledger`] their recording, [`assemble`] makes a [`document`] of all that, and [`text`] shows it.

mod answer;
mod assemble;
mod diag;
mod document;
mod does;
mod ledger;
mod memory;
mod names;
mod objects;
mod peers;
mod process;
mod refused;
mod since;
mod stacks;
mod stop;
mod syscall;
mod targets;
mod text;

use crate::args::{WhyArgs, WhyFormat};
use crate::output;
use anyhow::Result;
use cupeer_report::style::Style;
use document::Document;
use ledger::Ledger;
use names::Names;
use process::{Readers, Seen};
use std::process::ExitCode;
use std::time::Instant;
use targets::Targets;

pub fn command(args: &WhyArgs) -> Result<ExitCode> {
    let targets = targets::find(&args.what)?;
    let read = read(targets, !args.no_stop);
    match args.format {
        WhyFormat::Json => output::print_json(&read.document),
        WhyFormat::Text => output::print_marked(&read.text(args.all, output::stdout_style())),
    }
}

/// What was read.
pub struct Read {
    document: Document,
    names: Names,
}

impl Read {
    fn text(&self, all: bool, style: Style) -> String {
        text::show(&self.document, |pid| self.names.name(pid), all, style)
    }
}

/// Reads processes; `may_stop` says whether threads that run may be stopped for that.
fn read(targets: Targets, may_stop: bool) -> Read {
    let began = Instant::now();
    let mut readers = Readers::default();
    let seen: Vec<Seen> = targets.processes.into_iter().map(|about| readers.read(about, may_stop)).collect();
    let record = targets.record.as_deref();
    let mut unseen = None;
    let ledger = record.and_then(|path| {
        let opened = Ledger::open(path);
        opened
            .inspect_err(|error| unseen = Some(format!("the recording cannot be read: {error:#}")))
            .ok()
            .flatten()
    });
    let mut document = assemble::document(&seen, ledger.as_ref(), record, began);
    document.unseen.extend(unseen);
    let names = Names::of(&document.processes, &seen);
    Read { document, names }
}
