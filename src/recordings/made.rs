//! Output files made from a recording, to keep or to send: packed or reduced. A file appears complete, or not at all.

use anyhow::{Context, Result, bail, ensure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Returns the default path of an output file: the name of the recording's directory with a suffix, in the current directory.
pub fn default_output(directory: &Path, suffix: &str) -> Result<PathBuf> {
    ensure!(!directory.is_file(), "{} is a file; -o FILE names the one to write", directory.display());
    let whole = directory.canonicalize().with_context(|| format!("failed to read {}", directory.display()))?;
    let Some(name) = whole.file_name() else { bail!("{} has no name; add -o FILE", directory.display()) };
    let mut name = name.to_owned();
    name.push(suffix);
    Ok(name.into())
}

/// Fails if the output file exists, unless `replace` is true. A device, a pipe, or a directory cannot be replaced.
pub fn refuse_existing(output: &Path, replace: bool) -> Result<()> {
    ensure!(replace || output.symlink_metadata().is_err(), "{} exists; --force overwrites it", output.display());
    let is_file = output.metadata().map_or(true, |found| found.is_file());
    ensure!(is_file, "{} is not a regular file; name another one", output.display());
    Ok(())
}

/// Returns the file that a link leads to, so that the link stays.
fn real_path(output: &Path) -> PathBuf {
    output.canonicalize().unwrap_or_else(|_| output.to_owned())
}

/// Creates a temporary file in the directory of the output file.
pub fn create_temporary(output: &Path, prefix: &str) -> Result<NamedTempFile> {
    let output = real_path(output);
    let directory = output.parent().filter(|parent| *parent != "").unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(prefix).tempfile_in(directory);
    temporary.with_context(|| format!("failed to write to {}", directory.display()))
}

/// Renames a complete temporary file to its final name. Returns its size in bytes.
pub fn rename_temporary(file: NamedTempFile, output: &Path, replace: bool) -> Result<u64> {
    let failed = || format!("failed to write {}", output.display());
    let size = file.as_file().metadata().with_context(failed)?.len();
    let named = if replace { file.persist(real_path(output)) } else { file.persist_noclobber(output) };
    match named {
        Ok(_) => Ok(size),
        // Another process may have created the output file since.
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; --force overwrites it", output.display())
        }
        Err(error) => Err(error.error).with_context(failed),
    }
}
