//! The directory of a sweep, with a journal of its runs that are done: what `cupeer ls` shows.

use super::trials::{SiteCounts, Trial};
use super::verdict::JudgedRun;
use anyhow::{Context, Result, ensure};
use cupeer_record::plain;
use cupeer_recordings::sweeps::{FILE, JournalLine};
use cupeer_recordings::{home, script};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind::AlreadyExists, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A completed run.
#[derive(Clone, Debug)]
pub struct CompletedRun {
    pub trial: Trial,
    /// Number of the run, from 1, which is also the name of its directory.
    pub number: usize,
    pub judged: JudgedRun,
    /// Places whose calls the program made in this run, but not without faults.
    pub new: Vec<SiteCounts>,
}

pub struct SweepJournal {
    pub directory: PathBuf,
    file: File,
    /// Number of completed runs.
    pub runs: usize,
}

impl SweepJournal {
    /// Begins a sweep in a new directory: the named one, or `sweep-PROGRAM-N` in the default directory.
    pub fn create(named: Option<&Path>, program: &[String]) -> Result<SweepJournal> {
        let make = |directory: &Path| fs::DirBuilder::new().mode(0o700).create(directory);
        let directory = match named {
            Some(named) => {
                let shown = named.display();
                match make(named) {
                    Err(error) if error.kind() == AlreadyExists => {
                        let is_empty = fs::read_dir(named).is_ok_and(|mut entries| entries.next().is_none());
                        ensure!(is_empty, "'{shown}' exists, and is not an empty directory; name a new one");
                    }
                    made => made.with_context(|| format!("failed to make the directory '{shown}'"))?,
                }
                named.to_owned()
            }
            None => {
                let command: Vec<OsString> = program.iter().map(OsString::from).collect();
                let make = |new: &Path| match make(new) {
                    Err(error) if error.kind() == AlreadyExists => Ok(false),
                    made => made.map(|()| true),
                };
                home::create_numbered_directory("sweep-", &script::name_of_command(&command), make)
                    .context("failed to make a directory for the sweep; use --out DIR for another place")?
            }
        };
        let directory = std::path::absolute(directory)?;
        let path = directory.join(FILE);
        let file = plain::create(&path, 0o600);
        let file = file.with_context(|| format!("failed to make '{}'", path.display()))?;
        // The lock is held until this process ends, and shows that the sweep is running. On a file system without
        // locks, nothing shows it.
        let _ = file.try_lock();
        let mut journal = SweepJournal { directory, file, runs: 0 };
        journal.write_line(&JournalLine::Sweep { program: program.to_vec() })?;
        Ok(journal)
    }

    pub fn note_completed(&mut self, done: &CompletedRun) -> Result<()> {
        self.runs += 1;
        self.write_line(&JournalLine::Done { number: done.number, verdict: done.judged.verdict.words() })
    }

    fn write_line(&mut self, line: &JournalLine) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("failed to write to '{}'", self.directory.join(FILE).display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Verdict;
    use cupeer_recordings::sweeps;

    #[test]
    fn a_journal_tells_the_program_and_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut journal = SweepJournal::create(Some(&path), &["./app".into()]).unwrap();
        let judged = JudgedRun { verdict: Verdict::Leak, seen: "status 0".into() };
        let done = CompletedRun { trial: Trial { faults: Vec::new() }, number: 1, judged, new: Vec::new() };
        journal.note_completed(&done).unwrap();
        journal.note_completed(&done).unwrap();
        assert!(sweeps::is_sweep(&path) && sweeps::is_in_progress(&path));
        // The last line is cut where the sweep was killed.
        journal.file.write_all(b"{\"done\":{\"num").unwrap();
        assert_eq!(sweeps::read_progress(&path).unwrap(), (vec!["./app".to_owned()], 2));
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let refused = SweepJournal::create(Some(folder.path()), &["./app".into()]).map(drop).unwrap_err();
        assert!(refused.to_string().contains("not an empty directory"), "{refused}");
    }
}
