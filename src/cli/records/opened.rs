//! The record to report on: a directory, or a file made by `cupeer pack`.

use crate::records::pack::{self, UnpackedRecording};
use crate::records::reduced::reduced_files_in;
use anyhow::{Error, Result, bail, ensure};
use cupeer_facts::part::file;
use cupeer_record::Job;
use cupeer_recordings::sweeps;
use cupeer_report::symbols::Symbols;
use std::path::Path;

/// Returns the error message for a recording of which only a reduced file is left.
fn reduced_message(path: &Path) -> String {
    format!("'{}' is reduced: its calls are not there; 'cupeer report' shows what was kept", path.display())
}

pub struct OpenedRecording {
    pub job: Job,
    pub symbols: Symbols,
    /// Directory of unpacked files, if the recording was packed. It is the last field, so that it is deleted
    /// after everything that reads it.
    _unpacked: Option<UnpackedRecording>,
}

impl OpenedRecording {
    /// Opens a recording. Returns an error if it has no process.
    pub fn open(path: &Path) -> Result<OpenedRecording> {
        ensure!(
            !path.is_file() || pack::is_packed(path),
            "'{}' is a file, and not a packed recording; name a directory that 'cupeer run' has recorded to",
            path.display()
        );
        ensure!(
            !sweeps::is_sweep(path),
            "'{0}' is a sweep; its runs have records, such as {0}/trial-1 if it was kept",
            path.display()
        );
        ensure!(!file::is_reduced_file(path), "{}", reduced_message(path));
        let unpacked = if pack::is_packed(path) { Some(pack::unpack_to_temporary(path)?) } else { None };
        let job = match &unpacked {
            Some(unpacked) => unpacked.open_job(),
            None => Job::open(path).map_err(Error::from),
        };
        let has_any = |job: &Job| !job.processes.is_empty() || !job.quiet.is_empty() || !job.hangs.is_empty();
        let has_process = job.as_ref().is_ok_and(has_any);
        ensure!(has_process || reduced_files_in(path).is_empty(), "{}", reduced_message(path));
        let job = job?;
        if !has_any(&job) {
            let problems: Vec<String> = job.problems.iter().map(ToString::to_string).collect();
            let why = if problems.is_empty() { "" } else { ": " };
            bail!("{} holds no recording of a process{why}{}", path.display(), problems.join("; "));
        }
        let place = unpacked.as_ref().map_or(path, UnpackedRecording::directory_path);
        Ok(OpenedRecording { symbols: Symbols::of_record(place, &job.processes), job, _unpacked: unpacked })
    }

    /// Opens a recording, and returns an error if a part of it was reduced.
    pub fn open_unreduced(path: &Path) -> Result<OpenedRecording> {
        ensure!(
            !path.is_dir() || reduced_files_in(path).is_empty(),
            "'{0}' has reduced files: their calls are not there; 'cupeer report {0}' shows what was kept",
            path.display()
        );
        OpenedRecording::open(path)
    }
}
