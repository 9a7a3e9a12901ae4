//! Removes the oldest recordings of the default directory if there are too many, or if they take too much space.

use super::{Entry, EntryKind, entries, ours};
use crate::home::{default_directory, notice_once_a_day};
use cupeer_report::moments::bytes;
use std::io;
use std::path::Path;

/// Number of recordings without a problem that are kept.
const KEPT: usize = 20;
/// Number of recordings with a problem that are kept in addition, so that runs without a problem do not displace them.
const NOTABLE_KEPT: usize = 100;
/// Largest disk space of all recordings together, in bytes.
const MOST_KEPT: u64 = 1 << 30;

/// Removes the oldest recordings beyond the limits, except for `new`, which this run just created, and those that may still be
/// running. Returns a sentence that names the removed recordings, at most once a day.
pub fn prune(new: Option<&Path>) -> Option<String> {
    let home = default_directory().ok()?;
    let mut gone = Vec::new();
    for (entry, removed) in prune_to_limits(entries(&home), new, [KEPT, NOTABLE_KEPT], MOST_KEPT) {
        match removed {
            Ok(true) => gone.push(entry.name),
            Ok(false) => tracing::debug!("files of others stay in {}", entry.path.display()),
            Err(error) => tracing::debug!("failed to remove {}: {error}", entry.path.display()),
        }
    }
    let which = match &gone[..] {
        [] => return None,
        [one] => one.clone(),
        [first, .., last] => format!("{} recordings, {first} to {last}", gone.len()),
    };
    let notice = format!(
        "deleted {which}: the last {KEPT} are kept, the last {NOTABLE_KEPT} with a problem, and {} in all; to keep one, rename it or use --out",
        bytes(MOST_KEPT)
    );
    notice_once_a_day("deleted", notice)
}

/// Removes the oldest of these entries beyond the given limits. Returns each entry whose removal was tried, and the result, which
/// is true if nothing is left of the entry.
fn prune_to_limits(
    entries: Vec<Entry>,
    new: Option<&Path>,
    [ordinary, notable]: [usize; 2],
    most: u64,
) -> Vec<(Entry, io::Result<bool>)> {
    let named_by_us: Vec<Entry> = entries.into_iter().filter(|entry| entry.number.is_some()).collect();
    let count = |is_notable| named_by_us.iter().filter(|entry| entry.is_notable == is_notable).count();
    let mut beyond = [count(false).saturating_sub(ordinary), count(true).saturating_sub(notable)];
    let mut bytes: u64 = named_by_us.iter().map(|entry| entry.bytes).sum();
    let mut removed = Vec::new();
    // The oldest entries come first, but entries with a problem after all others.
    let mut oldest: Vec<Entry> = named_by_us.into_iter().rev().collect();
    oldest.sort_by_key(|entry| entry.is_notable);
    for entry in oldest {
        let beyond = &mut beyond[usize::from(entry.is_notable)];
        if *beyond == 0 && bytes <= most {
            continue;
        }
        if new == Some(&entry.path) || entry.is_running() != Some(false) {
            continue;
        }
        *beyond = beyond.saturating_sub(1);
        bytes -= entry.bytes;
        let done = remove_entry(&entry);
        removed.push((entry, done));
    }
    removed
}

