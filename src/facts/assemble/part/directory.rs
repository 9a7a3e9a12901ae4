//! Rows about a directory, except for the records of processes.

use cupeer_record::{self as record, Job};
use cupeer_report::model::{Escaped, Exit, Hang, Quiet, Started};
use cupeer_spec::way::Way;
use serde::Deserialize;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// Reads the files that `cupeer run --on-hang` kept. One that cannot be read is named without an answer.
pub fn hangs(paths: &[PathBuf]) -> Vec<Hang> {
    /// The longest file that is read.
    const LONGEST: u64 = 64 << 20;
    #[derive(Deserialize)]
    struct Doing {
        proc: Option<String>,
        doing: String,
    }
    #[derive(Deserialize, Default)]
    struct KeptAnswer {
        time_ns: u64,
        without_progress_ns: Option<u64>,
        answer: String,
        resumed_ns: Option<u64>,
        ended_ns: Option<u64>,
        /// Those that were packed have none.
        processes: Option<Vec<Doing>>,
    }
    let unreadable = || KeptAnswer {
        answer: "its file cannot be read".into(),
        processes: Some(Vec::new()),
        ..KeptAnswer::default()
    };
    let one = |path: &PathBuf| {
        let opened = record::plain::open(path, record::plain::Links::Refused).ok();
        let kept = opened.and_then(|file| serde_json::from_reader(BufReader::new(file.take(LONGEST))).ok());
        let KeptAnswer { time_ns, without_progress_ns, answer, resumed_ns, ended_ns, processes } =
            kept.unwrap_or_else(unreadable);
        let name = path.file_name().filter(|_| processes.is_some());
        let file = name.unwrap_or_default().to_string_lossy().into_owned();
        let doing = processes.into_iter().flatten().filter_map(|one| Some((one.proc?, one.doing))).collect();
        Hang { time_ns, without_progress_ns, answer, file, resumed_ns, ended_ns, doing }
    };
    let mut hangs: Vec<Hang> = paths.iter().map(one).collect();
    hangs.sort_by(|a, b| (a.time_ns, &a.file).cmp(&(b.time_ns, &b.file)));
    hangs
}

/// The processes that have no file.
pub fn quiet(job: &Job) -> impl Iterator<Item = Quiet> {
    job.quiet.iter().map(|one| Quiet { program: one.program.clone(), processes: 1 })
}

/// The drivers of processes without us, as runs have seen them.
pub fn bypassed(job: &Job) -> impl Iterator<Item = Escaped> {
    job.bypassed.iter().map(|(process, driver)| Escaped {
        proc: process.as_str().into(),
        library: driver.clone(),
        way: Way::NotLoaded.name().to_owned(),
    })
}

/// A row.
pub fn started(one: &record::Started) -> Started {
    Started { program: one.program.clone(), exit: Exit::of(Some(false), one.end, false) }
}
