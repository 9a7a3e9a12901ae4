//! Follows recordings while they are written: the calls of each process, open handles, and states.
//!
//! The watcher keeps its state between two samples, so a sample reads only new data. It writes, locks, and maps no files.

use crate::{home, kept};
use anyhow::{Result, bail, ensure};
use cupeer_facts::part::read_hangs;
use cupeer_record::quiet::{self, QuietProcess};
use cupeer_record::tail::Counts;
use cupeer_record::{Clock, Device, Error, Follower, LiveTable, Process, alive, host, launcher};
use cupeer_report::model::{Exit, ExitKind};
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::job::{FILE, HANG, HANG_SUFFIX};
use cupeer_spec::record::{Header, SUFFIX, live, mode};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Number of blocks of calls from before the first sample that one refresh of the screen reads: 32 MiB, some milliseconds.
pub const BLOCKS_PER_REFRESH: usize = 256;

/// Number of times that the description of a process is read again for a device that it lacks: some processes never add it.
const MOST_REREADS: u32 = 8;

/// A sample of all followed recordings.
pub struct LiveSample {
    /// Time of the sample, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Time of the sample on the monotonic clock.
    pub at: Instant,
    pub jobs: Vec<JobSample>,
    /// Sentences about missing facts.
    pub unseen: Vec<String>,
}

impl LiveSample {
    /// Returns the names and directories of the recordings.
    pub fn names_and_paths(&self) -> Vec<(String, PathBuf)> {
        self.jobs.iter().map(|job| (job.name.clone(), job.path.clone())).collect()
    }
}

/// A sample of one recording.
#[derive(Default)]
pub struct JobSample {
    pub name: String,
    pub path: PathBuf,
    pub processes: Vec<ProcessSample>,
    /// Entries of this host's live table.
    pub entries: Vec<live::Entry>,
    pub refused: u64,
    /// Begin of the hang that a `cupeer run` of the job noticed, in nanoseconds since 1970; `None` if it does not hang.
    pub hung_since_ns: Option<u64>,
    /// Sentences about missing facts, without the name of the recording.
    pub unseen: Vec<String>,
}

/// A sample of one process.
pub struct ProcessSample {
    pub proc: String,
    pub header: Header,
    pub program: String,
    pub rank: Option<u32>,
    pub devices: Vec<Device>,
    /// Value of the process's CUDA_VISIBLE_DEVICES, if it is set.
    pub visible_devices: Option<String>,
    pub exit: Exit,
    pub counts: Counts,
    /// The counts since the first sample of the process.
    pub recent_counts: Counts,
    /// Number of calls that brought something new: not repetitions of a query or a failure of their thread.
    pub productive_calls: u64,
    pub is_complete: bool,
    /// The calls that have not returned: function, thread, and nanoseconds since the begin of the call, if known.
    pub unreturned: Vec<(String, u32, Option<u64>)>,
    /// Activity of the process when its job was found to hang; `None` if the job does not hang.
    pub hang_activity: Option<String>,
}

/// The recordings to follow.
enum FollowedPlace {
    /// All recordings in the default directory that are in progress.
    Home,
    Named,
}

pub struct Watcher {
    place: FollowedPlace,
    jobs: BTreeMap<PathBuf, FollowedJob>,
}

impl Watcher {
    /// Follows the named recordings or, without names, all recordings in the default directory that are in progress.
    pub fn new(named: &[PathBuf]) -> Result<Watcher> {
        let mut jobs = BTreeMap::new();
        for named in named {
            let path = home::find_recording(named)?;
            ensure!(!path.is_file(), "'{}' is a file; name a directory that 'cupeer run' records to", path.display());
            ensure!(
                !crate::sweeps::is_sweep(&path),
                "'{0}' is a sweep; its runs have records, such as {0}/trial-1 while it is tried",
                path.display()
            );
            let files = RecordingFiles::list(&path).map_err(|error| Error::Unreadable(path.clone(), error))?;
            if !files.is_recording() {
                bail!(Error::NoRecord(path));
            }
            // Each recording is followed once, even if it has several names.
            let key = path.canonicalize().unwrap_or_else(|_| path.clone());
            jobs.entry(key).or_insert_with(|| FollowedJob::new(home::report_argument(&path), path));
        }
        let place = if named.is_empty() { FollowedPlace::Home } else { FollowedPlace::Named };
        Ok(Watcher { place, jobs })
    }

