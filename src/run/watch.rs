//! Watches the program's processes from outside while they run: which use a driver without our library, and which do
//! not pass the environment on.
//!
//! It costs the program only what the kernel does to answer from /proc. Looks become rare, until somebody opens the driver
//! (`opens`). A process that ends before the look after that is missed, so nothing here is more than a note at the end.

use super::ends::EndWatcher;
use super::opens::{DriverOpenWatch, WakeReason};
use cupeer_console::variables::LD_PRELOAD;
use cupeer_launch::libraries;
use cupeer_launch::program::MUSL;
use cupeer_record::clock::monotonic_now;
use cupeer_record::host;
use cupeer_spec::function::Library;
use cupeer_spec::launchers::{LAUNCHERS, Launcher, VariableNotation};
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::EndSpan;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First and longest pause between two examinations of the processes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Divisor: searching for and examining processes takes at most a twentieth of the time.
const LOOKING_DIVISOR: u32 = 20;
/// Beginnings of the C library's file name in all versions of glibc.
const LIBC_PREFIXES: [&str; 2] = ["/libc.so.6", "/libc-2."];
/// Reason why the preload library is not in a process: the end of a sentence.
const LOST_REASON: &str = "because its environment has lost cupeer's LD_PRELOAD";
/// Maximum number of processes that are named; further ones are only counted.
const MOST_NAMED: usize = 5;

/// A program that may not pass the environment on, and the value of `cupeer env --format` for it.
pub type EnvironmentBarrier = (&'static str, &'static str);

/// Returns all crossings in the order of their notes. Shells are last, because they often only start a launcher.
fn all_barriers() -> impl Iterator<Item = EnvironmentBarrier> {
    let is_shell =
        |launcher: &Launcher| launcher.format.is_some_and(|format| format.notation == VariableNotation::Exports);
    let launchers = [false, true]
        .into_iter()
        .flat_map(move |shells| LAUNCHERS.iter().filter(move |launcher| is_shell(launcher) == shells));
    launchers.flat_map(|launcher| {
        let format = launcher.format.map_or("sh", |format| format.name);
        launcher.barriers.iter().map(move |name| (*name, format))
    })
}

pub fn find_barrier(name: &str) -> Option<EnvironmentBarrier> {
    all_barriers().find(|(known, _)| *known == name)
}

/// Returns the advice for a crossing.
pub fn barrier_hint((name, format): EnvironmentBarrier) -> String {
    format!("for what {name} starts, 'cupeer env --format {format}' prints the environment")
}

/// Returns a sentence about a crossing, for a run in which no process reached the driver.
pub fn barrier_note(crossing: EnvironmentBarrier) -> String {
    let (name, hint) = (crossing.0, barrier_hint(crossing));
    format!("no process reached the driver under cupeer, and the environment may not cross {name}; {hint}")
}

#[derive(Default)]
pub struct Observations {
    /// Sentences about processes that used a driver without the preload library.
    pub bypassed: Vec<String>,
    /// Names and drivers of such processes, for the recording: those that have a name there.
    pub bypasses: Vec<(String, PathBuf)>,
    pub crossings: Vec<EnvironmentBarrier>,
    /// Sentences about processes that had loaded both a driver and the preload library; relevant only if no process
    /// reached the driver.
    pub loaded: Vec<String>,
    /// Spans of time in which descendants ended: from the last time at which each was seen running.
    pub ends: BTreeMap<(libc::pid_t, u64), EndSpan>,
    /// Sentences about processes that lost the preload library and did not use a driver while they were watched.
    pub lost: Vec<String>,
}

pub struct ProcessWatch {
    /// Dropping this end of the pipe stops the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<ProcessWatcher>>,
}

impl ProcessWatch {
    /// Starts a thread that watches a process and its descendants. `driver` is the driver that was chosen for them.
    pub fn start(pid: libc::pid_t, driver: Option<PathBuf>) -> ProcessWatch {
        let mut look = ProcessWatcher { driver, ..ProcessWatcher::default() };
        let started = io::pipe().and_then(|(stopped, stop)| {
            let work = move || {
                look.watch_until_closed(&stopped, pid);
                look
            };
            Ok((stop, std::thread::Builder::new().name("cupeer-watch".into()).spawn(work)?))
        });
        if let Err(error) = &started {
            tracing::debug!("not watching the program's processes: {error}");
        }
        let (stop, thread) = started.ok().unzip();
        ProcessWatch { stop, thread }
    }

