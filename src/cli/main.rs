//! `cupeer`, the command: starts programs under the preload library, and tells what cupeer knows.
//!
//! What belongs in this crate: everything that runs outside other people's processes. What does not: what
//! a function, a result code or a variable is (`cupeer_spec`), what a record says (`cupeer_facts`), and what a simulated machine is
//! (`cupeer_topology`).
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `start`: what commands begin with: arguments, settings, the job, the libraries; and how they print.
//! - `lists`: what cupeer knows by itself: `list`, `explain`.
//! - `records`: what is done with recordings: `ls`, `report`, `pack`, `reduce`, `export`, `clean`, `fault`, `release`.
//! - `why`: what processes wait in.
//! - `top`: what a job does now.
//! - `run`: programs that are started, and `env`.
//! - `sweep`: a program that is run with one fault after the other.
//! - `doctor`: the machine, and what `run` rests on.

mod doctor;
mod lists;
mod records;
mod run;
mod start;
mod sweep;
mod top;
mod why;

use clap::FromArgMatches;
use lists::{explain, list};
use records::{clean, export, fault, ls, pack, reduce, release, report};
use run::formats;
use start::args::{Cli, Command};
use start::complete;
use start::output;
use std::process::ExitCode;

fn main() -> ExitCode {
    complete::answer();
    let matches = start::help::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(output::usage(&error)),
    };
    output::choose_color(cli.color);
    let done = match cli.command {
        Command::Run(args) => run::command(args),
        Command::Env(args) => formats::command(&args),
        Command::List(args) => list::command(&args),
        Command::Explain(args) => explain::command(&args),
        Command::Report(args) => report::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Why(args) => why::command(&args),
        Command::Ls(args) => ls::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Pack(args) => pack::command(&args),
        Command::Reduce(args) => reduce::command(&args),
        Command::Export(args) => export::command(&args),
        Command::Fault(args) => fault::command(&args),
        Command::Release(args) => release::command(&args),
        Command::Sweep(args) => sweep::command(&args),
        Command::Doctor(args) => doctor::command(&args),
        Command::Completions(args) => complete::print(&args),
        Command::ProbeDriver => doctor::probe::command(),
        Command::ProbeP2p => cupeer_p2p::agent::command(),
        Command::ProbeSystem(args) => doctor::probe_system(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => ExitCode::from(output::failed(&error)),
    }
}
