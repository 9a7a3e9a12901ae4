//! A job: the records of all its processes.
//!
//! It lists what a directory contains, and the problems with it. A file that cannot be read is a problem; only a
//! directory without any record is an error.

use crate::alive;
use crate::faults::{self, FaultCounts, FaultFile};
use crate::launcher::ReceivedSignal;
use crate::live::LiveTable;
use crate::plain::{self, SymbolicLinks};
use crate::process::{Clock, Process};
use crate::quiet::{self, QuietProcess};
use crate::sample::{MemorySample, MemorySamples};
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::{Header, SUFFIX, job, live};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Recording of a job: the records of its processes.
#[derive(Clone, Debug)]
pub struct Job {
    /// Directory of the recording.
    pub dir: PathBuf,
    /// Processes of the job, ordered by the names of their files.
    pub processes: Vec<Process>,
    /// Open objects, by host.
    pub tables: Vec<LiveTable>,
    /// Counts of fault plans, by host and plan.
    pub faults: Vec<FaultFile>,
    /// Programs that runs started and that made no call, with how they ended.
    pub started: Vec<StartedProgram>,
    /// Processes that used a driver without libcupeer.so, as runs saw them: the process, and the path of the driver.
    pub bypassed: Vec<(String, String)>,
    /// Commands of the runs in shell syntax, without duplicates.
    pub commands: Vec<String>,
    /// Processes of a large job without a file of their own, because they shared nothing.
    pub quiet: Vec<QuietProcess>,
    /// Signals that launchers received from outside of their runs, or sent themselves, in the order of their times.
    pub signals: Vec<ReceivedSignal>,
    /// Memory of devices, as launchers asked NVML after calls failed for lack of it, in the order of the times of each launcher.
    pub memory_samples: Vec<MemorySample>,
    /// Reasons why a launcher took no samples of memory, or stopped taking them.
    pub sampling_problems: Vec<String>,
    /// Files with the stacks of processes that made no progress.
    pub hangs: Vec<PathBuf>,
    /// Files that could not be read, or only in part.
    pub problems: Vec<Problem>,
    /// Number of processes that could not record everything, according to `cupeer run`.
    lost: u64,
    /// Number of the processes in `lost` that have no file.
    missing: u64,
    /// Clocks by boot id and kind of clock.
    clocks: HashMap<([u8; 16], u32), Clock>,
}

/// Program that a run started and that made no call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartedProgram {
    /// Name of the program.
    pub program: String,
    /// End of the program.
    pub end: RecordedEnd,
}

impl StartedProgram {
    /// Returns the line for this program in the file `job`, without its newline.
    pub fn to_line(&self) -> String {
        let program = self.program.replace(char::is_control, "?");
        format!("{}={} {program}", job::STARTED, self.end.to_word())
    }

    /// Returns the programs in the text of a file `job`.
    fn parse_all(text: &str) -> Vec<StartedProgram> {
        let values = text.lines().filter_map(|line| line.strip_prefix(job::STARTED)?.strip_prefix('='));
        let one = |value: &str| {
            let (word, program) = value.split_once(' ')?;
            Some(StartedProgram { program: program.to_owned(), end: RecordedEnd::from_word(word.parse().ok()?) })
        };
        values.filter_map(one).collect()
    }
}

/// Problem with a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Description of the problem: the rest of a sentence that begins with the path, without its period, such
    /// as `is cut off`.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.text)
    }
}

/// Reason why there is no job.
#[derive(Debug)]
pub enum Error {
    /// The directory cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The directory contains nothing that looks like a record.
    NoRecord(PathBuf),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(dir, error) => write!(f, "{} cannot be read: {error}", dir.display()),
            Error::NoRecord(dir) => write!(f, "{} holds no recording", dir.display()),
        }
    }
}

// Implements no `source`, because the message already contains the cause.
impl std::error::Error for Error {}

