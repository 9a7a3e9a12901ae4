//! The command line of `cupeer reproduce`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints these comments as help")]

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
The file has no names, paths, arguments, or contents of the recorded program. Its head lists what was not recorded. It needs cuda.h \
and libcuda.so, forks the recorded number of processes, and checks each result against the recorded one. It exits with 1 if one \
differs.

Examples:
  cupeer reproduce -o bug.c                 # the newest recording
  cc -Wall -o bug bug.c -lcuda && ./bug     # on the GPUs of this machine
  cupeer run --sim=nvlink:2 --check ./bug   # or on the simulated driver")]
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
}
