//! The options of `sweep`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints the documentation of a struct as help")]

use clap::{Args, ValueEnum};
use cupeer_console::args::{duration, value_word};
use cupeer_launch::args::DriverArgs;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Verdicts: same (as without faults), clean (an error status), and findings: crash, hang, wrong (output or status), leak, \
misuse (continues as if the call had succeeded, and breaks a rule), not-repeatable.
Leaks and wrong output are judged by comparing with the run without faults. The command that repeats a finding shows the \
failing run, not the comparison.
Files that a run leaves in /dev/shm stay there, and later runs may find them.
Exit status: 0 without findings, 1 with findings, 125 if cupeer failed, 130 if it was interrupted.

Examples:
  cupeer sweep --sim -- ./client                 # fail each call once, then always, with each result
  cupeer sweep --sim -j 8 --budget 20m -- pytest test_ipc.py
  cupeer sweep --compare 'grep -q passed' -- ./client
  cupeer sweep --late 20 -- ./client             # find missing waits: 20 orders of asynchronous work")]
pub struct SweepArgs {
    /// Keep the runs with findings in the new directory DIR [default: sweep-PROGRAM-N, which 'cupeer ls' lists]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Maximum parallel runs [default: CPUs divided by processes of the program]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Start no run later than TIME, such as 30m, after the calls are counted; required if a sweep takes more than an hour
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<std::time::Duration>,
    /// Treat a run that takes longer as a hang [default: ten times as long as without faults, at least 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<std::time::Duration>,
    /// Fail no calls; run on late devices with the seeds 1 to N, and report the seeds whose status or output differs from a plain run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["driver", "codes", "calls", "stage", "depth"])]
    pub late: Option<u16>,
    /// Results that calls fail with: documented ones, and those that real drivers were seen to return
    #[arg(long, value_name = "CODES", default_value = "sensible")]
    pub codes: Codes,
    /// Functions to fail: names, patterns, @groups, ^negations, or all [default: ^@lookup,^@init,^@release,^@lifetime,^@query,^@alloc,^@copy,^@launch,^@graph,^@event,^@order]
    #[arg(long, value_name = "SET")]
    pub calls: Option<String>,
    /// Treatment of the real call
    #[arg(long, value_name = "STAGE", default_value = "instead")]
    pub stage: SweepStage,
    /// Maximum faults per run; 2 or more also fail calls that the program makes only after a failure
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub depth: u8,
    /// Shell command that reads the output of each run that exits normally, and exits with 0 if it is right [default: compare with the output without faults]
    #[arg(long, value_name = "COMMAND")]
    pub compare: Option<String>,
    /// Start no further run once there is a finding
    #[arg(long)]
    pub fail_fast: bool,
    /// Verdicts that do not count as findings, separated by commas
    #[arg(long, value_name = "VERDICTS", value_delimiter = ',')]
    pub accept: Vec<Verdict>,
    /// Do not check the rules of 'cupeer list rules' in each run
    #[arg(long)]
    pub no_check: bool,
    /// Keep the recordings of all runs, not only those with findings
    #[arg(long)]
    pub keep: bool,
    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: SweepFormat,
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Print only findings, without progress and counts
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print what cupeer decides, and why, to stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Codes {
    /// Documented or seen ones, except those of a driver that is not initialized or shutting down
    #[default]
    Sensible,
    /// Documented ones, with the same exceptions
    Documented,
    /// All documented or seen ones
    All,
    /// Only the first sensible one
    One,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SweepStage {
    /// cupeer does not make it
    #[default]
    Instead,
    /// cupeer makes it, and undoes it if possible
    Undo,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepFormat {
    /// Tables
    Text,
    /// One object
    Json,
}

/// Effect of a fault on the program.
#[derive(serde::Serialize, ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Same status and output as without faults
    Same,
    /// Exits with an error
    Clean,
    /// Did not make the call in this run
    NotReached,
    /// Is killed by a signal
    Crash,
    /// Does not exit
    Hang,
    /// Exits normally with a different result
    Wrong,
    /// Leaves something that it releases without faults: open while it continues or releases the rest
    Leak,
    /// Continues as if the call had succeeded, and breaks a rule
    Misuse,
    /// Two runs with the same fault get different verdicts
    NotRepeatable,
}

impl Verdict {
    pub fn words(self) -> String {
        value_word(self).replace('-', " ")
    }

    /// Returns true if something is wrong with the program.
    pub fn is_bad(self) -> bool {
        !matches!(self, Verdict::Same | Verdict::Clean | Verdict::NotReached)
    }
}