impl Job {
    /// Reads all records in a directory and in its subdirectories, because those of several hosts may have been copied
    /// together.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, or contains no record. A file that cannot be read is one of [`Job::problems`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use cupeer_record::{Event, Job};
    ///
    /// let job = Job::open(std::path::Path::new("recording"))?;
    /// for process in &job.processes {
    ///     let calls = process.events()?.filter(|event| matches!(event, Event::Call(_))).count();
    ///     println!("{} made {calls} calls", process.program());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(dir: &Path) -> Result<Job, Error> {
        let mut job = Job {
            dir: dir.to_path_buf(),
            processes: Vec::new(),
            tables: Vec::new(),
            faults: Vec::new(),
            started: Vec::new(),
            bypassed: Vec::new(),
            commands: Vec::new(),
            signals: Vec::new(),
            memory_samples: Vec::new(),
            sampling_problems: Vec::new(),
            quiet: Vec::new(),
            hangs: Vec::new(),
            problems: Vec::new(),
            lost: 0,
            missing: 0,
            clocks: HashMap::new(),
        };
        let entries = sorted_entries(dir).map_err(|error| Error::Unreadable(dir.to_path_buf(), error))?;
        let mut found = false;
        for path in entries {
            if path.is_dir() {
                // Read the list of processes that began before looking for files. A process that creates its
                // file in between then has a file, and does not count as quiet.
                let begun = sorted_entries(&path).into_iter().flatten().filter(|path| quiet::is_begun_file(path));
                begun.for_each(|path| found |= job.add_file(path));
                match sorted_entries(&path) {
                    Ok(inner) => {
                        let others = inner.into_iter().filter(|path| !quiet::is_begun_file(path));
                        others.for_each(|path| found |= job.add_file(path));
                    }
                    Err(error) => job.add_problem(&path, format!("cannot be read: {error}")),
                }
            } else {
                found |= job.add_file(path);
            }
        }
        if !found {
            return Err(Error::NoRecord(dir.to_path_buf()));
        }
        // Sort by the name without its suffix, so that the programs that a process executed are in order.
        job.processes.sort_by(|a, b| (a.path.parent(), &a.proc).cmp(&(b.path.parent(), &b.proc)));
        // Drop quiet processes with files before copies of files are dropped: a process with any file is not quiet.
        job.drop_recorded();
        job.drop_copies();
        job.check_keys();
        job.add_loss_problems();
        let mut hosts: HashMap<_, Vec<&Process>> = HashMap::new();
        for process in &job.processes {
            hosts.entry(clock_key(process)).or_default().push(process);
        }
        job.clocks = hosts.into_iter().map(|(key, processes)| (key, Clock::of(processes.into_iter()))).collect();
        Ok(job)
    }

    /// Returns the clock of a process. Processes of one boot share it, so that their times can be compared.
    pub fn clock(&self, process: &Process) -> Clock {
        let shared = self.clocks.get(&clock_key(process)).copied();
        shared.unwrap_or_else(|| Clock::of(std::iter::once(process)))
    }

    /// Returns for each process whether it runs; `None` if that cannot be known: see [`Process::is_alive`].
    ///
    /// The host is examined once for all processes, including those that became another program. Call this before
    /// reading events: a process that has ended by then has written all of its calls.
    pub fn are_alive(&self) -> Vec<Option<bool>> {
        alive::running_states(&self.headers()).into_iter().map(|(alive, _)| alive).collect()
    }

    /// Returns for each process whether it executed another program that also has a recording.
    pub fn have_executed_another(&self) -> Vec<bool> {
        alive::have_executed_another(&self.headers())
    }

    fn headers(&self) -> Vec<&Header> {
        self.processes.iter().map(|process| &process.header).collect()
    }

    /// Removes everything that belongs to other hosts than the one with this boot id.
    pub fn keep_host(&mut self, boot: [u8; 16]) {
        self.processes.retain(|process| process.header.boot_id == boot);
        self.tables.retain(|table| table.boot_id == boot);
        self.faults.retain(|file| file.boot_id == boot);
        self.started.clear();
        let short = crate::host::short_boot_id(boot);
        self.memory_samples.retain(|sample| sample.boot_id == boot);
        self.hangs.clear();
        self.quiet.retain(|quiet| quiet.file.starts_with(&short));
        let is_its = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&short));
        self.problems.retain(|problem| is_its(&problem.path));
    }

    /// Returns the faults of all plans, merged over all hosts.
    pub fn merged_faults(&self) -> Vec<FaultCounts> {
        faults::merge_faults(&self.faults)
    }

    fn add_problem(&mut self, path: &Path, text: impl Into<String>) {
        self.problems.push(Problem { path: path.to_path_buf(), text: text.into() });
    }

    /// Reads a file of the directory. Returns true if it looks like a part of a recording.
    fn add_file(&mut self, path: PathBuf) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_process = name.ends_with(SUFFIX) && name.len() > SUFFIX.len();
        let is_table = name.starts_with(live::PREFIX);
        let is_job = name == job::FILE;
        let is_faults = FaultFile::is_file_name(&name);
        let is_begun = quiet::is_begun_file(&path);
        if name.starts_with(job::HANG) && name.ends_with(job::HANG_SUFFIX) && !path.is_dir() {
            // A file about a hang is not a recording by itself.
            self.hangs.push(path);
            return false;
        }
        if name.starts_with(job::MEMORY_SAMPLES) && !path.is_dir() {
            match MemorySamples::open(&path) {
                Ok(MemorySamples { samples, problem }) => {
                    self.memory_samples.extend(samples);
                    self.sampling_problems.extend(problem);
                }
                Err(text) => self.add_problem(&path, text),
            }
            return false;
        }
        if !(is_process || is_table || is_job || is_faults || is_begun) || path.is_dir() {
            return false;
        }
        let read = if is_process {
            push_readable(&mut self.processes, Process::open(&path), |process| &process.problem)
        } else if is_table {
            push_readable(&mut self.tables, LiveTable::open(&path), |table| &table.problem)
        } else if is_begun {
            QuietProcess::read_all(&path).map(|quiet| {
                self.quiet.extend(quiet);
                None
            })
        } else if is_faults {
            push_readable(&mut self.faults, FaultFile::open(&path), |file| &file.problem)
        } else {
            match read_job_file(&path) {
                Some(answer) => answer.map(|told| {
                    self.started.extend(told.started);
                    self.bypassed.extend(told.bypassed);
                    self.commands.extend(told.commands);
                    self.commands.dedup();
                    self.signals.extend(told.signals);
                    self.signals.sort_by_key(|signal| signal.at);
                    self.lost = self.lost.saturating_add(told.lost);
                    self.missing = self.missing.saturating_add(told.missing);
                    None
                }),
                None => return false,
            }
        };
        match read {
            Ok(problem) => problem.into_iter().for_each(|text| self.add_problem(&path, text)),
            Err(text) => self.add_problem(&path, text),
        }
        // Counters of fault plans are not a recording by themselves.
        !is_faults
    }

    /// Sets the list of processes that began, without processes that have files.
    pub fn set_quiet(&mut self, begun: Vec<QuietProcess>) {
        self.quiet = begun;
        self.drop_recorded();
    }

    /// Removes from the list of processes that began those that have a file, even an unreadable one, and
    /// removes duplicates.
    fn drop_recorded(&mut self) {
        let read = self.processes.iter().map(|process| process.path.as_path());
        let unread = self.problems.iter().map(|problem| problem.path.as_path());
        quiet::drop_recorded(&mut self.quiet, read.chain(unread));
    }

    /// Drops copies of recordings: of two files about one program of a process, keeps the longer file.
    fn drop_copies(&mut self) {
        let mut best: HashMap<_, usize> = HashMap::new();
        let mut dropped = Vec::new();
        for (i, process) in self.processes.iter().enumerate() {
            let key = (identity(process), process.header.image);
            let other = *best.entry(key).or_insert(i);
            if other == i {
                continue;
            }
            let length = |i: usize| (self.processes[i].header.next_block, self.processes[i].header.last.monotonic);
            let (kept, copy) = if length(i) > length(other) { (i, other) } else { (other, i) };
            best.insert(key, kept);
            dropped.push((copy, kept));
        }
        for (copy, kept) in &dropped {
            let text = format!("is left out: it records the same process as {}", self.processes[*kept].path.display());
            self.problems.push(Problem { path: self.processes[*copy].path.clone(), text });
        }
        let copies: HashSet<usize> = dropped.iter().map(|(copy, _)| *copy).collect();
        let mut i = 0..;
        self.processes.retain(|_| i.next().is_none_or(|i| !copies.contains(&i)));
    }

    /// Returns true if the runs saw processes that are missing from the recording.
    pub fn lacks_processes(&self) -> bool {
        self.missing > 0 || self.unreported_losses() > 0
    }

    /// Returns the number of processes that could not record everything, without those that have no file; 0
    /// if the files themselves report at least as many losses.
    fn unreported_losses(&self) -> u64 {
        let told = self.processes.iter().filter(|process| process.header.lost > 0).count() as u64;
        let lost = self.lost.saturating_sub(self.missing);
        if lost > told { lost } else { 0 }
    }

    /// Adds problems about processes that lost their recording. A process that could not create its file
    /// cannot report this in its file.
    fn add_loss_problems(&mut self) {
        let path = self.dir.join(job::FILE);
        for (count, what) in
            [(self.missing, "recorded nothing"), (self.unreported_losses(), "could not record everything")]
        {
            let processes = if count == 1 { "process" } else { "processes" };
            if count > 0 {
                self.add_problem(&path, format!("says that {count} {processes} {what}"));
            }
        }
    }

    /// Adds a problem if recordings have different keys, because their fingerprints cannot be compared.
    fn check_keys(&mut self) {
        let Some(first) = self.processes.first() else { return };
        let key = first.header.key_check;
        let others: Vec<_> = self.processes.iter().filter(|process| process.header.key_check != key).collect();
        if let Some(other) = others.first() {
            let text = format!(
                "holds records of more than one job: {} of {} processes have another key than {}, so handles \
                 cannot be followed between them (such as {})",
                others.len(),
                self.processes.len(),
                first.proc,
                other.proc
            );
            let dir = self.dir.clone();
            self.add_problem(&dir, text);
        }
    }
}

