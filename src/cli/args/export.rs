//! The arguments of `cupeer export`.

use super::Redact;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "  cupeer export DIR --to parquet -o exports/monday
  cupeer export DIR -o exports/tuesday --job tuesday --redact hosts,paths
  duckdb -c \"FROM 'exports/*/call/*/*.parquet' SELECT job, function, count(*) GROUP BY ALL\"

docs/reference/tables.md describes the tables, docs/guides/large-jobs.md has queries. Never included: the key of the fingerprints, and values
of variables whose names sound like secrets.")]
pub struct ExportArgs {
    /// The record: a directory, a file made by `cupeer pack`, or a name or number that `cupeer ls` lists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// What to write
    #[arg(long, value_name = "FORMAT", default_value = "parquet")]
    pub to: ExportFormat,
    /// Write to the directory OUT, which is new, is empty or, with --force, holds an earlier export
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// What the job is called in the tables [default: the name of DIR; with --redact paths a few digits]
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Leave these out, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Replace the export that is in OUT
    #[arg(long)]
    pub force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Files in Parquet, a directory for each table
    Parquet,
}
