//! Rows about the files in a recording's directory that are not files of processes, such as hang files.

use cupeer_record::{self as record, Job};
use cupeer_report::model::{Escaped, Exit, Hang, Place, Quiet, Started};
use cupeer_spec::bypass::Bypass;
use cupeer_symbols::SourceLine;
use serde::Deserialize;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// A process in a hang file.
#[derive(Deserialize)]
struct HungProcess {
    #[serde(default)]
    pid: u32,
    proc: Option<String>,
    doing: String,
    #[serde(default)]
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    language: String,
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    library: Option<String>,
}

/// Processes in a hang file that all others wait for.
#[derive(Deserialize, Default)]
#[serde(default)]
struct RootProcesses {
    pids: Vec<u32>,
    waiting: Vec<u32>,
    waiting_indirectly: Vec<u32>,
}

impl HungProcess {
    /// Returns the place that the description of the activity names, from the stack of the process.
    fn place_of_activity(&self) -> Option<Place> {
        let place = |frame: &Frame| {
            let (file, line) = (frame.file.clone()?, frame.line?);
            let source = SourceLine { function: frame.function.clone(), file, line };
            let is_named = self.doing.split(" at ").any(|part| part.starts_with(&source.text()));
            let is_python = frame.language == "Python";
            is_named.then(|| Place {
                library: frame.library.as_deref().filter(|_| !is_python).map(Into::into),
                lines: if is_python { [].into() } else { [source.clone()].into() },
                python: is_python.then(|| source.into()),
                ..Place::default()
            })
        };
        self.threads.iter().flat_map(|thread| &thread.frames).find_map(place)
    }
}

/// Reads the files that `cupeer run --on-hang` wrote. A file that cannot be read has a row without details.
pub fn read_hangs(paths: &[PathBuf]) -> Vec<Hang> {
    /// Number of bytes that are read of a hang file; a longer file counts as unreadable.
    const LONGEST: u64 = 64 << 20;
    #[derive(Deserialize, Default)]
    struct HangFile {
        time_ns: u64,
        without_progress_ns: Option<u64>,
        answer: String,
        resumed_ns: Option<u64>,
        ended_ns: Option<u64>,
        /// The processes; `None` in a file that was packed.
        processes: Option<Vec<HungProcess>>,
        root: Option<RootProcesses>,
    }
    let unreadable =
        || HangFile { answer: "its file cannot be read".into(), processes: Some(Vec::new()), ..HangFile::default() };
    let one = |path: &PathBuf| {
        let opened = record::plain::open(path, record::plain::SymbolicLinks::Refused).ok();
        let kept = opened.and_then(|file| serde_json::from_reader(BufReader::new(file.take(LONGEST))).ok());
        let HangFile { time_ns, without_progress_ns, answer, resumed_ns, ended_ns, processes, root } =
            kept.unwrap_or_else(unreadable);
        let name = path.file_name().filter(|_| processes.is_some());
        let file = name.unwrap_or_default().to_string_lossy().into_owned();
        let (processes, root) = (processes.unwrap_or_default(), root.unwrap_or_default());
        let place = root.pids.first().and_then(|pid| processes.iter().find(|one| one.pid == *pid)?.place_of_activity());
        let named = |pids: &[u32]| -> Vec<String> {
            let all = processes.iter().filter(|one| pids.contains(&one.pid));
            all.filter_map(|one| one.proc.clone()).collect()
        };
        let (roots, waiting) = (named(&root.pids), named(&[root.waiting, root.waiting_indirectly].concat()));
        let doing = processes.into_iter().filter_map(|one| Some((one.proc?, one.doing))).collect();
        Hang { time_ns, without_progress_ns, answer, file, resumed_ns, ended_ns, doing, roots, waiting, place }
    };
    let mut hangs: Vec<Hang> = paths.iter().map(one).collect();
    hangs.sort_by(|a, b| (a.time_ns, &a.file).cmp(&(b.time_ns, &b.file)));
    hangs
}

/// Returns the processes that began, but have no recording file.
pub fn unrecorded_processes(job: &Job) -> impl Iterator<Item = Quiet> {
    job.quiet.iter().map(|one| Quiet { program: one.program.clone(), processes: 1 })
}

/// Returns the processes that use the driver without cupeer, as launchers saw them.
pub fn bypassing_processes(job: &Job) -> impl Iterator<Item = Escaped> {
    job.bypassed.iter().map(|(process, driver)| Escaped {
        proc: process.as_str().into(),
        library: driver.clone(),
        way: Bypass::NotLoaded.name().to_owned(),
    })
}

/// Returns the row of a process that a launcher started.
pub fn started_row(one: &record::StartedProgram) -> Started {
    Started { program: one.program.clone(), exit: Exit::of(Some(false), one.end, false) }
}