/// Adds what could be read of a file to `all`. Returns the problem with the rest of the file, if there is one.
fn push_readable<T>(
    all: &mut Vec<T>,
    read: Result<T, String>,
    problem: fn(&T) -> &Option<String>,
) -> Result<Option<String>, String> {
    all.push(read?);
    Ok(all.last().and_then(|one| problem(one).clone()))
}

/// Returns the identity of a process, which stays the same when it executes another program.
fn identity(process: &Process) -> ([u8; 16], u64, u32, u64) {
    let header = &process.header;
    (header.boot_id, header.pid_ns, header.pid, header.started)
}

fn clock_key(process: &Process) -> ([u8; 16], u32) {
    (process.header.boot_id, process.header.clock)
}

/// Lists a directory, sorted by name.
fn sorted_entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Largest number of bytes of a file `job` that are read. Each run appends two or three lines.
const LONGEST_JOB: u64 = 1 << 20;

/// Facts in a file `job`, to which runs append lines.
#[derive(Default)]
struct JobFacts {
    started: Vec<StartedProgram>,
    bypassed: Vec<(String, String)>,
    commands: Vec<String>,
    signals: Vec<ReceivedSignal>,
    /// Number of processes that could not record everything.
    lost: u64,
    /// Number of the processes in `lost` that have no file.
    missing: u64,
}

