//! `cupeer`, the command: starts programs under the preload library, and tells what cupeer knows.
//!
//! What belongs in this crate: everything that runs outside other people's processes. What does not: what
//! a function, a result code or a variable is (`cupeer_spec`), what a record says (`cupeer_report`), and what a simulated machine is
//! (`cupeer_topology`).

mod annotations;
mod args;
mod clean;
mod doctor;
mod driver;
mod elf;
mod explain;
mod export;
mod faults;
mod formats;
mod home;
mod job;
mod libraries;
mod list;
mod ls;
mod made;
mod markdown;
mod misspelt;
mod opened;
mod output;
mod pack;
mod parts;
mod probe;
mod reduce;
mod release;
mod report;
mod rules;
mod run;
mod settings;
mod startup;
mod suppressions;
mod sweep;
mod top;
mod why;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// Exit statuses of our own, as `env` has them.
mod status {
    /// cupeer failed, or was called wrongly.
    pub const OURS: u8 = 125;
    pub const NOT_EXECUTABLE: u8 = 126;
    pub const NOT_FOUND: u8 = 127;
    /// A signal ended what was to go on: SIGINT, as a shell has it.
    pub const INTERRUPTED: u8 = 130;
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
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
        Command::Release(args) => release::command(&args),
        Command::Sweep(args) => sweep::command(&args),
        Command::Doctor(args) => doctor::command(&args),
        Command::ProbeDriver => probe::command(),
        Command::ProbeP2p => cupeer_p2p::agent::command(),
        Command::ProbeSystem(args) => doctor::probe(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => ExitCode::from(output::failed(&error)),
    }
}