    pub fn stop(mut self) -> Observations {
        drop(self.stop.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default().into_observations()
    }
}

#[derive(Default)]
struct ProcessWatcher {
    driver: Option<PathBuf>,
    bypassed: BTreeMap<u32, (String, Option<(String, PathBuf)>)>,
    loaded: BTreeMap<u32, String>,
    /// Processes without the preload library: a sentence about each, and the number of times that it was found so,
    /// because a process that is ending shows only a part of its memory.
    lost: BTreeMap<u32, (String, u32)>,
    crossings: HashSet<EnvironmentBarrier>,
    ends: BTreeMap<(libc::pid_t, u64), EndSpan>,
    /// Descendants whose ends wake the thread.
    followed: EndWatcher,
}

impl ProcessWatcher {
    fn into_observations(self) -> Observations {
        let more = self.bypassed.len().saturating_sub(MOST_NAMED);
        let (mut bypassed, bypasses): (Vec<String>, Vec<_>) = self.bypassed.into_values().take(MOST_NAMED).unzip();
        let bypasses = bypasses.into_iter().flatten().collect();
        if more > 0 {
            bypassed.push(format!("{more} more processes used a driver without {}", libraries::PRELOAD));
        }
        let crossings = all_barriers().filter(|crossing| self.crossings.contains(crossing)).collect();
        let lost = self.lost.into_values().filter(|(_, times)| *times > 1).map(|(sentence, _)| sentence);
        let lost = lost.take(MOST_NAMED).collect();
        let loaded = self.loaded.into_values().take(MOST_NAMED).collect();
        Observations { bypassed, bypasses, crossings, loaded, ends: self.ends, lost }
    }

    /// Looks at a process and its descendants until the pipe is closed.
    fn watch_until_closed(&mut self, stopped: &PipeReader, root: libc::pid_t) {
        let opens = DriverOpenWatch::watch(self.driver.as_deref());
        let (mut pause, mut least) = (PAUSES.0, Duration::ZERO);
        let mut due = Instant::now() + pause;
        loop {
            self.collect_ends();
            match opens.wait_for_event(stopped, &self.followed, due.saturating_duration_since(Instant::now())) {
                WakeReason::Stopped => return self.collect_ends(),
                WakeReason::Ended => continue,
                WakeReason::Timeout => pause = (pause * 3 / 2).min(PAUSES.1),
                WakeReason::Opened => {
                    // The process that opened the driver maps it in a moment.
                    pause = PAUSES.0;
                    if DriverOpenWatch::disabled().wait_for_event(stopped, &EndWatcher::default(), pause.max(least))
                        == WakeReason::Stopped
                    {
                        return self.collect_ends();
                    }
                }
            }
            let start = Instant::now();
            self.examine_processes(root);
            least = start.elapsed() * LOOKING_DIVISOR;
            due = Instant::now() + pause.max(least);
        }
    }

    fn collect_ends(&mut self) {
        for (process, seen) in self.followed.take_ended() {
            let span = self.ends.entry(process).or_default();
            *span = span.combine(seen);
        }
    }

    fn examine_processes(&mut self, root: libc::pid_t) {
        let start = monotonic_now();
        let found = descendants(root as u32);
        for pid in &found {
            // The first thread of a process may end before the other threads.
            let stat = Stat::parse(&std::fs::read(StatPath(pid).to_string()).unwrap_or_default());
            if let Some(stat) = stat.filter(|stat| !stat.is_ending || stat.threads > 1) {
                let process = (*pid as libc::pid_t, stat.started);
                if self.ends.insert(process, EndSpan { after: start, before: 0 }).is_none() {
                    self.followed.follow_process(process);
                }
            }
        }
        let now = monotonic_now();
        let ended = self.ends.values_mut().filter(|span| span.before == 0 && span.after < start);
        ended.for_each(|span| span.before = now);
        found.into_iter().for_each(|pid| self.examine_process(pid));
    }

    fn examine_process(&mut self, pid: u32) {
        let comm = process_name(pid);
        self.crossings.extend(find_barrier(&comm));
        if self.bypassed.contains_key(&pid) {
            return;
        }
        let Ok(maps) = std::fs::read(format!("/proc/{pid}/maps")) else { return };
        let (driver, is_ours) = find_mapped_libraries(&maps, self.driver.as_deref());
        match (&driver, is_ours) {
            (Some(driver), true) => {
                self.loaded.entry(pid).or_insert_with(|| {
                    let driver = driver.display();
                    let sentence =
                        format!("process {pid} ({comm}) loaded {driver}, but cupeer saw no call that it records");
                    tracing::debug!("if no process reaches the driver: {sentence}");
                    sentence
                });
            }
            (None, false) if !maps.is_empty() => self.note_without_libraries(pid, &comm, &maps),
            _ => {}
        }
        if let Some(driver) = driver.filter(|_| !is_ours) {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            // A process that is ending shows only a part of its memory, and no environment.
            let again = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let (driver_again, is_ours) = find_mapped_libraries(&again, self.driver.as_deref());
            if environment.is_empty() || driver_again.is_none() || is_ours {
                return;
            }
            let why =
                if has_preload_library(&environment) { "although LD_PRELOAD names it there" } else { LOST_REASON };
            let library = libraries::PRELOAD;
            // The process may have executed this program after its name was read.
            let comm = self::process_name(pid);
            let sentence = format!("process {pid} ({comm}) loaded {} without {library}, {why}", driver.display());
            tracing::debug!("{sentence}");
            self.bypassed.insert(pid, (sentence, recording_name(pid).map(|process| (process, driver))));
        }
    }

