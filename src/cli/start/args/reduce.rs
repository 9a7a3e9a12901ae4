//! The options of `cupeer reduce`.

use clap::Args;
use cupeer_recordings::reduce::MOST_FAILURES;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
A reduced file contains everything that the report shows, but no calls: counts and times by function, findings, what is open \
or was shared, and the first failures. It is compressed JSON. Filters and traces need the recording.

Examples:
  cupeer reduce DIR                    # DIR.cupeer.json.gz: on each node, for its own recordings
  cupeer report *.cupeer.json.gz       # one report of all nodes
  cupeer reduce *.gz -o half-1.cupeer.json.gz   # merges files; the result can be merged again")]
pub struct ReduceArgs {
    /// Directories of recordings, or reduced files
    #[arg(value_name = "DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// Write to FILE, whose name ends in .cupeer.json.gz [default: DIR.cupeer.json.gz in the working directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(short, long)]
    pub force: bool,
    /// Keep all single failures, and all closed handles
    #[arg(long)]
    pub all: bool,
    /// Number of single failures to keep
    #[arg(long, value_name = "N", default_value_t = MOST_FAILURES)]
    pub failures: usize,
}