/// Removes the files that cupeer wrote in an entry. Returns true if nothing is left; files of others stay.
pub fn remove_entry(entry: &Entry) -> io::Result<bool> {
    match entry.kind {
        EntryKind::Record => ours::remove_record(&entry.path),
        EntryKind::Sweep => ours::remove_sweep(&entry.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_record::launcher;
    use cupeer_spec::record::job::FILE;
    use std::fs;
    use std::path::PathBuf;

    /// A record of a run that has ended, with a file of so many bytes.
    fn record(home: &Path, name: &str, bytes: usize) -> PathBuf {
        let path = home.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(FILE), format!("cupeer job 1\nkey={}\n", "0".repeat(32))).unwrap();
        fs::write(path.join("a510ee21-1-2-3.cupeer"), vec![0; bytes]).unwrap();
        path
    }

    fn names(home: &Path) -> Vec<String> {
        entries(home).into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn the_oldest_go_first() {
        let home = tempfile::tempdir().unwrap();
        for number in [9, 10, 11, 12] {
            record(home.path(), &format!("app-{number}"), 100_000);
        }
        let removed = prune_to_limits(entries(home.path()), None, [3, 0], u64::MAX);
        assert!(removed.iter().all(|(_, done)| done.is_ok()));
        assert_eq!(names(home.path()), ["app-12", "app-11", "app-10"]);
        prune_to_limits(entries(home.path()), None, [3, 0], 250_000);
        assert_eq!(names(home.path()), ["app-12", "app-11"]);
        let new = home.path().join("app-12");
        prune_to_limits(entries(home.path()), Some(&new), [3, 0], 0);
        assert_eq!(names(home.path()), ["app-12"]);
    }

    #[test]
    fn recordings_with_a_problem_outlast_the_others() {
        let home = tempfile::tempdir().unwrap();
        for number in [1, 2, 3, 4, 5, 6] {
            let path = record(home.path(), &format!("app-{number}"), 100_000);
            if number <= 3 {
                fs::write(path.join(FILE), "cupeer job 1\nnotable=1\n").unwrap();
            }
        }
        let kept = |counts, most| {
            prune_to_limits(entries(home.path()), None, counts, most);
            names(home.path())
        };
        assert_eq!(kept([2, 3], u64::MAX), ["app-6", "app-5", "app-3", "app-2", "app-1"]);
        assert_eq!(kept([2, 2], u64::MAX), ["app-6", "app-5", "app-3", "app-2"]);
        assert_eq!(kept([2, 2], 350_000), ["app-6", "app-3", "app-2"]);
        assert_eq!(kept([2, 2], 150_000), ["app-3"]);
    }

    #[test]
    fn nothing_goes_that_is_in_use_or_not_ours() {
        let home = tempfile::tempdir().unwrap();
        let of = |name: &str| record(home.path(), name, 10);
        let own = launcher::own_line().unwrap();
        let in_progress = of("app-1");
        fs::write(in_progress.join(FILE), format!("cupeer job 1\n{own}\n")).unwrap();
        let elsewhere = own.replacen(&own[4..36], &"0".repeat(32), 1);
        fs::write(of("app-2").join(FILE), format!("cupeer job 1\n{elsewhere}\n")).unwrap();
        fs::write(of("app-3").join("thesis.tex"), "").unwrap();
        fs::write(of("app-4").join(FILE), "another job\n").unwrap();
        fs::create_dir(home.path().join("app-5")).unwrap();
        of("mine");
        let folder = tempfile::tempdir().unwrap();
        let target = record(folder.path(), "app-6", 10);
        std::os::unix::fs::symlink(&target, home.path().join("app-6")).unwrap();
        of("app-7");
        assert_eq!(names(home.path()), ["app-7", "app-2", "app-1", "mine"]);
        assert!(entries(home.path()).iter().all(|entry| entry.kind == EntryKind::Record));
        let removed = prune_to_limits(entries(home.path()), None, [0, 0], 0);
        let removed: Vec<String> = removed.into_iter().map(|(entry, _)| entry.name).collect();
        assert_eq!(removed, ["app-7"]);
        let mut left: Vec<_> = crate::home::names(home.path()).collect();
        left.sort();
        assert_eq!(left, ["app-1", "app-2", "app-3", "app-4", "app-5", "app-6", "mine"]);
        assert!(target.join(FILE).exists());
    }

    #[test]
    fn a_recording_that_another_run_removed_counts_as_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = record(home.path(), "app-1", 10);
        let all = entries(home.path());
        fs::remove_dir_all(&path).unwrap();
        remove_entry(&all[0]).unwrap();
    }

    #[test]
    fn the_target_of_a_link_in_a_recording_stays() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let path = record(home.path(), "app-1", 10);
        std::os::unix::fs::symlink(folder.path(), path.join("vllm-cache")).unwrap();
        let all = entries(home.path());
        assert!(!remove_entry(&all[0]).unwrap());
        assert!(path.join("vllm-cache").exists() && folder.path().join("thesis.tex").exists());
        assert!(names(home.path()).is_empty(), "it is no recording any more");
    }

    /// By name and content: a name that begins as cupeer's is not enough.
    #[test]
    fn only_what_cupeer_wrote_goes() {
        let home = tempfile::tempdir().unwrap();
        let path = record(home.path(), "app-1", 10);
        let theirs = [
            "host-a510ee21/thesis.tex",
            "host-a510ee21/b510ee21-1-2-3.cupeer",
            "host-notes/thesis.tex",
            "live-notes",
            "live-a510ee21",
            "faults-of-mine",
            "release-notes",
            ".vimrc",
            "notes.cupeer",
            "mine.cupeer.json.gz",
            "c510ee21-1-2-3.cupeer",
        ];
        let ours = [
            ("host-a510ee21/begun", "a510ee21-1-2-3.cupeer 0 - app\n"),
            ("host-a510ee21/a510ee21-1-2-3.cupeer", "cupeer\0R"),
            ("live-b510ee21", "cupeer\0L"),
            ("faults-a510ee21-1", "cupeer\0F"),
            ("release-a", ""),
            (".new-12-ab3", ""),
            ("vllm-cache/torch/x", "x"),
        ];
        for (name, text) in theirs.iter().map(|name| (*name, "mine")).chain(ours) {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), text).unwrap();
        }
        let sweep = home.path().join("sweep-app-2");
        fs::create_dir_all(sweep.join("trial-1/record")).unwrap();
        fs::create_dir_all(sweep.join("trial-mine")).unwrap();
        fs::write(sweep.join("trial-1/record").join(FILE), "cupeer job 1\n").unwrap();
        for name in [crate::sweeps::FILE, "trial-1/stdout", "trial-1/notes", "trial-mine/thesis.tex", "thesis.tex"] {
            fs::write(sweep.join(name), "").unwrap();
        }
        let entry = |path: &Path, kind| Entry::at(path, kind);
        assert!(!remove_entry(&entry(&path, EntryKind::Record)).unwrap());
        assert!(!remove_entry(&entry(&sweep, EntryKind::Sweep)).unwrap());
        let left: Vec<&str> = theirs.into_iter().filter(|name| path.join(name).exists()).collect();
        assert_eq!(left, theirs);
        let left: Vec<&str> = ours.iter().map(|(name, _)| *name).filter(|name| path.join(name).exists()).collect();
        assert_eq!(left, [""; 0]);
        assert!(!path.join(FILE).exists() && !sweep.join(crate::sweeps::FILE).exists());
        assert!(!sweep.join("trial-1/record").exists() && !sweep.join("trial-1/stdout").exists());
        for name in ["trial-1/notes", "trial-mine/thesis.tex", "thesis.tex"] {
            assert!(sweep.join(name).exists(), "{name}");
        }
    }
}
