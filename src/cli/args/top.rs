//! The command line of `cupeer top`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Reads the records and live tables of this host, and nothing else: no process is attached to, and none waits for it.

  cupeer top                                # all that runs and records at home
  cupeer top DIR                            # what records into DIR
  cupeer top --once --format json | jq '.processes[] | select(.unreturned != [])'
  cupeer top --once --format prometheus >/var/lib/node_exporter/cupeer.prom")]
pub struct TopArgs {
    /// The records: directories, or names or numbers that `cupeer ls` lists [default: all at home that are in progress]
    #[arg(value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Print what there is and end, as is done where there is no terminal
    #[arg(long)]
    pub once: bool,
    /// With --once: print tables, JSON (docs/top.schema.json), or metrics in Prometheus's text format
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "once")]
    pub format: TopFormat,
    /// Look again after TIME; calls a second are those between two looks, also with --once
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Sort processes by this column
    #[arg(long, value_name = "COLUMN", default_value = "state")]
    pub sort: Sort,
    /// Sort the other way round
    #[arg(long)]
    pub reverse: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum TopFormat {
    /// Tables that fit the terminal.
    Text,
    /// One object.
    Json,
    /// Prometheus's text exposition format.
    Prometheus,
}

/// The columns by which processes are sorted, in the order in which a key goes through them.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Who died first, then who hangs, the longest first.
    State,
    /// By rank, then by pid.
    Rank,
    /// By pid.
    Pid,
    /// By program.
    Program,
    /// The most memory that it shares.
    Shared,
    /// The most memory of its own that others hold.
    Held,
    /// The most memory of others that it holds.
    Holds,
    /// The most that it has opened and not closed.
    Open,
    /// The most calls a second.
    Calls,
    /// The most failed calls.
    Failed,
}

/// Reads a time: a number with its unit, not so short that looking is all that is done.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: u64 = 100_000_000;
    let time = cupeer_spec::duration::parse(text).ok().filter(|time| *time >= LEAST);
    time.map(Duration::from_nanos)
        .ok_or_else(|| "a time is a number with ms, s, m or h, at least 100ms, such as 2s".to_owned())
}
