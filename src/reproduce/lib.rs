//! `cupeer reproduce`: a recording as one C file that makes the same sharing calls, in as many processes. `cupeer replay`: the
//! answers of the simulated driver that differ from the recorded ones.
//!
//! In: a recording. Out: the file, or the differences. Begin with `program`: `calls` reads the calls of all processes, `plan` makes
//! steps of them, whose objects are variables, `order` adds the waits between processes, and `write` prints the file.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `calls`: the recorded calls.
//! - `plan`: the steps.
//! - `order`: the waits between processes.
//! - `fold`: loops.
//! - `head`: the comment at the head of the file.
//! - `write`: the file.
//! - `program`: all of these together.
//! - `declarations`, `trial`: a run of the file.
//! - `shrink`, `replay`: the commands that run it.

#![allow(missing_docs, reason = "only the command uses this crate")]

pub mod args;
mod calls;
pub mod declarations;
mod fold;
mod head;
mod order;
mod plan;
mod program;
pub mod replay;
mod shrink;
mod trial;
mod write;

use anyhow::{Result, bail};
use args::ReproduceArgs;
use cupeer_console::{interrupt, output};
use cupeer_record::Job;
use cupeer_recordings::made;
use cupeer_report::names::counted;
use program::{Reproduction, choose_machines};
use std::io::Write;
use std::process::ExitCode;
use trial::TrialRunner;

/// Runs the command on an opened recording.
pub fn command(job: &Job, args: &ReproduceArgs) -> Result<ExitCode> {
    if let Some(output) = &args.output {
        made::refuse_existing(output, args.force)?;
    }
    let mut reproduction = Reproduction::plan(job)?;
    if args.shrink {
        interrupt::watch_signals()?;
        let machines = if args.on_gpu { vec![None] } else { choose_machines(job, args.sim.clone()) };
        let Some((runner, observed)) = TrialRunner::choose(machines, &reproduction.format())? else {
            bail!("interrupted before the first run ended; nothing was written")
        };
        shrink::shrink(&mut reproduction, runner, observed)?;
    }
    match reproduction.left_out_count() {
        0 => {}
        count => output::print_note(&format!(
            "{} could not be repeated; the head of the file lists them",
            counted(count, "call")
        )),
    }
    let text = reproduction.format();
    let Some(path) = &args.output else { return output::print_as_is(&text) };
    let mut file = made::create_temporary(path, ".reproduce")?;
    file.write_all(text.as_bytes())?;
    made::rename_temporary(file, path, args.force)?;
    Ok(ExitCode::SUCCESS)
}
