//! How far a sweep is: kept with its plan in its directory, so that it can go on.
//!
//! A file of JSON lines: the plan, the runs without faults, then one line for each run that is done. A line is written
//! at once; the last one may be torn where the sweep was killed, and is done again.

use super::plan::Plan;
use super::trials::{Counts, Trial};
use super::verdict::Judged;
use crate::records::sweeps::{self, FILE, MOST_BYTES, Read};
use crate::start::startup::user;
use crate::start::{home, script};
use anyhow::{Context, Result, ensure};
use cupeer_record::plain::{self, Links};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind::AlreadyExists, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Done {
    pub trial: Trial,
    /// Its number, from 1, which names its directory.
    pub number: usize,
    pub judged: Judged,
    /// The places that it has called from, and the program does not without faults.
    pub new: Vec<Counts>,
}

type Line = sweeps::Line<Plan, Vec<Counts>, Done>;

pub struct Journal {
    pub directory: PathBuf,
    file: File,
}

pub struct JournalContent {
    pub plan: Plan,
    /// The calls, where they were counted.
    pub places: Option<Vec<Counts>>,
    pub done: Vec<Done>,
}

impl Journal {
    /// Begins a sweep in a new directory: the named one, or `sweep-PROGRAM-N` at home.
    pub fn create(named: Option<&Path>, plan: &Plan) -> Result<Journal> {
        let make = |directory: &Path| fs::DirBuilder::new().mode(0o700).create(directory);
        let directory = match named {
            Some(named) => {
                let shown = named.display();
                match make(named) {
                    Err(error) if error.kind() == AlreadyExists => {
                        ensure!(
                            !named.join(FILE).exists(),
                            "'{shown}' already holds a sweep; 'cupeer sweep --resume {shown}' goes on with it"
                        );
                        let is_empty = fs::read_dir(named).is_ok_and(|mut entries| entries.next().is_none());
                        ensure!(is_empty, "'{shown}' exists, and is not an empty directory; name a new one");
                    }
                    made => made.with_context(|| format!("failed to make the directory '{shown}'"))?,
                }
                named.to_owned()
            }
            None => {
                let command: Vec<OsString> = plan.program.iter().map(OsString::from).collect();
                let make = |new: &Path| match make(new) {
                    Err(error) if error.kind() == AlreadyExists => Ok(false),
                    made => made.map(|()| true),
                };
                home::new_directory("sweep-", &script::name(&command), make)
                    .context("failed to make a directory for the sweep; use --out DIR for another place")?
            }
        };
        let directory = std::path::absolute(directory)?;
        let path = directory.join(FILE);
        let file = plain::create(&path, 0o600);
        let file = file.with_context(|| format!("failed to make '{}'", path.display()))?;
        take(&file, &directory)?;
        let mut journal = Journal { directory, file };
        let cupeer = env!("CARGO_PKG_VERSION").to_owned();
        journal.write(&Line::Sweep { cupeer, plan: Box::new(plan.clone()) })?;
        Ok(journal)
    }

    /// Opens the journal of a sweep that is to go on. What is torn at its end is taken away.
    pub fn open(directory: &Path) -> Result<(Journal, JournalContent)> {
        let path = directory.join(FILE);
        let shown = path.display();
        let file = plain::open_with(&path, Links::Refused, OpenOptions::new().read(true).append(true));
        let file = file.with_context(|| format!("'{}' is not a sweep: '{shown}'", directory.display()))?;
        check_owner(&file, directory)?;
        // Before it is read: nobody adds to it from here on.
        take(&file, directory)?;
        let bytes =
            plain::contents(&file, MOST_BYTES).with_context(|| format!("failed to read '{shown}'"))?;
        let (kept, length) = parse(&bytes).with_context(|| format!("failed to read '{shown}'"))?;
        file.set_len(length as u64).with_context(|| format!("failed to write to '{shown}'"))?;
        Ok((Journal { directory: std::path::absolute(directory)?, file }, kept))
    }

    pub fn places(&mut self, places: &[Counts]) -> Result<()> {
        self.write(&Line::Places(places.to_vec()))
    }