/// Checks the first line of a file `job`, and parses the lines of its runs; `None` if the file belongs to
/// another program.
fn read_job_file(path: &Path) -> Option<Result<JobFacts, String>> {
    let mut bytes = Vec::new();
    let file = plain::open(path, SymbolicLinks::Refused);
    if let Err(error) = file.and_then(|file| file.take(LONGEST_JOB).read_to_end(&mut bytes)) {
        return Some(Err(format!("cannot be read: {error}")));
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default().trim_end();
    if line == job::FIRST_LINE {
        let sum = |name: &str| {
            let counts =
                text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse::<u32>().ok());
            counts.map(u64::from).sum()
        };
        let [lost, missing] = [job::LOST, job::MISSING].map(sum);
        let bypassed = |line: &str| {
            let (process, driver) = line.strip_prefix(job::BYPASSED)?.strip_prefix('=')?.split_once(' ')?;
            Some((process.to_owned(), driver.to_owned()))
        };
        let bypassed = text.lines().filter_map(bypassed).collect();
        let command = |line: &str| Some(line.strip_prefix(job::COMMAND)?.strip_prefix('=')?.to_owned());
        let commands = text.lines().filter_map(command).collect();
        let (started, signals) = (StartedProgram::parse_all(&text), ReceivedSignal::parse_all(&text).collect());
        return Some(Ok(JobFacts { started, bypassed, commands, signals, lost, missing }));
    }
    let (words, ours) = job::FIRST_LINE.rsplit_once(' ').unwrap_or((job::FIRST_LINE, ""));
    let version = line.strip_prefix(words)?.trim().parse().ok()?;
    let ours = ours.parse().unwrap_or(1);
    Some(crate::version::check_version(version, ours..=ours).map(|()| JobFacts::default()))
}
