//! `cupeer`, the command: starts programs under the preload library, and tells what cupeer knows.
//!
//! In: a command line. Out: what a command prints, and its exit status. `run`, `why`, `sweep`, `top`, and `doctor` are crates of
//! their own, which know nothing of each other: this one gives `run` and `top` what `why` reads, and `doctor` what `run` sees of a
//! program. The commands for recordings are here. Begin with `start::args`, which has every option.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `start`: the command line, its mistakes, and completions.
//! - `env`: the environment of `run` for other launchers.
//! - `lists`: `list` and `explain`, for which cupeer needs no recording.
//! - `records`: `ls`, `report`, `pack`, `reduce`, `export`, `clean`, `fault`, `release`.

mod env;
mod lists;
mod records;
mod start;

use clap::FromArgMatches;
use cupeer_console::output;
use lists::{explain, list};
use records::{clean, export, fault, ls, pack, reduce, release, report};
use start::args::{Cli, Command};
use start::{complete, misspelt};
use std::process::ExitCode;

fn main() -> ExitCode {
    complete::answer();
    let matches = start::help::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(misspelt::usage(&error)),
    };
    output::choose_color(cli.color);
    let done = match cli.command {
        Command::Run(args) => cupeer_run::command(args, cupeer_why::of_hang),
        Command::Env(args) => env::command(&args),
        Command::List(args) => list::command(&args),
        Command::Explain(args) => explain::command(&args),
        Command::Report(args) => report::command(&args),
        Command::Top(args) => cupeer_top::command(&args, cupeer_why::lines),
        Command::Why(args) => cupeer_why::command(&args),
        Command::Ls(args) => ls::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Pack(args) => pack::command(&args),
        Command::Reduce(args) => reduce::command(&args),
        Command::Export(args) => export::command(&args),
        Command::Fault(args) => fault::command(&args),
        Command::Release(args) => release::command(&args),
        Command::Sweep(args) => cupeer_sweep::command(&args),
        Command::Doctor(args) => cupeer_doctor::command(&args, cupeer_run::with_options),
        Command::Completions(args) => complete::print(&args),
        Command::ProbeDriver => cupeer_doctor::probe_driver(),
        Command::ProbeP2p => cupeer_p2p::agent::command(),
        Command::ProbeSystem(args) => cupeer_doctor::probe_system(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => ExitCode::from(output::failed(&error)),
    }
}
