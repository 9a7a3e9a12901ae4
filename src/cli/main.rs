//! `cupeer`, the command: starts programs under the preload library, and tells what cupeer knows.
//!
//! In: a command line. Out: what a command prints, and its exit status. `run`, `why`, `sweep`, `top`, `reproduce`, and `doctor` are crates of
//! their own, which know nothing of each other: this one gives `run` and `top` what `why` reads, and `doctor` what `run` sees of a
//! program. The commands for recordings are here. Begin with the table
//! `commands` below: the help, the arguments, and the function of each command.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `markdown`: the form of the generated pages, for tests.
//! - `start`: the help as it is printed, mistakes in the command line, and completions.
//! - `env`: the environment of `run` for other launchers.
//! - `lists`: `list` and `explain`, for which cupeer needs no recording.
//! - `records`: `ls`, `report`, `pack`, `reduce`, `export`, `reproduce`, `clean`, `fault`, `release`.
//! - `demo`: the commands at work, on a program of its own.

mod demo;
mod env;
mod lists;
#[cfg(test)]
mod markdown;
mod records;
mod start;

use anyhow::Result;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use cupeer_console::output;
use lists::{explain, list};
use records::{clean, export, fault, ls, pack, reduce, release, report, reproduce};
use start::{complete, misspelt};
use std::process::ExitCode;

/// Debug CUDA programs that share GPU memory between processes or devices
#[derive(Parser)]
#[command(name = "cupeer", version, max_term_width = 100)]
struct Cli {
    /// Colorize output: always, never, or auto. auto colors only terminals and honors NO_COLOR
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        hide_possible_values = true,
        display_order = 998
    )]
    color: clap::ColorChoice,
    #[command(subcommand)]
    command: Command,
}

/// Declares the commands, and the code that each one runs.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($args:ident: $type:ty) => $code:expr;)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$about])* $name($type),)*
        }

        impl Command {
            fn run(self) -> Result<ExitCode> {
                match self {
                    $(Command::$name($args) => $code,)*
                }
            }
        }
    };
}
commands! {
    /// Run a program under cupeer
    Run(args: cupeer_run::args::RunArgs) => cupeer_run::command(args, cupeer_why::read_hanging_processes);
    /// Print the environment of 'cupeer run', for launchers that cannot wrap the program
    Env(args: env::EnvArgs) => env::command(&args);
    /// List the functions, rules, results, faults, topologies, or variables that cupeer knows
    List(args: list::ListArgs) => list::command(&args);
    /// Explain a driver function, a result code, a rule, or a key of fault plans
    Explain(args: explain::ExplainArgs) => explain::command(&args);
    /// Report what the processes of a recording did, and the problems
    Report(args: report::ReportArgs) => report::command(&args);
    /// Show live GPU memory sharing and driver calls on this host
    Top(args: cupeer_top::args::TopArgs) => cupeer_top::command(&args, cupeer_why::answer_lines);
    /// Explain what each process of a job waits for: its stack, its peer, and the handles that nobody opened
    Why(args: cupeer_why::args::WhyArgs) => cupeer_why::command(&args);
    /// List the recordings in the default directory
    Ls(args: ls::LsArgs) => ls::command(&args);
    /// Delete the recordings in the default directory
    Clean(args: clean::CleanArgs) => clean::command(&args);
    /// Pack a recording into one file, to send to somebody
    Pack(args: pack::PackArgs) => pack::command(&args);
    /// Condense a node's recordings into one small file, or merge such files
    Reduce(args: reduce::ReduceArgs) => reduce::command(&args);
    /// Write a recording as tables, for DuckDB, Spark, ClickHouse, pandas, and polars
    Export(args: export::ExportArgs) => export::command(&args);
    /// Write a C program that repeats the sharing calls of a recording
    Reproduce(args: cupeer_reproduce::args::ReproduceArgs) => reproduce::command(&args);
    /// Repeat a recording on the simulated driver, and list the answers that differ
    Replay(args: cupeer_reproduce::args::ReplayArgs) => reproduce::replay(&args);
    /// Arm, disarm, and list fault plans of a running job
    Fault(args: fault::FaultArgs) => fault::command(&args);
    /// Release calls held by a fault plan
    Release(args: release::ReleaseArgs) => release::command(&args);
    /// Fail each call in turn and report how the program handles it
    Sweep(args: cupeer_sweep::args::SweepArgs) => cupeer_sweep::command(&args);
    /// Check the driver, the libraries, the machine, a program, or the links between devices
    Doctor(args: cupeer_doctor::args::DoctorArgs) => cupeer_doctor::command(&args, cupeer_run::run_with_options);
    /// Show cupeer at work on simulated devices: two processes, one bug, and its page
    Demo(args: demo::DemoArgs) => demo::command(&args);
    /// Print the script with which a shell completes commands, options, recordings, rules, and functions
    Completions(args: complete::CompletionsArgs) => complete::print_script(&args);
    /// Share memory between two processes, for `demo`
    #[command(hide = true)]
    DemoShare(args: demo::share::DemoShareArgs) => demo::share::command(&args);
    /// Examine the driver in this process, for `doctor`
    #[command(hide = true)]
    ProbeDriver(_none: NoArgs) => cupeer_doctor::probe_driver();
    /// Hold devices in this process, for `doctor --p2p`
    #[command(hide = true, name = "probe-p2p")]
    ProbeP2p(_none: NoArgs) => cupeer_p2p::agent::command();
    /// Ask NVIDIA's libraries and the kernel in this process, for `doctor`
    #[command(hide = true)]
    ProbeSystem(args: cupeer_doctor::args::ProbeSystemArgs) => cupeer_doctor::probe_system(&args);
}

#[derive(Args)]
struct NoArgs {}

fn main() -> ExitCode {
    complete::answer_completions(Cli::command);
    let matches = start::help::help_command(Cli::command()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(misspelt::print_usage_error(&error, Cli::command())),
    };
    output::choose_color(cli.color);
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => ExitCode::from(output::print_error(&error)),
    }
}

#[cfg(test)]
mod tests {
    mod pages;
    mod plans;
    mod share;
    mod shown;
    mod variables;
}
