//! The command line of `cupeer top`.

#![allow(missing_docs, rustdoc::broken_intra_doc_links, reason = "clap prints these comments as help")]

use clap::{Args, ValueEnum};
use cupeer_console::args::from_100ms;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Only reads the recordings and live tables of this host, and asks NVML: it attaches to no process, and no process waits for it.

Examples:
  cupeer top                                # all running recordings in the default directory
  cupeer top DIR                            # the recording in DIR
  cupeer top --once --format json | jq '.processes[] | select(.unreturned != [])'
  cupeer top --once --format prometheus >/var/lib/node_exporter/cupeer.prom")]
pub struct TopArgs {
    /// Recordings: directories, or names or numbers that 'cupeer ls' lists [default: all listed ones that are in progress]
    #[arg(value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Print once and exit [default without a terminal]
    #[arg(long)]
    pub once: bool,
    /// With --once: form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "once")]
    pub format: TopFormat,
    /// Refresh after TIME; calls per second are those between two samples, including with --once
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = |text: &str| from_100ms(text, "2s"))]
    pub interval: Duration,
    /// Sort processes by this column
    #[arg(long, value_name = "COLUMN", default_value = "state")]
    pub sort: Sort,
    /// Reverse the order
    #[arg(long)]
    pub reverse: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum TopFormat {
    /// Tables that fit the terminal
    Text,
    /// One object (docs/top.schema.json)
    Json,
    /// Metrics in Prometheus's text format
    Prometheus,
}

/// Columns by which processes can be sorted, in the order in which a key cycles through them.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    #[default]
    /// Crashed and killed processes first, then those that hang, longest first
    State,
    /// By rank, then by pid
    Rank,
    /// By pid
    Pid,
    /// By program
    Program,
    /// By shared memory, the largest first
    Shared,
    /// By memory that others hold, the largest first
    Held,
    /// By memory of others that it holds, the largest first
    Holds,
    /// Most open handles first
    Open,
    /// Most calls per second first
    Calls,
    /// Most failed calls first
    Failed,
}
