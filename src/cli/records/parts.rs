//! The input of a report: one recording, or the parts of a reduced job.
//!
//! What belongs here: finding them. A directory may hold both: records that nobody has reduced yet beside the files of other
//! nodes.

use crate::records::opened::OpenedRecording;
use crate::records::reduced::reduced_files_in;
use anyhow::{Context, Result};
use cupeer_facts::part::{JobPart, file};
use cupeer_record::Job;
use cupeer_recordings::home;
use std::path::{Path, PathBuf};

pub enum ReportInput {
    /// A single recording with all its calls.
    Record(Box<OpenedRecording>),
    /// Several reduced files, joined.
    Parts(Box<JobPart>),
}

/// Opens the input of a report. At most `most_failures` single failures are kept. Unless `all`, unimportant data is only
/// counted.
pub fn open_input(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<ReportInput> {
    let (mut files, mut records, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        if file::is_reduced_file(path) {
            files.push(path.clone());
            continue;
        }
        let inner = reduced_files_in(path);
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
        return Ok(ReportInput::Record(Box::new(OpenedRecording::open(record)?)));
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
        add(reduce_recording(record, most_failures)?)?;
    }
    for file in &files {
        add(JobPart::read(file)?).with_context(|| file.display().to_string())?;
    }
    let mut joined = joined.context("nothing is named")?;
    // The job file, which all hosts share, contains notes of the runs.
    emptied.iter().for_each(|job| joined.add_other_files(job));
    match paths {
        [path] => joined.set_path(&home::report_argument(path)),
        [first, rest @ ..] => joined.set_path(&format!("{} and {} more", home::report_argument(first), rest.len())),
        [] => {}
    }
    Ok(ReportInput::Parts(Box::new(joined)))
}

fn reduce_recording(path: &Path, most_failures: usize) -> Result<JobPart> {
    let OpenedRecording { job, symbols, .. } = &mut OpenedRecording::open(path)?;
    cupeer_facts::reduce(job, most_failures, symbols)
}

/// Reduces recordings, and joins the results with reduced files.
pub fn reduce_and_join(paths: &[PathBuf], most_failures: usize, all: bool) -> Result<JobPart> {
    match open_input(paths, most_failures, all)? {
        ReportInput::Parts(joined) => Ok(*joined),
        ReportInput::Record(mut opened) => {
            let OpenedRecording { job, symbols, .. } = &mut *opened;
            let mut reduced = cupeer_facts::reduce(job, most_failures, symbols)?;
            if !all {
                reduced.fold();
            }
            Ok(reduced)
        }
    }
}
