//! What a report is made of: one record or, where it was reduced, the parts of a job.
//!
//! What belongs here: finding them. A directory may hold both: records that nobody has reduced yet beside the files of other
//! nodes.

use crate::home;
use crate::opened::Opened;
use anyhow::{Context, Result};
use cupeer_record::Job;
use cupeer_report::reduced::{Reduced, file};
use std::fs;
use std::path::{Path, PathBuf};

/// How many single failures are kept where not all are asked for.
pub const MOST_FAILURES: usize = 1000;

pub enum Given {
    /// One record, with all its calls.
    Record(Box<Opened>),
    /// What is kept of one or more.
    Parts(Box<Reduced>),
}

/// Opens what a report is asked for. Of single failures, `most_failures` are kept; where not `all` is wanted, what is dull is
/// only counted.
pub fn open(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<Given> {
    let mut files = Vec::new();
    let mut records = Vec::new();
    for path in paths {
        if file::is_one(path) {
            files.push(path.clone());
            continue;
        }
        let inner = files_in(path);
        // Where there are only reduced files, there is no record.
        if inner.is_empty() || Job::open(path).is_ok_and(|job| !job.processes.is_empty()) {
            records.push(path);
        }
        files.extend(inner);
    }
    if let ([record], true) = (&records[..], files.is_empty()) {
        return Ok(Given::Record(Box::new(Opened::open(record)?)));
    }
    let mut joined: Option<Reduced> = None;
    let mut add = |part: Reduced| -> Result<()> {
        match &mut joined {
            Some(joined) => joined.add(part, most_failures)?,
            None => joined = Some(part),
        }
        joined.as_mut().filter(|_| !all).map(Reduced::fold);
        Ok(())
    };
    for record in records {
        add(of_record(record, most_failures)?)?;
    }
    for file in &files {
        add(Reduced::read(file)?).with_context(|| file.display().to_string())?;
    }
    let mut joined = joined.context("nothing is named")?;
    for path in paths.iter().filter(|path| path.is_dir()) {
        // What runs have noted in the file that all hosts share.
        if let Ok(job) = Job::open(path)
            && job.processes.is_empty()
        {
            joined.note(&job);
        }
    }
    match paths {
        [path] => joined.call(&home::shown(path)),
        [first, rest @ ..] => joined.call(&format!("{} and {} more", home::shown(first), rest.len())),
        [] => {}
    }
    Ok(Given::Parts(Box::new(joined)))
}

fn of_record(path: &Path, most_failures: usize) -> Result<Reduced> {
    let Opened { job, symbols, .. } = &mut Opened::open(path)?;
    cupeer_report::reduce(job, most_failures, symbols)
}

/// The reduced files in a directory, and in the directories in it, in the order of their names.
pub fn files_in(directory: &Path) -> Vec<PathBuf> {
    let list = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        paths
    };
    let is_one = |path: &PathBuf| file::is_named(path) && path.is_file();
    let all = list(directory).into_iter().flat_map(|path| match path.is_dir() {
        true => list(&path),
        false => vec![path],
    });
    all.filter(is_one).collect()
}

/// Reduces records and reduced files to one.
pub fn reduced(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<Reduced> {
    match open(paths, most_failures, all)? {
        Given::Parts(joined) => Ok(*joined),
        Given::Record(mut opened) => {
            let Opened { job, symbols, .. } = &mut *opened;
            let mut reduced = cupeer_report::reduce(job, most_failures, symbols)?;
            if !all {
                reduced.fold();
            }
            Ok(reduced)
        }
    }
}