    /// Takes a sample of all recordings. Reads at most `most` blocks of calls from before the first sample.
    pub fn take_sample(&mut self, mut most: usize) -> Result<LiveSample> {
        let mut unseen = Vec::new();
        if let FollowedPlace::Home = self.place {
            let home = home::default_directory()?;
            let found = kept::list_recordings(&home);
            self.jobs.retain(|path, _| found.iter().any(|(_, there)| there == path));
            for (name, path) in found {
                self.jobs.entry(path.clone()).or_insert_with(|| FollowedJob::new(name, path));
            }
        }
        let mut jobs = Vec::new();
        for job in self.jobs.values_mut() {
            let is_named = matches!(self.place, FollowedPlace::Named);
            match job.take_sample(&mut most, is_named) {
                Ok(Some(seen)) => jobs.push(seen),
                Ok(None) => {}
                Err(error) => unseen.push(format!("{} cannot be read: {error}", job.name)),
            }
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(LiveSample { time_ns: since.as_nanos() as u64, at: Instant::now(), jobs, unseen })
    }
}

/// The files of a record.
#[derive(Default)]
struct RecordingFiles {
    processes: Vec<PathBuf>,
    tables: Vec<PathBuf>,
    /// Files that list begun processes.
    begun: Vec<PathBuf>,
    hangs: Vec<PathBuf>,
    /// Directories that cannot be read, and why.
    unreadable: Vec<String>,
    has_job: bool,
}

impl RecordingFiles {
    /// Lists the files in a directory and in its direct subdirectories: the files that the report reads.
    fn list(directory: &Path) -> io::Result<RecordingFiles> {
        let mut files = RecordingFiles::default();
        for path in fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()? {
            if !files.add_file(&path) && path.is_dir() {
                match fs::read_dir(&path) {
                    Ok(inner) => inner.flatten().for_each(|entry| _ = files.add_file(&entry.path())),
                    Err(error) => files.unreadable.push(format!("{} cannot be read: {error}", path.display())),
                }
            }
        }
        files.processes.sort();
        Ok(files)
    }

    fn add_file(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(SUFFIX) && name.len() > SUFFIX.len() && !path.is_dir() {
            self.processes.push(path.to_owned());
        } else if name.starts_with(live::PREFIX) && !path.is_dir() {
            self.tables.push(path.to_owned());
        } else if quiet::is_begun_file(path) {
            self.begun.push(path.to_owned());
        } else if name.starts_with(HANG) && name.ends_with(HANG_SUFFIX) {
            self.hangs.push(path.to_owned());
        } else if name == FILE {
            self.has_job = true;
        } else {
            return false;
        }
        true
    }

    fn is_recording(&self) -> bool {
        self.has_job || !self.processes.is_empty() || !self.tables.is_empty()
    }
}

/// Recording that is followed, with its state between two samples.
struct FollowedJob {
    name: String,
    path: PathBuf,
    processes: BTreeMap<PathBuf, FollowedProcess>,
    /// Time of the directory's last change, if no process of the recording was running at the last sample.
    idle: Option<SystemTime>,
}

/// Process that is followed, with its state between two samples.
struct FollowedProcess {
    process: Process,
    follower: Follower,
    /// True until the second sample of the process.
    is_new: bool,
    /// True if the process has ended, and all of its events were read.
    is_over: bool,
    /// Number of times that the description was read again for missing devices.
    rereads: u32,
}

impl FollowedJob {
    fn new(name: String, path: PathBuf) -> FollowedJob {
        FollowedJob { name, path, processes: BTreeMap::new(), idle: None }
    }

