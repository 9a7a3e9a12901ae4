//! Watches the program's processes from outside while they run: which use a driver without our library, and which do
//! not pass the environment on.
//!
//! It costs the program only what the kernel does to answer from /proc. Looks become rare, until somebody opens the driver
//! (`opens`). A process that ends before the look after that is missed, so nothing here is more than a note at the end.

use super::ends::Ends;
use super::opens::{DriverOpens, Woken};
use cupeer_console::variables::LD_PRELOAD;
use cupeer_launch::libraries;
use cupeer_launch::program::MUSL;
use cupeer_record::clock::monotonic;
use cupeer_record::host;
use cupeer_spec::function::Library;
use cupeer_spec::launchers::{LAUNCHERS, Launcher, Notation};
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::Span;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First pause between two looks, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Divisor: looks take at most a twentieth of the time.
const SHARE: u32 = 20;
/// Beginnings of the C library's file name in all versions of glibc.
const LIBC: [&str; 2] = ["/libc.so.6", "/libc-2."];
/// Reason why the preload library is not in a process: the end of a sentence.
const LOST: &str = "because its environment has lost cupeer's LD_PRELOAD";
/// Maximum number of processes that are named; further ones are only counted.
const MOST_NAMED: usize = 5;

/// A program that may not pass the environment on, and the value of `cupeer env --format` for it.
pub type Crossing = (&'static str, &'static str);

/// Returns all crossings in the order of their notes. Shells are last, because they often only start a launcher.
fn crossings() -> impl Iterator<Item = Crossing> {
    let is_shell =
        |launcher: &Launcher| launcher.format.is_some_and(|format| format.notation == Notation::Exports);
    let launchers = [false, true]
        .into_iter()
        .flat_map(move |shells| LAUNCHERS.iter().filter(move |launcher| is_shell(launcher) == shells));
    launchers.flat_map(|launcher| {
        let format = launcher.format.map_or("sh", |format| format.name);
        launcher.barriers.iter().map(move |name| (*name, format))
    })
}

pub fn crossing(name: &str) -> Option<Crossing> {
    crossings().find(|(known, _)| *known == name)
}

/// Returns the advice for a crossing.
pub fn hint((name, format): Crossing) -> String {
    format!("for what {name} starts, 'cupeer env --format {format}' prints the environment")
}

/// Returns a sentence about a crossing, for a run in which no process reached the driver.
pub fn note(crossing: Crossing) -> String {
    let (name, hint) = (crossing.0, hint(crossing));
    format!("no process reached the driver under cupeer, and the environment may not cross {name}; {hint}")
}

#[derive(Default)]
pub struct Sightings {
    /// Sentences about processes that used a driver without the preload library.
    pub bypassed: Vec<String>,
    /// Names and drivers of such processes, for the recording: those that have a name there.
    pub bypasses: Vec<(String, PathBuf)>,
    pub crossings: Vec<Crossing>,
    /// Sentences about processes that had loaded both a driver and the preload library; relevant only if no process
    /// reached the driver.
    pub loaded: Vec<String>,
    /// Spans of time in which descendants ended: from the last time at which each was seen running.
    pub ends: BTreeMap<(libc::pid_t, u64), Span>,
    /// Sentences about processes that lost the preload library and did not use a driver while they were watched.
    pub lost: Vec<String>,
}

pub struct Watch {
    /// Dropping this end of the pipe stops the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<Watcher>>,
}

impl Watch {
    /// Starts a thread that watches a process and its descendants. `driver` is the driver that was chosen for them.
    pub fn start(pid: libc::pid_t, driver: Option<PathBuf>) -> Watch {
        let mut look = Watcher { driver, ..Watcher::default() };
        let started = io::pipe().and_then(|(stopped, stop)| {
            let work = move || {
                look.look_until(&stopped, pid);
                look
            };
            Ok((stop, std::thread::Builder::new().name("cupeer-watch".into()).spawn(work)?))
        });
        if let Err(error) = &started {
            tracing::debug!("not watching the program's processes: {error}");
        }
        let (stop, thread) = started.ok().unzip();
        Watch { stop, thread }
    }

