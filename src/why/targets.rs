//! The processes to read: those of a recording that run, or those that were named, each with its descendants.

use super::process::About;
use anyhow::{Context, Result, bail, ensure};
use cupeer_recordings::{home, kept};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub struct Targets {
    pub processes: Vec<About>,
    /// Directory of the recording that the processes belong to.
    pub record: Option<PathBuf>,
}

/// All processes that this process can see.
struct Host(Vec<About>);

impl Host {
    fn look() -> Host {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Host(pids.filter_map(About::read).collect())
    }

    /// Returns the processes for which `is_root` is true and their descendants, without cupeer's own processes.
    fn with_descendants(&self, is_root: impl Fn(&About) -> bool) -> Vec<About> {
        let mut found: Vec<&About> = self.0.iter().filter(|about| is_root(about)).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|about| about.pid) {
            next += 1;
            let is_new =
                |about: &&About| about.parent == parent && found.iter().all(|known| known.pid != about.pid);
            let children: Vec<&About> = self.0.iter().filter(is_new).collect();
            found.extend(children);
        }
        let own = std::process::id();
        let is_ours = |about: &&About| about.pid == own || is_launcher(about.pid);
        let mut kept: Vec<About> =
            found.iter().filter(|about| !is_ours(about)).map(|about| (*about).clone()).collect();
        kept.sort_by_key(|about| about.pid);
        kept
    }

    /// Returns the processes that record to a directory.
    fn of_record(&self, directory: &Path) -> Vec<About> {
        let Some(key) = key(directory) else { return Vec::new() };
        self.with_descendants(|about| about.out.as_deref().and_then(self::key) == Some(key))
    }
}

/// Returns the device and inode of a directory, which are equal for all of its paths.
fn key(directory: &Path) -> Option<(u64, u64)> {
    fs::metadata(directory).ok().map(|about| (about.dev(), about.ino()))
}

/// Returns true if a process is a launcher of cupeer, which waits for the processes of interest.
fn is_launcher(pid: u32) -> bool {
    let own = key(Path::new("/proc/self/exe"));
    own.is_some() && key(Path::new(&format!("/proc/{pid}/exe"))) == own
}

/// Returns the processes with these pids, without cupeer's own processes.
pub fn of(pids: &[u32], record: Option<PathBuf>) -> Targets {
    let known = pids.iter().filter(|pid| !is_launcher(**pid)).filter_map(|pid| About::read(*pid));
    Targets { processes: known.collect(), record }
}

/// Returns the processes that record to a directory.
pub fn of_record(directory: &Path) -> Targets {
    Targets { processes: Host::look().of_record(directory), record: Some(directory.to_owned()) }
}

/// Returns the processes that the command line selects: by a recording, by pids or, without arguments, those of the
/// newest recording that has running processes.
pub fn find(words: &[String]) -> Result<Targets> {
    let host = Host::look();
    match words {
        [] => newest(&host),
        [word] if !is_process(&host, word) => {
            let number = word.parse::<u32>().is_ok();
            let path = match home::find(Path::new(word)) {
                Err(_) if number => bail!("there is no process {word}, and no recording of that number"),
                found => found?,
            };
            ensure!(
                path.is_dir(),
                "'{}' is not a directory that 'cupeer run' records to, nor the pid of a process",
                path.display()
            );
            Ok(Targets { processes: host.of_record(&path), record: Some(path) })
        }
        pids => {
            let mut wanted = Vec::new();
            for word in pids {
                ensure!(word.parse::<u32>().is_ok(), "name one recording, or pids: '{word}' is not a pid");
                ensure!(is_process(&host, word), "there is no process {word}");
                wanted.extend(word.parse::<u32>());
            }
            let processes = host.with_descendants(|about| wanted.contains(&about.pid));
            let record = processes.iter().find_map(|about| about.out.clone()).filter(|out| out.is_dir());
            Ok(Targets { processes, record })
        }
    }
}

fn is_process(host: &Host, word: &str) -> bool {
    word.parse().is_ok_and(|pid: u32| host.0.iter().any(|about| about.pid == pid))
}

fn newest(host: &Host) -> Result<Targets> {
    let home = home::path()?;
    let mut records = kept::entries(&home).into_iter().map(|entry| entry.path);
    let found = records.find_map(|path| {
        let processes = host.of_record(&path);
        (!processes.is_empty()).then_some(Targets { processes, record: Some(path) })
    });
    let none =
        || format!("no recording in {} has a process that runs; name a recording, or pids", home.display());
    found.with_context(none)
}