    /// Takes a sample of the recording. Returns `None` if the user did not name the recording and none of its processes is
    /// running.
    fn take_sample(&mut self, most: &mut usize, is_named: bool) -> io::Result<Option<JobSample>> {
        let changed = self.path.metadata()?.modified().ok();
        if !is_named && self.idle.is_some() && self.idle == changed {
            return Ok(None);
        }
        let files = RecordingFiles::list(&self.path)?;
        let mut seen = JobSample { name: self.name.clone(), path: self.path.clone(), ..JobSample::default() };
        self.follow_new_processes(&files, &mut seen);
        let exits = self.read_exits();
        let runs = |exit: &Exit| matches!(exit.kind, ExitKind::Running | ExitKind::Unseen);
        if !is_named && !exits.iter().any(runs) && !self.is_launched() {
            self.idle = changed;
            self.processes.clear();
            return Ok(None);
        }
        self.idle = None;
        let mut behind = 0;
        let mut failed = Vec::new();
        for (followed, exit) in self.processes.values_mut().zip(exits) {
            if !followed.is_over {
                match followed.follower.look(*most) {
                    Ok(read) => *most -= read,
                    Err(error) => failed.push(format!("{}: {error}", followed.process.proc)),
                }
                followed.is_over = !runs(&exit) && followed.follower.unread_blocks() == 0;
            }
            behind += followed.follower.unread_blocks();
            seen.processes.push(followed.process_sample(exit));
        }
        seen.unseen.extend(summarize_problems("record", failed));
        if behind > 0 {
            let sentence = "calls of before are still being read: there may be more, and more failures";
            seen.unseen.push(sentence.into());
        }
        for hang in read_hangs(&files.hangs).iter().filter(|hang| hang.resumed_ns.is_none()) {
            for process in seen.processes.iter_mut().filter(|process| !process.exit.has_ended()) {
                let found = hang.doing.iter().find(|(proc, _)| *proc == process.proc);
                let Some((_, doing)) = found else { continue };
                // The text ends with a duration (" since ..."), which was only true when the hang was noticed.
                process.hang_activity = doing.split(" since ").next().map(str::to_owned);
                let since = seen.hung_since_ns.into_iter().chain([hang.began_ns()]).min();
                seen.hung_since_ns = since;
            }
        }
        add_live_table(&files.tables, &mut seen);
        add_quiet_processes(&files, &mut seen);
        seen.unseen.extend(summarize_problems("folder", files.unreadable));
        self.reread_missing_devices(&seen);
        Ok(Some(seen))
    }

    /// Begins to follow new processes.
    fn follow_new_processes(&mut self, files: &RecordingFiles, seen: &mut JobSample) {
        self.processes.retain(|path, _| files.processes.binary_search(path).is_ok());
        let (boot_id, mut elsewhere, mut problems) = (host::boot_id(), 0, Vec::new());
        for path in &files.processes {
            if let Some(known) = self.processes.get_mut(path) {
                // At the first sample, the process may not have written its description yet.
                if std::mem::take(&mut known.is_new) {
                    known.reread_description();
                }
                continue;
            }
            let opened = Process::open(path).and_then(|process| {
                let follower = Follower::new(&process).map_err(|error| format!("cannot be read: {error}"))?;
                Ok(FollowedProcess { process, follower, is_new: true, is_over: false, rereads: 0 })
            });
            match opened {
                Ok(followed) if Some(followed.process.header.boot_id) != boot_id => elsewhere += 1,
                Ok(followed) => drop(self.processes.insert(path.clone(), followed)),
                Err(error) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    problems.push(format!("{name} {error}"));
                }
            }
        }
        seen.unseen.extend(summarize_problems("record", problems));
        if elsewhere > 0 {
            let processes = format_count(elsewhere, "process", "processes");
            seen.unseen.push(format!("{processes} of other hosts, or of before this one was started"));
        }
    }

    fn read_exits(&self) -> Vec<Exit> {
        let headers: Vec<&Header> = self.processes.values().map(|followed| followed.follower.header()).collect();
        let states = alive::running_states(&headers);
        let exit = |(followed, (alive, is_another)): (&FollowedProcess, (Option<bool>, bool))| {
            // `alive` was read before the end of the process is: a process that was alive then has no end to report.
            let end = if alive == Some(true) { RecordedEnd::Unseen } else { followed.process.end() };
            Exit::of(alive, end, is_another)
        };
        self.processes.values().zip(states).map(exit).collect()
    }

    /// Returns true if a `cupeer run` that records into this directory is in progress, even if no process has called the driver
    /// yet.
    fn is_launched(&self) -> bool {
        let text = crate::job::read_job_file(&self.path.join(FILE)).unwrap_or_default();
        launcher::are_running(&text).contains(&Some(true))
    }

    /// Reads the descriptions of processes with unknown devices again: a process learns about its devices after its recording
    /// begins.
    fn reread_missing_devices(&mut self, seen: &JobSample) {
        let is_known = |uuid: &[u8; 16]| {
            self.processes.values().any(|one| one.process.devices.iter().any(|device| device.uuid == *uuid))
        };
        let unknown = |entry: &&live::Entry| entry.uuid != [0; 16] && !is_known(&entry.uuid);
        let pids: Vec<u32> = seen.entries.iter().filter(unknown).map(|entry| entry.pid).collect();
        for followed in self.processes.values_mut() {
            if pids.contains(&followed.process.header.pid) && followed.rereads < MOST_REREADS {
                followed.rereads += 1;
                followed.reread_description();
            }
        }
    }
}

