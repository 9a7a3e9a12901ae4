//! `cupeer reduce`: of records, one small file that can be put together with others of its kind.
//!
//! What belongs here: the command, how its file comes to be, and what `cupeer run --reduce` does in the end ([`mod@at_end`]). What
//! is kept is [`cupeer_report::reduced`]'s.

mod at_end;

pub use at_end::reduce as at_end;

use crate::args::ReduceArgs;
use crate::{home, output, parts};
use anyhow::{Context, Result, bail, ensure};
use cupeer_report::reduced::{Reduced, file};
use cupeer_report::text::names::counted;
use std::io::ErrorKind;
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
    ensure!(
        args.force || output.symlink_metadata().is_err(),
        "{} exists; --force overwrites it",
        output.display()
    );
    let most_failures = if args.all { usize::MAX } else { args.failures };
    let reduced = parts::reduced(&paths, most_failures, args.all)?;
    let size = write(&reduced, &output, args.force)?;
    let about = reduced.about();
    let (processes, hosts) = (counted(about.processes, "process"), counted(about.hosts, "host"));
    let calls = counted(about.events, "event");
    output::print(&format!("{} has {processes} of {hosts}, {calls}: {size} bytes\n", output.display()))
}

/// The name of the only directory with our suffix, in the current directory.
fn default_output(paths: &[PathBuf]) -> Result<PathBuf> {
    let [path] = paths else { bail!("-o FILE names the one to write where there are several") };
    ensure!(!path.is_file(), "{} is a file; -o FILE names the one to write", path.display());
    let whole = path.canonicalize().with_context(|| format!("failed to read {}", path.display()))?;
    let Some(name) = whole.file_name() else { bail!("{} has no name; add -o FILE", path.display()) };
    let mut name = name.to_owned();
    name.push(file::SUFFIX);
    Ok(name.into())
}

/// Writes a file: whole, or not at all. Says how many bytes it has.
pub fn write(reduced: &Reduced, output: &Path, replace: bool) -> Result<u64> {
    let failed = || format!("failed to write {}", output.display());
    let directory = output.parent().filter(|parent| *parent != "").unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".cupeer-reduce-").tempfile_in(directory);
    let temporary = temporary.with_context(failed)?;
    reduced.write(temporary.as_file()).with_context(failed)?;
    let size = temporary.as_file().metadata().with_context(failed)?.len();
    let named = if replace { temporary.persist(output) } else { temporary.persist_noclobber(output) };
    match named {
        Ok(_) => Ok(size),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; --force overwrites it", output.display())
        }
        Err(error) => Err(error.error).with_context(failed),
    }
}
