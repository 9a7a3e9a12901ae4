//! The options of `cupeer doctor`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints these comments as help")]

use clap::{Args, ValueEnum, ValueHint};
use cupeer_launch::args::DriverArgs;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Exit status: 0 without problems, 1 with problems (bad rows of the machine do not count), 125 if cupeer failed. With --between, 1 \
means that no sharing method is possible. With --p2p, 1 means that a link is bad or no link could be tested.

Examples:
  cupeer doctor                               # the driver, the machine, and this process
  cupeer doctor -- ./program                  # and which calls of a program bypass cupeer
  cupeer doctor -o a.json                     # in each of two containers, followed by
  cupeer doctor --between a.json b.json       # how their processes can share device memory
  cupeer doctor --p2p                         # what each link between devices delivers
  cupeer doctor --p2p -o machine.toml         # the same, for --sim, --deny-peer, and 'cupeer env --p2p'")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub p2p: P2pArgs,
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: DoctorFormat,
    /// Also write JSON to FILE; with --p2p, the machine as a topology, with the results
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare two files of -o: which sharing methods are possible between the processes, and what prevents the others
    #[arg(
        long,
        num_args = 2,
        value_names = ["A.json", "B.json"],
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["sim", "driver", "output", "program", "p2p"]
    )]
    pub between: Vec<PathBuf>,
    /// Print what cupeer decides, and why, to stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Program to run, to find the libraries whose calls bypass cupeer
    #[arg(
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum DoctorFormat {
    /// Tables that fit the terminal
    Text,
    /// One object (docs/doctor.schema.json; with --p2p, docs/doctor-p2p.schema.json)
    Json,
}

#[derive(Args)]
pub struct ProbeSystemArgs {
    /// A descriptor of the parent, to be taken from it
    #[arg(long)]
    pub descriptor: i32,
}

/// The options of `doctor --p2p`.
#[derive(Args)]
pub struct P2pArgs {
    /// Send data over each link between devices, with each method that programs use, and check what arrives
    #[arg(long, conflicts_with = "program")]
    pub p2p: bool,
    /// With --p2p: do not measure the speed of the links
    #[arg(long, requires = "p2p")]
    pub quick: bool,
    /// With --p2p: report a link as stalled if a step takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600), requires = "p2p")]
    pub limit: u64,
}
