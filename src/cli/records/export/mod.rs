//! `cupeer export`: a record as tables for engines that read Parquet.
//!
//! What belongs here: the command, from its options to a directory that is whole. What the tables are is the crate
//! `cupeer_export`'s; what is redacted is `pack`'s.

mod place;

use crate::records::opened::OpenedRecording;
use crate::records::pack::redact::{Redact, Redaction};
use crate::records::pack::{self, SUFFIX};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use cupeer_console::output;
use cupeer_export::{ExportResults, Options, VERSION};
use cupeer_recordings::home;
use cupeer_report::names::counted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use place::Destination;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

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

pub fn command(args: &ExportArgs) -> Result<ExitCode> {
    let ExportFormat::Parquet = args.to;
    let directory = &home::find_recording(&args.directory)?;
    let place = Destination::prepare(&args.output, args.force)?;
    let OpenedRecording { job, symbols, .. } = &mut OpenedRecording::open_unreduced(directory)?;
    let redaction = pack::redaction_of(&args.redact, directory, &job.processes)?;
    let name = match &args.job {
        Some(name) => name.clone(),
        None => redaction.redact_job_name(&job_name(directory)?),
    };
    ensure!(!name.is_empty(), "--job needs a name");
    if let Some(other) = place.export_of_same_job(&name) {
        output::print_problem(&format!(
            "the job of {} is called '{name}', too: queries over both count them as one; add --job NAME",
            other.display()
        ));
    }
    let size: u64 = job.processes.iter().map(|process| process.source.size()).sum();
    let bar = progress_bar(size / EVENT_SIZE);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let hidden = ExportRedaction(&redaction);
    let went_on = |events: u64| bar.inc(events);
    let options = Options { job: &name, redact: &hidden, threads, report_progress: &went_on };
    let exported = cupeer_export::export(job, symbols, &options, place.temporary_path())?;
    bar.finish_and_clear();
    let problems = exported.problems.iter().map(|problem| redaction.redact_location(problem, &job.dir));
    let rows: BTreeMap<&str, u64> = exported.tables.iter().map(|(table, written)| (*table, written.rows)).collect();
    let about = json!({
        "schema": VERSION,
        "cupeer": env!("CARGO_PKG_VERSION"),
        "job": name,
        "processes": exported.processes,
        "rows": rows,
        "redacted": redaction.redacted_kinds(),
        "problems": problems.collect::<Vec<_>>(),
    });
    place.move_to_output(&format!("{about:#}\n"))?;
    exported.problems.iter().for_each(|problem| output::print_problem(problem));
    output::print(&format_summary(&args.output, &exported))
}

/// Size of an event in a recording, in bytes.
const EVENT_SIZE: u64 = 64;

/// Returns the name of the job whose recording is in a directory.
fn job_name(directory: &Path) -> Result<String> {
    let whole = directory.canonicalize().with_context(|| format!("failed to read {}", directory.display()))?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(SUFFIX).map(str::to_owned).unwrap_or(name);
    ensure!(!name.is_empty(), "{} has no name; add --job NAME", directory.display());
    Ok(name)
}

fn progress_bar(events: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {human_pos} of at most {human_len} calls, {eta_precise} left");
    // Without a terminal, the bar is not drawn.
    ProgressBar::with_draw_target(Some(events), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn format_summary(output: &Path, exported: &ExportResults) -> String {
    let rows = |table| exported.tables.get(table).map_or(0, |written| written.rows);
    let files: u64 = exported.tables.values().map(|written| written.files).sum();
    let bytes: u64 = exported.tables.values().map(|written| written.bytes).sum();
    format!(
        "{} has {}, {}, {} and {}: {} in {}\n",
        output.display(),
        counted(exported.processes as u64, "process"),
        counted(rows("call"), "call"),
        counted(rows("opening"), "opening"),
        counted(rows("finding"), "finding"),
        pack::format_size(bytes),
        counted(files, "file"),
    )
}

/// Replaces data in the tables that `--redact` leaves out.
struct ExportRedaction<'a>(&'a Redaction);

fn lossy_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

impl cupeer_export::Redact for ExportRedaction<'_> {
    fn redact_host(&self, name: &str) -> String {
        self.0.redact_host_name(name)
    }

    fn redact_path(&self, path: &str) -> String {
        self.0.redact_path(path)
    }

    fn redact_argument(&self, value: &str) -> String {
        lossy_text(self.0.redact_argument(value.as_bytes()))
    }

    fn redact_variable(&self, name: &str, value: &str) -> String {
        lossy_text(self.0.redact_variable(name.as_bytes(), value.as_bytes()))
    }

    fn redact_rule(&self, text: &str) -> String {
        self.0.redact_rule(text)
    }

    fn redact_problem(&self, text: &str) -> String {
        self.0.redact_sentence(text)
    }
}
