//! The options of `cupeer doctor`.

use super::{DriverArgs, P2pArgs};
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "  cupeer doctor                               # the driver, the machine, and this process
  cupeer doctor -- ./program                  # and which calls of a program escape
  cupeer doctor -o a.json                     # in each of two containers, then
  cupeer doctor --between a.json b.json       # how their processes can share device memory
  cupeer doctor --p2p                         # what each link between devices carries
  cupeer doctor --p2p -o machine.toml         # the same, for --sim, --deny-peer and 'cupeer env --p2p'

Exit status: 0 if all is well, 1 if something is wrong, 125 if cupeer failed. Rows of the machine that are bad do not count as wrong; with --between, 1 means that no way of sharing is possible; with --p2p, that a link is bad, or none could be tested."
)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub p2p: P2pArgs,
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Print tables or JSON (docs/doctor.schema.json; with --p2p, docs/doctor-p2p.schema.json)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: DoctorFormat,
    /// Write the JSON form to FILE, too; with --p2p, the machine as a topology, with what was found
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare what two processes have written with -o: which ways of sharing are possible between them, and what is in the way
    #[arg(
        long,
        num_args = 2,
        value_names = ["A.json", "B.json"],
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["sim", "driver", "output", "program", "p2p"]
    )]
    pub between: Vec<PathBuf>,
    /// Explain on stderr what is decided, and why
    #[arg(short, long)]
    pub verbose: bool,
    /// A program to run, to find the libraries whose calls escape cupeer
    #[arg(
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum DoctorFormat {
    /// Tables that fit the terminal.
    Text,
    /// One object.
    Json,
}

#[derive(Args)]
pub struct ProbeSystemArgs {
    /// A descriptor of the parent, to be taken from it
    #[arg(long)]
    pub descriptor: i32,
}