    pub fn stop(mut self) -> Sightings {
        drop(self.stop.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default().seen()
    }
}

#[derive(Default)]
struct Watcher {
    driver: Option<PathBuf>,
    bypassed: BTreeMap<u32, (String, Option<(String, PathBuf)>)>,
    loaded: BTreeMap<u32, String>,
    /// Processes without the preload library: a sentence, and the number of looks that found it so, because a process that
    /// is ending shows only a part of its memory.
    lost: BTreeMap<u32, (String, u32)>,
    crossings: HashSet<Crossing>,
    ends: BTreeMap<(libc::pid_t, u64), Span>,
    /// Descendants whose ends wake the thread.
    followed: Ends,
}

impl Watcher {
    fn seen(self) -> Sightings {
        let more = self.bypassed.len().saturating_sub(MOST_NAMED);
        let (mut bypassed, bypasses): (Vec<String>, Vec<_>) =
            self.bypassed.into_values().take(MOST_NAMED).unzip();
        let bypasses = bypasses.into_iter().flatten().collect();
        if more > 0 {
            bypassed.push(format!("{more} more processes used a driver without {}", libraries::PRELOAD));
        }
        let crossings = crossings().filter(|crossing| self.crossings.contains(crossing)).collect();
        let lost = self.lost.into_values().filter(|(_, times)| *times > 1).map(|(sentence, _)| sentence);
        let lost = lost.take(MOST_NAMED).collect();
        let loaded = self.loaded.into_values().take(MOST_NAMED).collect();
        Sightings { bypassed, bypasses, crossings, loaded, ends: self.ends, lost }
    }

    /// Looks at a process and its descendants until the pipe is closed.
    fn look_until(&mut self, stopped: &PipeReader, root: libc::pid_t) {
        let opens = DriverOpens::of(self.driver.as_deref());
        let (mut pause, mut least) = (PAUSES.0, Duration::ZERO);
        let mut due = Instant::now() + pause;
        loop {
            self.note_ends();
            match opens.wait(stopped, &self.followed, due.saturating_duration_since(Instant::now())) {
                Woken::Stopped => return self.note_ends(),
                Woken::Ended => continue,
                Woken::Timeout => pause = (pause * 3 / 2).min(PAUSES.1),
                Woken::Opened => {
                    // The process that opened the driver maps it in a moment.
                    pause = PAUSES.0;
                    if DriverOpens::none().wait(stopped, &Ends::default(), pause.max(least)) == Woken::Stopped
                    {
                        return self.note_ends();
                    }
                }
            }
            let start = Instant::now();
            self.look_once(root);
            least = start.elapsed() * SHARE;
            due = Instant::now() + pause.max(least);
        }
    }

    fn note_ends(&mut self) {
        for (process, seen) in self.followed.take() {
            let span = self.ends.entry(process).or_default();
            *span = span.and(seen);
        }
    }

    fn look_once(&mut self, root: libc::pid_t) {
        let start = monotonic();
        let found = descendants(root as u32);
        for pid in &found {
            // The first thread of a process may end before the other threads.
            let stat = Stat::parse(&std::fs::read(StatPath(pid).to_string()).unwrap_or_default());
            if let Some(stat) = stat.filter(|stat| !stat.is_ending || stat.threads > 1) {
                let process = (*pid as libc::pid_t, stat.started);
                if self.ends.insert(process, Span { after: start, before: 0 }).is_none() {
                    self.followed.follow(process);
                }
            }
        }
        let now = monotonic();
        let ended = self.ends.values_mut().filter(|span| span.before == 0 && span.after < start);
        ended.for_each(|span| span.before = now);
        found.into_iter().for_each(|pid| self.look_at_process(pid));
    }

