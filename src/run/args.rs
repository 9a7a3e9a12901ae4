//! The command line of `cupeer run`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints the documentation of a struct as help")]

use clap::{Args, ValueHint};
use cupeer_console::args::of_hang;
use cupeer_launch::args::Options;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
cupeer run exits with the status of the program, or is killed by the same signal. It exits with 125 if cupeer failed, 126 if the \
program cannot be executed, and 127 if it was not found.

Examples:
  cupeer run -- torchrun --nproc-per-node 8 train.py
  cupeer run --check --error-exitcode 9 -- ./tests
  cupeer run --deny-peer all -- ./program
  cupeer run --inject 'cuIpcOpenMemHandle*:error=MAP_FAILED' -- ./program
  cupeer run --sim=nvlink:8 --log text -- ./program
  cupeer run --on-hang 60s -- torchrun --nproc-per-node 8 train.py
  cupeer run --on-hang 10m:exit=3 -- pytest tests          # ends a test job that hangs")]
pub struct RunArgs {
    #[command(flatten)]
    pub options: Options,
    /// Exit with status N (1 to 255) if the run has a finding that --error-on selects, unless a signal killed the program [default: 1 with --error-on]
    #[arg(long, help_heading = "Exit status", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "exec")]
    pub error_exitcode: Option<u8>,
    /// Findings that count as errors in all outputs and for the exit status: rules (as for --ignore), error, warning, or note (that and above), or all [default: warning]
    #[arg(long, help_heading = "Exit status", value_name = "RULES", conflicts_with = "exec")]
    pub error_on: Option<String>,
    /// Ignore the findings listed in FILE, in the summary and for the exit status; repeatable. Use --ignore for messages during the run
    #[arg(long, help_heading = "Checking", value_name = "FILE", conflicts_with = "exec")]
    pub suppressions: Vec<PathBuf>,
    /// Exit with status N (1 to 255) if a fault never fired, a denied pair was never queried or tried, or no context exceeded --peer-limit, unless a signal killed the program
    #[arg(long, help_heading = "Exit status", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "exec")]
    pub unused_exitcode: Option<u8>,
    /// Print only problems: errors, crashed and killed processes, and findings above note
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Leave out the line of source below the place of the first finding
    #[arg(long, conflicts_with = "exec")]
    pub no_source: bool,
    /// Report a hang when no process makes progress for TIME, and keep what they wait for ('cupeer why'); with :exit=N, also end the run, and exit with status N (1 to 255)
    #[arg(long, help_heading = "Recording", value_name = "TIME[:exit=N]", value_parser = on_hang, conflicts_with = "exec")]
    pub on_hang: Option<OnHang>,
    /// When the run ends, replace this host's recordings with one small file (see 'cupeer reduce')
    #[arg(long, help_heading = "Recording", conflicts_with = "exec")]
    pub reduce: bool,
    /// Become the program (same pid) instead of waiting for it; without a summary
    #[arg(long)]
    pub exec: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

/// Options of `--on-hang`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnHang {
    /// Time without progress after which the run counts as hung.
    pub limit: Duration,
    /// Exit status of a run that cupeer ends because of a hang; `None` if the run continues.
    pub exit: Option<u8>,
}

fn on_hang(text: &str) -> Result<OnHang, String> {
    let (time, action) = text.split_once(':').map_or((text, None), |(time, action)| (time, Some(action)));
    let limit = of_hang(time)?;
    let exit = action.map(|action| {
        let status = action
            .strip_prefix("exit=")
            .ok_or_else(|| format!("'{action}' is not an action; the only action is exit=N, such as 60s:exit=3"))?;
        let number = status.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("'{status}' is not an exit status from 1 to 255, such as 60s:exit=3"))
    });
    Ok(OnHang { limit, exit: exit.transpose()? })
}
