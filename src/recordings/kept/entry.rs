//! One entry of the default directory: its owner, its size, and its state.

use crate::home::{LAST_UNRECORDED, names, number_in_name, plain_program_name};
use crate::{job, sweeps};
use cupeer_console::startup::effective_user;
use cupeer_record::{Job, launcher};
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::job::{FILE, FIRST_LINE, NOTABLE};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Time without a change of the files after which a process counts as ended, if its state is unknown, as on another host.
const IDLE: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// The recording of one job.
    Record,
    /// The directory of a sweep.
    Sweep,
}

/// A recording or a sweep in the default directory.
pub struct Entry {
    pub name: String,
    pub path: PathBuf,
    pub kind: EntryKind,
    /// The number that cupeer gave the entry; `None` for a name that a user gave: such an entry is never pruned.
    pub number: Option<u64>,
    /// Disk space of the entry, in bytes.
    pub bytes: u64,
    /// True if a run of the recording ended with a problem.
    pub is_notable: bool,
    /// Time of the last change in the directory.
    changed: SystemTime,
}

/// Returns the recordings and sweeps in the default directory, the newest first. Other files and directories are left out.
pub fn entries(home: &Path) -> Vec<Entry> {
    let mut all: Vec<Entry> = names(home).filter_map(|name| Entry::of(home, name)).collect();
    all.sort_by(|a, b| (b.number, b.changed, &b.name).cmp(&(a.number, a.changed, &a.name)));
    all
}

/// Returns the recordings in the default directory: name and path. It is faster than [`entries`], because it reads no sizes.
pub fn list_recordings(home: &Path) -> Vec<(String, PathBuf)> {
    let all = names(home).map(|name| (home.join(&name), name));
    let is_ours = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == effective_user());
    let records = all.filter(|(path, _)| is_ours(path) && !sweeps::is_sweep(path) && read_job_text(path).is_some());
    records.map(|(path, name)| (name, path)).collect()
}

impl Entry {
    #[cfg(test)]
    pub fn at(path: &Path, kind: EntryKind) -> Entry {
        let (name, changed) = (String::new(), SystemTime::UNIX_EPOCH);
        Entry { name, path: path.to_owned(), kind, number: None, bytes: 0, is_notable: false, changed }
    }

    fn of(home: &Path, name: String) -> Option<Entry> {
        let path = home.join(&name);
        let about = path.symlink_metadata().ok().filter(|about| about.is_dir() && about.uid() == effective_user())?;
        let (kind, text) = if sweeps::is_sweep(&path) {
            (EntryKind::Sweep, String::new())
        } else {
            (EntryKind::Record, read_job_text(&path)?)
        };
        let mut changed = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let bytes = disk_usage(&path, &mut changed);
        let is_notable = text.lines().any(|line| line.starts_with(NOTABLE));
        Some(Entry { number: number_in_name(&name), name, path, kind, bytes, is_notable, changed })
    }

    /// Returns true if a run of the entry is in progress, or a process of the entry is running; `None` if unknown.
    pub fn is_running(&self) -> Option<bool> {
        let answers = match self.kind {
            EntryKind::Sweep => vec![Some(sweeps::is_in_progress(&self.path))],
            EntryKind::Record => run_states(&self.path),
        };
        if answers.contains(&Some(true)) {
            return Some(true);
        }
        let is_idle = || self.changed.elapsed().is_ok_and(|age| age > IDLE);
        if answers.contains(&None) && !is_idle() { None } else { Some(false) }
    }
}

/// Returns the program of the last run that recorded nothing, if that run is later than the last change of an entry.
pub fn unrecorded_since(home: &Path, entry: &Entry) -> Option<String> {
    let file = home.join(LAST_UNRECORDED);
    let is_newer = fs::symlink_metadata(&file).and_then(|about| about.modified()).is_ok_and(|at| at > entry.changed);
    let program = is_newer.then(|| fs::read_to_string(&file).ok())??;
    Some(plain_program_name(OsStr::new(program.trim_end())))
}

/// Returns the text of the file `job` of a directory; `None` if the directory is not a recording of this user, or has other
/// files.
fn read_job_text(path: &Path) -> Option<String> {
    let file = path.join(FILE);
    file.symlink_metadata().ok().filter(|about| about.uid() == effective_user())?;
    let text = job::read_job_file(&file).ok().filter(|text| text.starts_with(FIRST_LINE))?;
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.all(|entry| job::is_recording_file(&entry.file_name())).then_some(text)
}

/// Returns the state of each launcher and process of a recording: true if it is running, `None` if unknown.
fn run_states(path: &Path) -> Vec<Option<bool>> {
    let mut answers = launcher::are_running(&job::read_job_file(&path.join(FILE)).unwrap_or_default());
    if let Ok(job) = Job::open(path) {
        let ended = |end| !matches!(end, RecordedEnd::Unseen | RecordedEnd::Untold);
        let of = job.processes.iter().zip(job.are_alive());
        answers.extend(of.map(|(process, alive)| match alive {
            None if ended(process.end()) => Some(false),
            alive => alive,
        }));
    }
    answers
}

/// Returns the disk space of a directory with its contents, in bytes. Sets `changed` to the time of the last change in it, if
/// that is later. Symbolic links are not followed.
fn disk_usage(directory: &Path, changed: &mut SystemTime) -> u64 {
    let mut all = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        *changed = about.modified().map_or(*changed, |at| at.max(*changed));
        all += match about.is_dir() {
            true => disk_usage(&entry.path(), changed),
            false => about.blocks().saturating_mul(512),
        };
    }
    all
}
