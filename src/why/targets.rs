//! The processes to read: those of a recording that run, or those that were named, each with its descendants.

use super::process::ProcessInfo;
use anyhow::{Context, Result, bail, ensure};
use cupeer_recordings::{home, kept};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub struct Targets {
    pub processes: Vec<ProcessInfo>,
    /// Directory of the recording that the processes belong to.
    pub record: Option<PathBuf>,
}

/// All processes that this process can see.
struct HostProcesses(Vec<ProcessInfo>);

impl HostProcesses {
    fn read_all() -> HostProcesses {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        HostProcesses(pids.filter_map(ProcessInfo::read).collect())
    }

    /// Returns the processes for which `is_root` is true and their descendants, without cupeer's own processes.
    fn with_descendants(&self, is_root: impl Fn(&ProcessInfo) -> bool) -> Vec<ProcessInfo> {
        let mut found: Vec<&ProcessInfo> = self.0.iter().filter(|about| is_root(about)).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|about| about.pid) {
            next += 1;
            let is_new =
                |about: &&ProcessInfo| about.parent == parent && found.iter().all(|known| known.pid != about.pid);
            let children: Vec<&ProcessInfo> = self.0.iter().filter(is_new).collect();
            found.extend(children);
        }
        let own = std::process::id();
        let is_ours = |about: &&ProcessInfo| about.pid == own || is_launcher(about.pid);
        let mut kept: Vec<ProcessInfo> =
            found.iter().filter(|about| !is_ours(about)).map(|about| (*about).clone()).collect();
        kept.sort_by_key(|about| about.pid);
        kept
    }

    /// Returns the processes that record to a directory.
    fn recording_to(&self, directory: &Path) -> Vec<ProcessInfo> {
        let Some(key) = file_id(directory) else { return Vec::new() };
        self.with_descendants(|about| about.out.as_deref().and_then(self::file_id) == Some(key))
    }
}

/// Returns the device and inode of a directory, which are equal for all of its paths.
fn file_id(directory: &Path) -> Option<(u64, u64)> {
    fs::metadata(directory).ok().map(|about| (about.dev(), about.ino()))
}

/// Returns true if a process is a launcher of cupeer, which waits for the processes of interest.
fn is_launcher(pid: u32) -> bool {
    let own = file_id(Path::new("/proc/self/exe"));
    own.is_some() && file_id(Path::new(&format!("/proc/{pid}/exe"))) == own
}

/// Returns the processes with these pids, without cupeer's own processes.
pub fn of_pids(pids: &[u32], record: Option<PathBuf>) -> Targets {
    let known = pids.iter().filter(|pid| !is_launcher(**pid)).filter_map(|pid| ProcessInfo::read(*pid));
    Targets { processes: known.collect(), record }
}

/// Returns the processes that record to a directory.
pub fn of_record(directory: &Path) -> Targets {
    Targets { processes: HostProcesses::read_all().recording_to(directory), record: Some(directory.to_owned()) }
}

/// Returns the processes that the command line selects: by a recording, by pids or, without arguments, those of the
/// newest recording that has running processes.
pub fn find_targets(words: &[String]) -> Result<Targets> {
    let host = HostProcesses::read_all();
    match words {
        [] => newest_running(&host),
        [word] if !is_process(&host, word) => {
            let number = word.parse::<u32>().is_ok();
            let path = match home::find_recording(Path::new(word)) {
                Err(_) if number => bail!("there is no process {word}, and no recording of that number"),
                found => found?,
            };
            ensure!(
                path.is_dir(),
                "'{}' is not a directory that 'cupeer run' records to, nor the pid of a process",
                path.display()
            );
            Ok(Targets { processes: host.recording_to(&path), record: Some(path) })
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

fn is_process(host: &HostProcesses, word: &str) -> bool {
    word.parse().is_ok_and(|pid: u32| host.0.iter().any(|about| about.pid == pid))
}

fn newest_running(host: &HostProcesses) -> Result<Targets> {
    let home = home::default_directory()?;
    let mut records = kept::entries(&home).into_iter().map(|entry| entry.path);
    let found = records.find_map(|path| {
        let processes = host.recording_to(&path);
        (!processes.is_empty()).then_some(Targets { processes, record: Some(path) })
    });
    let none = || format!("no recording in {} has a process that runs; name a recording, or pids", home.display());
    found.with_context(none)
}
