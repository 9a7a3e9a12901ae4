//! The input of a report: one recording, or the parts of a reduced job.
//!
//! What belongs here: finding them. A directory may hold both: records that nobody has reduced yet beside the files of other
//! nodes.

use crate::records::opened::Opened;
use crate::records::reduced::files_in;
use anyhow::{Context, Result};
use cupeer_facts::part::{JobPart, file};
use cupeer_record::Job;
use cupeer_recordings::home;
use std::path::{Path, PathBuf};

pub enum Given {
    /// A single recording with all its calls.
    Record(Box<Opened>),
    /// Several reduced files, joined.
    Parts(Box<JobPart>),
}

/// Opens the input of a report. At most `most_failures` single failures are kept. Unless `all`, unimportant data is only
/// counted.
pub fn open(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<Given> {
    let (mut files, mut records, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        if file::is_one(path) {
            files.push(path.clone());
            continue;
        }
        let inner = files_in(path);
        if inner.is_empty() {
            records.push(path);
            continue;
        }
        files.extend(inner);
        match Job::open(path) {
            Ok(job) if job.processes.is_empty() => emptied.push(job),
            Ok(_) => records.push(path),
            // The directory contains only reduced files.
            Err(_) => {}
        }
    }
    if let ([record], true) = (&records[..], files.is_empty()) {
        return Ok(Given::Record(Box::new(Opened::open(record)?)));
    }
    let mut joined: Option<JobPart> = None;
    let mut add = |part: JobPart| -> Result<()> {
        match &mut joined {
            Some(joined) => joined.add(part, most_failures)?,
            None => joined = Some(part),
        }
        joined.as_mut().filter(|_| !all).map(JobPart::fold);
        Ok(())
    };
    for record in records {
        add(of_record(record, most_failures)?)?;
    }
    for file in &files {
        add(JobPart::read(file)?).with_context(|| file.display().to_string())?;
    }
    let mut joined = joined.context("nothing is named")?;
    // The job file, which all hosts share, contains notes of the runs.
    emptied.iter().for_each(|job| joined.note(job));
    match paths {
        [path] => joined.call(&home::shown(path)),
        [first, rest @ ..] => joined.call(&format!("{} and {} more", home::shown(first), rest.len())),
        [] => {}
    }
    Ok(Given::Parts(Box::new(joined)))
}

fn of_record(path: &Path, most_failures: usize) -> Result<JobPart> {
    let Opened { job, symbols, .. } = &mut Opened::open(path)?;
    cupeer_facts::reduce(job, most_failures, symbols)
}

/// Reduces recordings, and joins the results with reduced files.
pub fn reduced(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<JobPart> {
    match open(paths, most_failures, all)? {
        Given::Parts(joined) => Ok(*joined),
        Given::Record(mut opened) => {
            let Opened { job, symbols, .. } = &mut *opened;
            let mut reduced = cupeer_facts::reduce(job, most_failures, symbols)?;
            if !all {
                reduced.fold();
            }
            Ok(reduced)
        }
    }
}
