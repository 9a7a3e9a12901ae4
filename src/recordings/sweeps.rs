//! The directory of a sweep: how to recognize it, the names of its files, and its journal.

use anyhow::{Result, bail};
use cupeer_record::plain::{self, SymbolicLinks};
use serde::{Deserialize, Serialize};
use std::fs::TryLockError;
use std::io::Read as _;
use std::path::Path;

/// File name of the journal of a sweep.
pub const FILE: &str = "sweep.jsonl";
/// First bytes of the journal.
const BEGIN: &[u8] = b"{\"sweep\":";
/// Largest size of a journal that is read, in bytes.
pub const MOST_BYTES: u64 = 1 << 30;

/// Name of the recording in the directory of one run of a sweep.
pub const RECORD: &str = "record";
/// Name of the file with the standard output of one run of a sweep.
pub const STDOUT: &str = "stdout";
/// Name of the file with the standard error of one run of a sweep.
pub const STDERR: &str = "stderr";

/// A line of the journal: the first line has the program, and each later line a finished run.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalLine {
    Sweep { program: Vec<String> },
    Done { number: usize, verdict: String },
}

/// Returns true if a directory is that of a sweep.
pub fn is_sweep(directory: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    let file = plain::open(&directory.join(FILE), SymbolicLinks::Refused);
    file.and_then(|mut file| file.read_exact(&mut begin)).is_ok_and(|()| begin == BEGIN)
}

/// Returns true if a sweep in a directory is in progress.
pub fn is_in_progress(directory: &Path) -> bool {
    let file = plain::open(&directory.join(FILE), SymbolicLinks::Refused);
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Returns the command line of the program of a sweep, and the number of finished runs.
pub fn read_progress(directory: &Path) -> Result<(Vec<String>, usize)> {
    let text = String::from_utf8(plain::read(&directory.join(FILE), SymbolicLinks::Refused, MOST_BYTES)?)?;
    // The last line may be incomplete, and has no newline then.
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(serde_json::from_str);
    let Some(JournalLine::Sweep { program }) = lines.next().transpose()? else {
        bail!("it does not begin with a program")
    };
    let done = lines.take_while(|line| matches!(line, Ok(JournalLine::Done { .. }))).count();
    Ok((program, done))
}
