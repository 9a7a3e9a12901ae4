//! `cupeer reduce`: of records, one small file that can be put together with others of its kind.
//!
//! What belongs here: the command, how its file comes to be, and what `cupeer run --reduce` does in the end ([`mod@at_end`]). What
//! is kept is [`cupeer_facts::part`]'s.

mod at_end;

pub use at_end::reduce as at_end;

use crate::records::{made, parts};
use crate::start::args::ReduceArgs;
use crate::start::{home, output};
use anyhow::{Context, Result, bail, ensure};
use cupeer_facts::part::{JobPart, file};
use cupeer_report::names::counted;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn command(args: &ReduceArgs) -> Result<ExitCode> {
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| home::find(path)).collect::<Result<_>>()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => default_output(&paths)?,
    };
    ensure!(
        file::is_named(&output),
        "the name of '{}' does not end in {}, by which reports know a reduced file",
        output.display(),
        file::SUFFIX
    );
    made::refuse_existing(&output, args.force)?;
    let most_failures = if args.all { usize::MAX } else { args.failures };
    let reduced = parts::reduced(&paths, most_failures, args.all)?;
    let size = write(&reduced, &output, args.force)?;
    let about = reduced.about();
    let (processes, hosts) = (counted(about.processes, "process"), counted(about.hosts, "host"));
    let calls = counted(about.events, "event");
    output::print(&format!("{} has {processes} of {hosts}, {calls}: {size} bytes\n", output.display()))
}

fn default_output(paths: &[PathBuf]) -> Result<PathBuf> {
    let [path] = paths else { bail!("-o FILE names the one to write where there are several") };
    made::default_output(path, file::SUFFIX)
}

/// Writes a file: whole, or not at all. Says how many bytes it has.
pub fn write(reduced: &JobPart, output: &Path, replace: bool) -> Result<u64> {
    let temporary = made::begin(output, ".cupeer-reduce-")?;
    reduced.write(temporary.as_file()).with_context(|| format!("failed to write {}", output.display()))?;
    made::finish(temporary, output, replace)
}