    pub fn done(&mut self, done: &Done) -> Result<()> {
        self.write(&Line::Done(Box::new(done.clone())))
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("failed to write to '{}'", self.directory.join(FILE).display()))
    }
}

/// A journal names the program that is run: nobody else's counts.
fn check_owner(journal: &File, directory: &Path) -> Result<()> {
    let owner = journal.metadata()?.uid();
    ensure!(
        [0, user()].contains(&owner),
        "the sweep in '{}' belongs to user {owner}, and names the program to run; copy the directory to go on with it",
        directory.display()
    );
    Ok(())
}

/// Holds the journal for this process only, until it ends. Where a file system has no locks, nobody is refused.
fn take(journal: &File, directory: &Path) -> Result<()> {
    ensure!(
        !matches!(journal.try_lock(), Err(TryLockError::WouldBlock)),
        "the sweep in '{}' is in progress in another process; wait for it to end",
        directory.display()
    );
    Ok(())
}

/// Reads a journal; how many of its bytes are whole lines.
fn parse(bytes: &[u8]) -> Result<(JournalContent, usize)> {
    let (Read { plan, places, done }, whole) = sweeps::parse::<Plan, Vec<Counts>, Done>(bytes)?;
    ensure!(!plan.program.is_empty(), "it does not begin with a plan");
    Ok((JournalContent { plan, places, done }, whole))
}

/// Whether a run of the sweep in a directory is done.
pub fn has_runs(directory: &Path) -> bool {
    sweeps::progress(directory).is_ok_and(|(_, done)| done > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::args::Verdict;

    fn done(number: usize) -> Done {
        let judged = Judged { verdict: Verdict::Leak, seen: "status 0".into() };
        Done { trial: Trial { faults: Vec::new() }, number, judged, new: Vec::new() }
    }

    #[test]
    fn what_is_torn_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { program: vec!["./app".into()], ..Plan::default() };
        let path = folder.path().join("s");
        let mut journal = Journal::create(Some(&path), &plan).unwrap();
        journal.places(&[]).unwrap();
        journal.done(&done(1)).unwrap();
        journal.done(&done(2)).unwrap();
        let refused = Journal::open(&path).map(drop).unwrap_err();
        assert!(refused.to_string().contains("is in progress in another process"), "{refused}");
        // Not by closing it: a process that another test starts may have it, too.
        let free = |journal: &Journal| journal.file.unlock().unwrap();
        free(&journal);
        let whole = fs::read(path.join(FILE)).unwrap();
        let second =
            whole.len() - whole[..whole.len() - 1].iter().rev().position(|byte| *byte == b'\n').unwrap();
        for cut in second..whole.len() {
            fs::write(path.join(FILE), &whole[..cut]).unwrap();
            let (mut journal, kept) = Journal::open(&path).unwrap();
            assert_eq!(kept.done.len(), 1, "cut at {cut}");
            journal.done(&done(3)).unwrap();
            free(&journal);
            let (journal, kept) = Journal::open(&path).unwrap();
            free(&journal);
            assert_eq!(kept.done.iter().map(|done| done.number).collect::<Vec<_>>(), [1, 3]);
            assert!(kept.places.is_some() && kept.plan.program == ["./app"]);
        }
    }

    #[test]
    fn a_damaged_journal_is_refused_with_its_line() {
        let plan = Plan { program: vec!["./app".into()], ..Plan::default() };
        let cupeer = env!("CARGO_PKG_VERSION").to_owned();
        let first = serde_json::to_string(&Line::Sweep { cupeer, plan: Box::new(plan) }).unwrap();
        let refused = |text: String| format!("{:#}", parse(text.as_bytes()).map(drop).unwrap_err());
        assert!(refused(format!("{first}\n{{}}\n{first}\n")).contains("line 2"));
        assert!(refused(format!("{first}\n{first}\n")).contains("begins twice"));
        assert!(refused(String::new()).contains("does not begin"));
        assert!(refused("junk\n".into()).contains("line 1"));
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let plan = Plan { program: vec!["./app".into()], ..Plan::default() };
        let refused = Journal::create(Some(folder.path()), &plan).map(drop).unwrap_err();
        assert!(refused.to_string().contains("not an empty directory"), "{refused}");
    }
}