impl FollowedProcess {
    /// Reads the description of the process again.
    fn reread_description(&mut self) {
        if let Ok(process) = Process::open(&self.process.path) {
            self.process = process;
        }
    }

    fn process_sample(&self, exit: Exit) -> ProcessSample {
        let (process, follower) = (&self.process, &self.follower);
        let here = Clock::clock_and_now(follower.header());
        let age = |start| here.as_ref().map(|(clock, now)| clock.between(start, *now));
        // A process that has ended is not inside any call.
        let runs = matches!(exit.kind, ExitKind::Running | ExitKind::Unseen);
        let calls = follower.unreturned().filter(|_| runs);
        let mut calls: Vec<_> = calls.copied().collect();
        calls.sort_unstable_by_key(|call| (call.start, call.tid));
        let name = |number| process.function_name(number).to_owned();
        ProcessSample {
            proc: process.proc.clone(),
            header: *follower.header(),
            program: process.program().to_owned(),
            rank: process.rank(),
            devices: process.devices.clone(),
            visible_devices: process.variable("CUDA_VISIBLE_DEVICES").map(str::to_owned),
            exit,
            counts: follower.counts(),
            recent_counts: follower.recent_counts(),
            productive_calls: follower.productive_calls(),
            is_complete: follower.is_complete(),
            unreturned: calls.iter().map(|call| (name(call.function), call.tid, age(call.start))).collect(),
            hang_activity: None,
        }
    }
}

/// Adds a sentence about running processes that have no file yet.
fn add_quiet_processes(files: &RecordingFiles, seen: &mut JobSample) {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for path in &files.begun {
        match QuietProcess::read_all(path) {
            Ok(quiet) => all.extend(quiet),
            Err(error) => problems.push(format!("{} {error}", path.display())),
        }
    }
    seen.unseen.extend(summarize_problems("file", problems));
    quiet::drop_recorded(&mut all, files.processes.iter().map(PathBuf::as_path));
    let running = quiet::count_running(&all);
    if running > 0 {
        let processes = format_count(running, "process that has", "processes that have");
        seen.unseen.push(format!("{processes} shared nothing so far"));
    }
}

/// Reads the live table of this host.
fn add_live_table(paths: &[PathBuf], seen: &mut JobSample) {
    let Some(boot_id) = host::boot_id() else {
        seen.unseen.push("which of its live tables is this host's: /proc does not say its boot".into());
        return;
    };
    let (mut others, mut problems) = (0, Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match LiveTable::open(path) {
            Ok(table) if table.boot_id != boot_id => others += 1,
            Ok(table) => {
                problems.extend(table.problem.map(|problem| format!("{name} {problem}")));
                seen.entries.extend(table.entries);
                seen.refused = seen.refused.saturating_add(table.refused);
            }
            Err(problem) => problems.push(format!("{name} {problem}")),
        }
    }
    if others > 0 {
        let tables = format_count(others, "live table", "live tables");
        seen.unseen.push(format!("{tables} of other hosts, or of before this one was started"));
    }
    seen.unseen.extend(problems);
    if seen.refused > 0 {
        let missing = format_count(seen.refused as usize, "export or opening is", "exports and openings are");
        seen.unseen.push(format!("the live table is full: {missing} not in it"));
    }
    let rings = seen.processes.iter().filter(|one| one.header.mode != mode::FULL && !one.is_complete).count();
    if rings > 0 {
        let whose = format_count(rings, "process", "processes");
        seen.unseen.push(format!("calls and failures that the recordings of {whose} no longer have (+)"));
    }
    let lost = seen.processes.iter().map(|one| one.header.lost).fold(0, u64::saturating_add);
    if lost > 0 {
        seen.unseen.push(format!("{} that could not be kept (+)", format_count(lost as usize, "event", "events")));
    }
}

/// Returns a sentence about files that cannot be read: the first problem, and the number of others. `None` if there are none.
fn summarize_problems(what: &str, mut problems: Vec<String>) -> Option<String> {
    let first = (!problems.is_empty()).then(|| problems.swap_remove(0))?;
    Some(match problems.len() {
        0 => first,
        more => format!("{first}; and {more} more {what}s"),
    })
}

fn format_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
