//! The command line of `cupeer reproduce`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints these comments as help")]

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
The file has no names, paths, arguments, or contents of the recorded program. Its head lists what was not recorded. It needs cuda.h \
and libcuda.so, forks the recorded number of processes, and checks each result against the recorded one. It exits with 1 if one \
differs.

Examples:
  cupeer reproduce -o bug.c                 # the newest recording
  cc -Wall -o bug bug.c -lcuda && ./bug     # on the GPUs of this machine
  cupeer run --sim=nvlink:2 --check ./bug   # or on the simulated driver
  cupeer reproduce --shrink -o small.c      # the smallest program with the same finding, failure, or hang")]
pub struct ReproduceArgs {
    /// Recording: a directory, a file of 'cupeer pack', or a name or number that 'cupeer ls' lists [default: the newest one]
    #[arg(value_name = "RECORD")]
    pub record: Option<PathBuf>,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(short, long)]
    pub force: bool,
    /// Run the program again and again, and leave out what its finding, failure, or hang does not need; Ctrl-C writes the smallest
    /// program so far. Needs a C compiler
    #[arg(long)]
    pub shrink: bool,
    /// With --shrink: simulated machine [default: nvlink:N, pcie:N, or none:N, whose answers differ least from the recorded ones]
    #[arg(long, value_name = "TOPOLOGY", require_equals = true, requires = "shrink")]
    pub sim: Option<OsString>,
    /// With --shrink: run on the GPUs of this machine
    #[arg(long, requires = "shrink", conflicts_with = "sim")]
    pub on_gpu: bool,
}

#[derive(Args)]
#[command(after_help = "\
Writes the C program of 'cupeer reproduce' to a temporary directory, compiles it, and runs it on the simulated driver. Each line has \
a function, its simulated and recorded results, and how often they differ. Needs a C compiler.

Exit status: 0 if all answers are the recorded ones, 1 if some differ, 125 if cupeer failed.

Examples:
  cupeer replay                        # the newest recording
  cupeer replay bug.cupeer --sim=pcie:4")]
pub struct ReplayArgs {
    /// Recording: a directory, a file of 'cupeer pack', or a name or number that 'cupeer ls' lists [default: the newest one]
    #[arg(value_name = "RECORD")]
    pub record: Option<PathBuf>,
    /// Simulated machine: nvlink:N, pcie:N, none:N, or a TOML file [default: the one of the first three whose answers differ least]
    #[arg(long, value_name = "TOPOLOGY", num_args = 0..=1, require_equals = true)]
    pub sim: Option<Option<OsString>>,
}
