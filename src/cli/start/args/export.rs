//! The arguments of `cupeer export`.

use super::Redact;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
docs/reference/tables.md describes the tables, and docs/guides/large-jobs.md has queries. Never included: the key of the \
fingerprints, and values of variables whose names suggest secrets.

Examples:
  cupeer export DIR --to parquet -o exports/monday
  cupeer export DIR -o exports/tuesday --job tuesday --redact hosts,paths
  duckdb -c \"FROM 'exports/*/call/*/*.parquet' SELECT job, function, count(*) GROUP BY ALL\"")]
pub struct ExportArgs {
    /// Recording: a directory, a file of 'cupeer pack', or a name or number that 'cupeer ls' lists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Form of the tables
    #[arg(long, value_name = "FORMAT", default_value = "parquet")]
    pub to: ExportFormat,
    /// Write to the directory OUT, which must be new or empty, or with --force contain an export
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Name of the job in the tables [default: the name of DIR; with --redact paths a few digits]
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Data to leave out, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Replace the export in OUT
    #[arg(long)]
    pub force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Parquet files, with one directory per table
    Parquet,
}
