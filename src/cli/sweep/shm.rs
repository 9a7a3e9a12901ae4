//! Names in /dev/shm: which of them a run has left there, and taking them away.
//!
//! What belongs here: whose a name is. It belongs to a run where it was not there when the sweep began, was made or
//! changed during the run, and no process that lives has it open or mapped: all of the run have ended by then.

use crate::start::startup::user;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SHM: &str = "/dev/shm";

/// A file, and when it was changed last: seconds and nanoseconds.
type Stamp = (u64, i64, i64);

/// What was there at some time.
pub struct ShmNames {
    directory: PathBuf,
    names: BTreeMap<String, Stamp>,
}

impl ShmNames {
    pub fn now() -> ShmNames {
        // As the kernel names it to those that ask about open files.
        ShmNames::of(fs::canonicalize(SHM).unwrap_or_else(|_| SHM.into()))
    }

    fn of(directory: PathBuf) -> ShmNames {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            // What shm_open and sem_open make; a directory there is somebody's scratch space.
            let status = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            let stamp = (status.ino(), status.ctime(), status.ctime_nsec());
            Some((entry.file_name().to_string_lossy().into_owned(), stamp))
        });
        ShmNames { names: names.collect(), directory }
    }

    pub fn names(self) -> BTreeSet<String> {
        self.names.into_keys().collect()
    }

    /// What a run has left that began then and is over. What was there at the `start` of the sweep is none of it.
    pub fn left_since(&self, start: &BTreeSet<String>) -> Vec<String> {
        let mut now = ShmNames::of(self.directory.clone()).names;
        now.retain(|name, stamp| !start.contains(name) && self.names.get(name) != Some(stamp));
        if !now.is_empty() {
            let used = in_use(&self.directory);
            now.retain(|name, _| !used.contains(name));
        }
        now.into_keys().collect()
    }
}

/// Keeps those names that are still there, and that no process has open or mapped.
pub fn retain_left(names: &mut Vec<String>) {
    let there = ShmNames::now();
    let used = in_use(&there.directory);
    names.retain(|name| there.names.contains_key(name) && !used.contains(name));
}

/// Takes away what runs have left, so that the next one finds none of it. What is no regular file or another user's
/// stays, and what a process has open.
pub fn remove(names: &[&String]) {
    if !names.is_empty() {
        remove_in(&ShmNames::now().directory, names);
    }
}

fn remove_in(directory: &Path, names: &[&String]) {
    let used = in_use(directory);
    for name in names.iter().filter(|name| !used.contains(**name)) {
        let path = directory.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|status| status.is_file() && status.uid() == user()) {
            tracing::debug!("removing '{}', which a run left behind", path.display());
            // What stays there is seen by the next run.
            let _ = fs::remove_file(&path);
        }
    }
}

/// The names in a directory that a process has open or mapped.
fn in_use(directory: &Path) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let prefix = format!("{}/", directory.display());
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !process.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            used.extend(target.to_string_lossy().strip_prefix(&prefix).map(str::to_owned));
        }
        let maps = fs::read(process.path().join("maps")).unwrap_or_default();
        for line in String::from_utf8_lossy(&maps).lines() {
            used.extend(line.split_once(&prefix).map(|(_, name)| name.to_owned()));
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_a_run_has_left_is_new_or_changed_and_nobody_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(folder.path()).unwrap();
        let make = |name: &str| File::create(directory.join(name)).unwrap();
        drop((make("at the start"), make("before"), make("again")));
        let start = ["at the start".to_owned()].into();
        let before = ShmNames::of(directory.clone());
        assert!(before.left_since(&start).is_empty());
        for name in ["at the start", "again"] {
            fs::remove_file(directory.join(name)).unwrap();
            // Another file, whatever the time is.
            drop((make("place holder"), make(name)));
        }
        let open = make("open");
        drop(make("new"));
        assert_eq!(before.left_since(&start), ["again", "new", "place holder"]);
        fs::create_dir(directory.join("directory")).unwrap();
        assert_eq!(before.left_since(&start), ["again", "new", "place holder"]);
        remove_in(&directory, &["again", "open", "directory", "missing"].map(str::to_owned).each_ref());
        let left: Vec<String> = ShmNames::of(directory.clone()).names().into_iter().collect();
        assert!(directory.join("directory").is_dir());
        assert_eq!(left, ["at the start", "before", "new", "open", "place holder"]);
        drop(open);
        assert!(before.left_since(&start).contains(&"open".to_owned()));
    }
}
