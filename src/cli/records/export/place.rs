//! The directory of an export. The export gets its name when it is complete, and replaces only an earlier export.

use anyhow::{Context, Result, bail, ensure};
use cupeer_console::output;
use cupeer_export::page;
use cupeer_record::plain::{self, SymbolicLinks};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// File that marks a directory as an export, and lists what was left out. Engines ignore names that begin with an
/// underscore.
const ABOUT: &str = "_cupeer.json";
/// Maximum size in bytes of such a file that is read.
const LONGEST_ABOUT: u64 = 16 << 20;

pub struct Destination {
    output: PathBuf,
    new: TempDir,
}

impl Destination {
    /// Checks the directory for the export, and creates a temporary directory beside it.
    pub fn prepare(output: &Path, may_replace: bool) -> Result<Destination> {
        let shown = output.display();
        let output = output::resolve_output_path(output).with_context(|| format!("{shown} cannot be written to"))?;
        check_destination(&output, may_replace)?;
        let beside = parent_directory(&output);
        ensure!(beside.is_dir(), "{} is no directory, so nothing can be written there", beside.display());
        let mut builder = tempfile::Builder::new();
        // The directory gets the usual permissions of new directories.
        let builder = builder.prefix(".cupeer-export-").permissions(Permissions::from_mode(0o777));
        let new = builder.tempdir_in(beside).with_context(|| format!("failed to write to {}", beside.display()))?;
        Ok(Destination { output, new })
    }

    /// Returns the temporary directory to which the tables are written.
    pub fn temporary_path(&self) -> &Path {
        self.new.path()
    }

    /// Returns the path of another export in the same parent directory whose job has this name.
    pub fn export_of_same_job(&self, job: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(parent_directory(&self.output)).ok()?.flatten().map(|entry| entry.path());
        let is_other = |path: &PathBuf| path.file_name() != self.output.file_name();
        entries.filter(is_other).find(|path| read_about(path).is_some_and(|about| about["job"] == job))
    }

    /// Renames the temporary directory to its final name.
    pub fn move_to_output(self, about: &str) -> Result<()> {
        let failed = || format!("failed to write {}", self.output.display());
        fs::write(self.new.path().join(ABOUT), about).with_context(failed)?;
        // Another program may have created the directory in the meantime.
        check_destination(&self.output, true)?;
        if !self.output.is_dir() || fs::remove_dir(&self.output).is_ok() {
            return fs::rename(self.new.keep(), &self.output).with_context(failed);
        }
        let mut builder = tempfile::Builder::new();
        let old = builder.prefix(".cupeer-export-").tempdir_in(parent_directory(&self.output)).with_context(failed)?;
        let kept = old.path().join("old");
        fs::rename(&self.output, &kept).with_context(failed)?;
        let new = self.new.keep();
        if let Err(error) = fs::rename(&new, &self.output) {
            // If the new export cannot be renamed, the old one gets its name back.
            let _ = fs::rename(&kept, &self.output);
            let _ = fs::remove_dir_all(&new);
            return Err(error).with_context(failed);
        }
        Ok(())
    }
}

fn parent_directory(output: &Path) -> &Path {
    output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the description in the directory of an export; `None` if the directory is no export.
fn read_about(output: &Path) -> Option<Value> {
    // The directory may belong to another program.
    let about = plain::read(&output.join(ABOUT), SymbolicLinks::Refused, LONGEST_ABOUT).ok()?;
    let about: Value = serde_json::from_slice(&about).ok()?;
    about["schema"].as_str().is_some_and(|text| text.starts_with("cupeer-export/")).then_some(about)
}

/// Checks that an export may be written to a directory, or may replace it.
fn check_destination(output: &Path, may_replace: bool) -> Result<()> {
    let shown = output.display();
    let entries = match fs::read_dir(output) {
        Ok(entries) => entries,
        Err(error) if error.kind() == NotFound && output.symlink_metadata().is_err() => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be written to")),
    };
    if entries.count() == 0 {
        return Ok(());
    }
    ensure!(read_about(output).is_some(), "{shown} is not empty, and holds no export; name another directory");
    if let Some(other) = find_foreign_entry(output, 0).with_context(|| format!("failed to read {shown}"))? {
        bail!("{shown} holds an export and {}, which is not a part of it; name another directory", other.display());
    }
    ensure!(may_replace, "{shown} holds an export; --force replaces it");
    Ok(())
}

/// Returns the path of an entry that no export has written; `None` if there is none.
fn find_foreign_entry(directory: &Path, depth: usize) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let is_directory = entry.file_type()?.is_dir();
        let part = name.strip_prefix("part-").and_then(|name| name.strip_suffix(".parquet"));
        let is_known = match depth {
            0 => name == ABOUT && !is_directory || page::table_names().contains(&name) && is_directory,
            1 => name.starts_with("node=") && is_directory,
            _ => part.is_some_and(|number| number.parse::<u32>().is_ok()) && !is_directory,
        };
        if !is_known {
            return Ok(Some(entry.path()));
        }
        if is_directory && let Some(found) = find_foreign_entry(&entry.path(), depth + 1)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(output: &Path, may_replace: bool) -> String {
        Destination::prepare(output, may_replace).err().expect("a refusal").to_string()
    }

    #[test]
    fn only_what_an_export_wrote_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let write = |part: &str| {
            let place = Destination::prepare(&out, true).unwrap();
            let node = place.temporary_path().join("call/node=a");
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join(part), "x").unwrap();
            place.move_to_output(r#"{"schema": "cupeer-export/1"}"#).unwrap();
        };
        write("part-0.parquet");
        write("part-1.parquet");
        assert!(out.join("call/node=a/part-1.parquet").exists());
        assert!(!out.join("call/node=a/part-0.parquet").exists(), "what was there has gone");
        assert!(refused(&out, false).ends_with("holds an export; --force replaces it"));
        fs::write(out.join("call/node=a/notes.txt"), "mine").unwrap();
        let said = refused(&out, true);
        assert!(said.contains("notes.txt, which is not a part of it"), "{said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside");
    }

    #[test]
    fn another_job_of_the_same_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let export = |name: &str, job: &str| {
            let place = Destination::prepare(&folder.path().join(name), true).unwrap();
            let namesake = place.export_of_same_job(job);
            place.move_to_output(&format!(r#"{{"schema": "cupeer-export/1", "job": "{job}"}}"#)).unwrap();
            namesake
        };
        assert_eq!(export("monday", "job"), None);
        assert_eq!(export("monday", "job"), None, "it replaces itself");
        assert_eq!(export("tuesday", "other"), None);
        assert_eq!(export("wednesday", "job"), Some(folder.path().join("monday")));
    }

    #[test]
    fn files_of_others_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine");
        fs::create_dir(&mine).unwrap();
        drop(Destination::prepare(&mine, false).unwrap());
        fs::write(mine.join("thesis.tex"), "text").unwrap();
        assert!(refused(&mine, true).contains("is not empty, and holds no export"));
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        assert!(refused(&file, true).contains("cannot be written to"));
        assert!(refused(&folder.path().join("none/out"), false).contains("is no directory"));
    }
}