    /// Notes a process that has loaded neither the driver nor the preload library.
    fn note_without_libraries(&mut self, pid: u32, comm: &str, maps: &[u8]) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let maps = String::from_utf8_lossy(maps);
        let is_musl = maps.contains(MUSL);
        // A process that is just executing another program has no environment yet. If the C library is loaded, the dynamic
        // loader has already handled LD_PRELOAD.
        let is_loaded = LIBC_PREFIXES.iter().any(|libc| maps.contains(libc));
        if !is_musl && (has_preload_library(&environment) || !is_loaded) {
            return;
        }
        let why = if is_musl { "because musl's loader cannot load it" } else { LOST_REASON };
        let sentence = format!("process {pid} ({comm}) ran without {}, {why}", libraries::PRELOAD);
        let entry = self.lost.entry(pid).or_insert((String::new(), 0));
        *entry = (sentence, entry.1 + 1);
    }
}

/// Returns the pids of a process and its descendants.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Returns the name of a process in the recordings of this host.
pub fn recording_name(pid: u32) -> Option<String> {
    let started = Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?.started;
    Some(format!("{}-{}-{pid}-{started}", host::short_boot_id(host::boot_id()?), host::pid_ns()?))
}

pub fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the driver that a process has mapped, and true if it has mapped the preload library.
fn find_mapped_libraries(maps: &[u8], chosen: Option<&Path>) -> (Option<PathBuf>, bool) {
    let (mut driver, mut is_ours) = (None, false);
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(start) = line.iter().position(|byte| *byte == b'/') else { continue };
        let path = Path::new(OsStr::from_bytes(&line[start..]));
        let name = path.file_name().unwrap_or_default().as_bytes();
        is_ours |= name.starts_with(libraries::PRELOAD.as_bytes());
        let is_driver = name.starts_with(Library::Cuda.soname().trim_end_matches(".1").as_bytes())
            || name.starts_with(libraries::SIM.as_bytes())
            || chosen == Some(path);
        if is_driver && driver.is_none() {
            driver = Some(path.to_owned());
        }
    }
    (driver, is_ours)
}

/// Returns true if LD_PRELOAD in an environment names the preload library.
fn has_preload_library(environment: &[u8]) -> bool {
    let variables = environment.split(|byte| *byte == 0);
    let values = variables.filter_map(|entry| entry.strip_prefix(LD_PRELOAD.as_bytes())?.strip_prefix(b"="));
    let is_ours = |path: &Path| path.file_name().is_some_and(|name| name == libraries::PRELOAD);
    values.map(OsStr::from_bytes).flat_map(libraries::preload_elements).any(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_our_library_is_found() {
        let with = b"1-2 r-xp 0 0:0 1 /x/libcupeer.so\n1-2 r-xp 0 0:0 2 /x/libcuda.so.580.1\n";
        let without = b"1-2 r-xp 0 0:0 0 \n1-2 r-xp 0 0:0 2 /x y/libcuda.so.580.1\n1-2 r-xp 0 0:0 3 /x/libc.so.6\n";
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(find_mapped_libraries(with, None), (path("/x/libcuda.so.580.1"), true));
        assert_eq!(find_mapped_libraries(without, None), (path("/x y/libcuda.so.580.1"), false));
        assert_eq!(find_mapped_libraries(b"1-2 r-xp 0 0:0 3 /x/libc.so.6\n", None), (None, false));
        let own = find_mapped_libraries(b"1-2 r-xp 0 0:0 3 /x/own.so\n", Some(Path::new("/x/own.so")));
        assert_eq!(own, (path("/x/own.so"), false));
    }

    #[test]
    fn the_environment_tells_whether_the_preload_was_lost() {
        assert!(has_preload_library(b"A=1\0LD_PRELOAD=/a.so:/x/libcupeer.so\0"));
        assert!(!has_preload_library(b"LD_PRELOAD=/a.so\0LD_PRELOADS=/x/libcupeer.so\0"));
    }
}
