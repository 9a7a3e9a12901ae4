//! Watches the program's processes from outside while they run: which use a driver without our library, and which do
//! not pass the environment on.
//!
//! It costs the program only what the kernel does to answer from /proc. What lives for less than the time between two
//! looks is missed, so nothing here is more than a note at the end.

use super::program::MUSL;
use crate::start::libraries;
use crate::start::variables::LD_PRELOAD;
use cupeer_spec::function::Library;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The first pause between two looks, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// A look takes at most this fraction of the time.
const SHARE: u32 = 20;
/// How the C library's file is called: also before glibc 2.34.
const LIBC: [&str; 2] = ["/libc.so.6", "/libc-2."];
/// Why our library is not in a process.
const LOST: &str = "because its environment has lost cupeer's LD_PRELOAD";
/// How many processes are named; more are counted.
const MOST_NAMED: usize = 5;

/// A program beyond which the environment is another, and the `--format` of `cupeer env` that serves it.
pub type Crossing = (&'static str, &'static str);

static CROSSINGS: &[(&str, &[&str])] = &[
    ("docker", &["docker", "podman", "nerdctl"]),
    ("k8s", &["kubectl"]),
    ("mpirun", &["mpirun", "mpiexec", "orterun", "prterun"]),
    ("srun", &["srun", "sbatch"]),
    ("ray", &["ray", "raylet"]),
    ("sh", &["ssh", "sudo", "su", "doas"]),
];

/// In the order in which they are spoken of.
fn crossings() -> impl Iterator<Item = Crossing> {
    CROSSINGS.iter().flat_map(|(format, names)| names.iter().map(|name| (*name, *format)))
}

pub fn crossing(name: &str) -> Option<Crossing> {
    crossings().find(|(known, _)| *known == name)
}

/// What helps.
pub fn hint((name, format): Crossing) -> String {
    format!("for what {name} starts, 'cupeer env --format {format}' prints the environment")
}

/// What to say where no process reached the driver.
pub fn note(crossing: Crossing) -> String {
    let (name, hint) = (crossing.0, hint(crossing));
    format!("no process reached the driver under cupeer, and the environment may not cross {name}; {hint}")
}

#[derive(Default)]
pub struct Sightings {
    /// Processes that used a driver without our library, a sentence each.
    pub bypassed: Vec<String>,
    pub crossings: Vec<Crossing>,
    /// Processes that had a driver and our library, a sentence each: something where none of them met the other.
    pub loaded: Vec<String>,
    /// Processes that lost our library without using a driver as long as they were looked at, a sentence each.
    pub lost: Vec<String>,
}

pub struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<Look>>,
}

impl Watch {
    /// Begins to look at a process and its descendants. `driver` is the driver that was chosen for them.
    pub fn start(pid: libc::pid_t, driver: Option<PathBuf>) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let mut look = Look { driver, ..Look::default() };
        let thread = std::thread::Builder::new().name("cupeer-watch".into()).spawn(move || {
            let mut pause = PAUSES.0;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let start = Instant::now();
                look.at(pid);
                pause = (pause * 3 / 2).min(PAUSES.1).max(start.elapsed() * SHARE);
            }
            look
        });
        if let Err(error) = &thread {
            tracing::debug!("not watching the program's processes: {error}");
        }
        Watch { stop, thread: thread.ok() }
    }

    pub fn stop(mut self) -> Sightings {
        // Fails only where the thread is gone already.
        let _ = self.stop.send(());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default().seen()
    }
}

#[derive(Default)]
struct Look {
    driver: Option<PathBuf>,
    bypassed: BTreeMap<u32, String>,
    loaded: BTreeMap<u32, String>,
    /// With how often each was seen so: one that is ending shows a part of its memory.
    lost: BTreeMap<u32, (String, u32)>,
    crossings: HashSet<Crossing>,
}

impl Look {
    fn seen(self) -> Sightings {
        let more = self.bypassed.len().saturating_sub(MOST_NAMED);
        let mut bypassed: Vec<String> = self.bypassed.into_values().take(MOST_NAMED).collect();
        if more > 0 {
            bypassed.push(format!("{more} more processes used a driver without {}", libraries::PRELOAD));
        }
        let crossings = crossings().filter(|crossing| self.crossings.contains(crossing)).collect();
        let lost = self.lost.into_values().filter(|(_, times)| *times > 1).map(|(sentence, _)| sentence);
        let lost = lost.take(MOST_NAMED).collect();
        let loaded = self.loaded.into_values().take(MOST_NAMED).collect();
        Sightings { bypassed, crossings, loaded, lost }
    }

    fn at(&mut self, root: libc::pid_t) {
        descendants(root as u32).into_iter().for_each(|pid| self.process(pid));
    }

    fn process(&mut self, pid: u32) {
        let comm = comm(pid);
        self.crossings.extend(crossing(&comm));
        if self.bypassed.contains_key(&pid) {
            return;
        }
        let Ok(maps) = std::fs::read(format!("/proc/{pid}/maps")) else { return };
        let (driver, is_ours) = mapped(&maps, self.driver.as_deref());
        match (&driver, is_ours) {
            (Some(driver), true) => {
                let driver = driver.display();
                let sentence =
                    format!("process {pid} ({comm}) loaded {driver}, but cupeer saw no call that it records");
                self.loaded.entry(pid).or_insert(sentence);
            }
            (None, false) if !maps.is_empty() => self.without(pid, &comm, &maps),
            _ => {}
        }
        if let Some(driver) = driver.filter(|_| !is_ours) {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            // A process that is ending shows a part of its memory, and no environment.
            let again = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let (driver_again, is_ours) = mapped(&again, self.driver.as_deref());
            if environment.is_empty() || driver_again.is_none() || is_ours {
                return;
            }
            let why = if names_preload(&environment) { "although LD_PRELOAD names it there" } else { LOST };
            let library = libraries::PRELOAD;
            // It may have become this program only after it was asked for its name.
            let (comm, driver) = (self::comm(pid), driver.display());
            let sentence = format!("process {pid} ({comm}) loaded {driver} without {library}, {why}");
            tracing::debug!("{sentence}");
            self.bypassed.insert(pid, sentence);
        }
    }

    /// A process with neither library.
    fn without(&mut self, pid: u32, comm: &str, maps: &[u8]) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let maps = String::from_utf8_lossy(maps);
        let is_musl = maps.contains(MUSL);
        // One that is just becoming another program has no environment yet. Where the C library is there, the loader has
        // passed what it preloads.
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

/// A process and its descendants.
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

fn comm(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The driver that a process has mapped, and whether it has mapped our library.
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

/// Whether an environment still has our library in LD_PRELOAD.
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
