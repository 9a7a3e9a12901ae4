//! The options of `cupeer reduce`.

use crate::parts::MOST_FAILURES;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "  cupeer reduce DIR                    # DIR.cupeer.json.gz: on each node, of its own records
  cupeer report *.cupeer.json.gz       # the report of all of them
  cupeer reduce *.gz -o half-1.cupeer.json.gz   # many files as one, which can be put together with others again

A reduced file has all that the report says, and no calls: counts and times by function, findings, what is open or
was shared, and the first failures. It is compressed JSON. Filters and traces need the record."
)]
pub struct ReduceArgs {
    /// Directories of records, or reduced files
    #[arg(value_name = "DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// Write to FILE, whose name ends in .cupeer.json.gz [default: DIR.cupeer.json.gz, here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(short, long)]
    pub force: bool,
    /// Keep all single failures, and all handles that were closed
    #[arg(long)]
    pub all: bool,
    /// How many single failures to keep
    #[arg(long, value_name = "N", default_value_t = MOST_FAILURES)]
    pub failures: usize,
}