    fn look_at_process(&mut self, pid: u32) {
        let comm = comm(pid);
        self.crossings.extend(crossing(&comm));
        if self.bypassed.contains_key(&pid) {
            return;
        }
        let Ok(maps) = std::fs::read(format!("/proc/{pid}/maps")) else { return };
        let (driver, is_ours) = mapped(&maps, self.driver.as_deref());
        match (&driver, is_ours) {
            (Some(driver), true) => {
                self.loaded.entry(pid).or_insert_with(|| {
                    let driver = driver.display();
                    let sentence = format!(
                        "process {pid} ({comm}) loaded {driver}, but cupeer saw no call that it records"
                    );
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
            let (driver_again, is_ours) = mapped(&again, self.driver.as_deref());
            if environment.is_empty() || driver_again.is_none() || is_ours {
                return;
            }
            let why = if names_preload(&environment) { "although LD_PRELOAD names it there" } else { LOST };
            let library = libraries::PRELOAD;
            // The process may have executed this program after its name was read.
            let comm = self::comm(pid);
            let sentence =
                format!("process {pid} ({comm}) loaded {} without {library}, {why}", driver.display());
            tracing::debug!("{sentence}");
            self.bypassed.insert(pid, (sentence, proc_of(pid).map(|process| (process, driver))));
        }
    }

    /// Notes a process that has loaded neither the driver nor the preload library.
    fn note_without_libraries(&mut self, pid: u32, comm: &str, maps: &[u8]) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let maps = String::from_utf8_lossy(maps);
        let is_musl = maps.contains(MUSL);
        // A process that is just executing another program has no environment yet. If the C library is loaded, the dynamic
        // loader has already handled LD_PRELOAD.
        let is_loaded = LIBC.iter().any(|libc| maps.contains(libc));
        if !is_musl && (names_preload(&environment) || !is_loaded) {
            return;
        }
        let why = if is_musl { "because musl's loader cannot load it" } else { LOST };
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
pub fn proc_of(pid: u32) -> Option<String> {
    let started = Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?.started;
    Some(format!("{}-{}-{pid}-{started}", host::short(host::boot_id()?), host::pid_ns()?))
}

pub fn comm(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the driver that a process has mapped, and true if it has mapped the preload library.
fn mapped(maps: &[u8], chosen: Option<&Path>) -> (Option<PathBuf>, bool) {
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
fn names_preload(environment: &[u8]) -> bool {
    let variables = environment.split(|byte| *byte == 0);
    let values = variables.filter_map(|entry| entry.strip_prefix(LD_PRELOAD.as_bytes())?.strip_prefix(b"="));
    let is_ours = |path: &Path| path.file_name().is_some_and(|name| name == libraries::PRELOAD);
    values.map(OsStr::from_bytes).flat_map(libraries::preloaded).any(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_our_library_is_found() {
        let with = b"1-2 r-xp 0 0:0 1 /x/libcupeer.so\n1-2 r-xp 0 0:0 2 /x/libcuda.so.580.1\n";
        let without =
            b"1-2 r-xp 0 0:0 0 \n1-2 r-xp 0 0:0 2 /x y/libcuda.so.580.1\n1-2 r-xp 0 0:0 3 /x/libc.so.6\n";
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(mapped(with, None), (path("/x/libcuda.so.580.1"), true));
        assert_eq!(mapped(without, None), (path("/x y/libcuda.so.580.1"), false));
        assert_eq!(mapped(b"1-2 r-xp 0 0:0 3 /x/libc.so.6\n", None), (None, false));
        let own = mapped(b"1-2 r-xp 0 0:0 3 /x/own.so\n", Some(Path::new("/x/own.so")));
        assert_eq!(own, (path("/x/own.so"), false));
    }

    #[test]
    fn the_environment_tells_whether_the_preload_was_lost() {
        assert!(names_preload(b"A=1\0LD_PRELOAD=/a.so:/x/libcupeer.so\0"));
        assert!(!names_preload(b"LD_PRELOAD=/a.so\0LD_PRELOADS=/x/libcupeer.so\0"));
    }
}
