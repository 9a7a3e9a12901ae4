//! `cupeer reduce`: of records, one small file that can be put together with others of its kind.
//!
//! What is kept is [`cupeer_facts::part`]'s, and how its file comes to be, [`cupeer_recordings::reduce`]'s.

use crate::records::parts;
use anyhow::{Result, bail, ensure};
use clap::Args;
use cupeer_console::output;
use cupeer_facts::part::file;
use cupeer_recordings::reduce::MOST_FAILURES;
use cupeer_recordings::reduce::write_reduced;
use cupeer_recordings::{home, made};
use cupeer_report::names::counted;
use std::path::PathBuf;
use std::process::ExitCode;

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

pub fn command(args: &ReduceArgs) -> Result<ExitCode> {
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| home::find_recording(path)).collect::<Result<_>>()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => default_output(&paths)?,
    };
    ensure!(
        file::has_reduced_name(&output),
        "the name of '{}' does not end in {}, by which reports know a reduced file",
        output.display(),
        file::SUFFIX
    );
    made::refuse_existing(&output, args.force)?;
    let most_failures = if args.all { usize::MAX } else { args.failures };
    let reduced = parts::reduce_and_join(&paths, most_failures, args.all)?;
    let size = write_reduced(&reduced, &output, args.force)?;
    let about = reduced.extent();
    let (processes, hosts) = (counted(about.processes, "process"), counted(about.hosts, "host"));
    let calls = counted(about.events, "event");
    output::print(&format!("{} has {processes} of {hosts}, {calls}: {size} bytes\n", output.display()))
}

fn default_output(paths: &[PathBuf]) -> Result<PathBuf> {
    let [path] = paths else { bail!("-o FILE names the one to write where there are several") };
    made::default_output(path, file::SUFFIX)
}
