//! The command line of `cupeer why`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints the documentation of a struct as help")]

use clap::{Args, ValueEnum};
use cupeer_console::args::of_hang;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Reads the processes from outside, like py-spy: no code runs in them. It never stops a thread that waits, and stops a thread that \
runs for a few milliseconds at most. Threads of C and Python are shown, recorded or not.

Examples:
  cupeer why                      # the newest recording that has running processes
  cupeer why r                    # the processes that record into r
  cupeer why 4711                 # process 4711 and its descendants, under cupeer or not
  cupeer why --format json | jq -r .answer
  cupeer run --on-hang 60s -- torchrun --nproc-per-node 8 train.py   # prints it after 60 seconds without progress")]
pub struct WhyArgs {
    /// A recording (a directory, or a name or number that 'cupeer ls' lists), or pids, each with its descendants [default: the newest recording that has running processes]
    #[arg(value_name = "RECORD | PID")]
    pub what: Vec<String>,
    /// Read the process PID and its descendants, as without -p; repeatable
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Do not stop threads that run; their frames of C are not known then
    #[arg(long)]
    pub no_stop: bool,
    /// Read stacks for this long, the most relevant threads first; the rest are counted
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = of_hang)]
    pub within: Duration,
    /// Print the stacks of all threads, with all frames
    #[arg(long)]
    pub all: bool,
    /// Print text or JSON
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: WhyFormat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum WhyFormat {
    /// The answer in one line, then a block per process
    Text,
    /// One object (docs/why.schema.json)
    Json,
}
