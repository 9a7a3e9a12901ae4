//! `cupeer ls`: the records at home, the newest first.

use crate::records::reduced::reduced_files_in;
use anyhow::Result;
use clap::{Args, ValueEnum};
use cupeer_console::output::{self, line_width};
use cupeer_facts::part::JobPart;
use cupeer_record::{Job, StartedProgram};
use cupeer_recordings::kept::{self, Entry, EntryKind};
use cupeer_recordings::{home, sweeps};
use cupeer_report::endings::format_end_short;
use cupeer_report::model::{Exit, ExitKind};
use cupeer_report::moments::{bytes, date};
use cupeer_report::names::counted;
use cupeer_spec::record::meta;
use cupeer_views::table::Table;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

/// A recording or a sweep in the JSON output.
#[derive(Serialize)]
struct Row {
    name: String,
    path: String,
    /// Kind of the entry: `record` or `sweep`.
    kind: &'static str,
    /// Start of the first process or of the sweep, in nanoseconds since 1970; `null` if unknown.
    began_ns: Option<u64>,
    /// Program that was started, and its arguments.
    program: Vec<String>,
    /// Number of processes that reached the driver.
    processes: Option<usize>,
    bytes: u64,
    /// State or end in a word or two.
    end: String,
}

#[derive(Args)]
#[command(after_help = "\
Recordings without --out are stored in $XDG_STATE_HOME/cupeer, or ~/.local/state/cupeer: the last 20, the last 100 with a \
problem, and at most 1 GiB. cupeer never deletes a recording that you renamed so that its name does not end in a number.

Examples:
  cupeer report            # the newest
  cupeer report app-12     # by its name
  cupeer report 12         # or by its number")]
pub struct LsArgs {
    /// Form of the list
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: LsFormat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum LsFormat {
    /// Table that fits the terminal
    Text,
    /// Array of objects
    Json,
}

pub fn command(args: &LsArgs) -> Result<ExitCode> {
    let home = home::default_directory()?;
    let rows: Vec<Row> = kept::entries(&home).iter().map(make_row).collect();
    if args.format == LsFormat::Json {
        return output::print_json(&rows);
    }
    if rows.is_empty() {
        return output::print(&format!("there are no recordings in {}\n", home.display()));
    }
    let head = ["NAME", "BEGAN (UTC)", "PROCESSES", "SIZE", "END", "PROGRAM"];
    let mut table = Table::new(&head, 6, 20).with_numbers(&[2, 3]).with_last_cut();
    for row in rows {
        let began = row.began_ns.map_or("-".into(), |began| date(began).replace(" UTC", ""));
        let processes = row.processes.map_or("-".into(), |count| count.to_string());
        let mut program = without_interpreter(row.program);
        if let Some(name) = program.first_mut() {
            *name = file_name(name);
        }
        table.push_row([row.name, began, processes, bytes(row.bytes), row.end, program.join(" ")]);
    }
    output::print(&table.render(line_width()))
}

fn make_row(entry: &Entry) -> Row {
    let row = Row {
        name: entry.name.clone(),
        path: entry.path.display().to_string(),
        kind: if entry.kind == EntryKind::Sweep { "sweep" } else { "record" },
        began_ns: None,
        program: Vec::new(),
        processes: None,
        bytes: entry.bytes,
        end: String::new(),
    };
    match entry.kind {
        EntryKind::Record => record_row(entry, row),
        EntryKind::Sweep => sweep_row(entry, row),
    }
}

/// A process, from its recording or from a reduced file.
struct ProcessEnd {
    began: u64,
    exit: Exit,
    /// Program of the process, and its arguments.
    program: Vec<String>,
}

impl ProcessEnd {
    fn from_process(
        began: u64,
        exit: Exit,
        program: &str,
        arguments: &[String],
        started_by: Option<&str>,
    ) -> ProcessEnd {
        let program = match started_by.filter(|by| !by.is_empty()) {
            Some(by) => by.split(' ').map(str::to_owned).collect(),
            None if arguments.is_empty() => vec![program.to_owned()],
            None => arguments.to_vec(),
        };
        ProcessEnd { began, exit, program }
    }
}

/// Returns the processes of a recording; `None` if it cannot be read.
fn read_processes(job: &Job, path: &Path) -> Option<Vec<ProcessEnd>> {
    let began = |process: &_| job.clock(process).realtime(process.header.first.ticks);
    let exits = job.processes.iter().zip(job.are_alive()).zip(job.have_executed_another());
    let one = |((process, alive), is_other): ((&cupeer_record::Process, _), _)| {
        let exit = Exit::of(alive, process.end(), is_other);
        let started_by = process.text(meta::STARTED_BY);
        ProcessEnd::from_process(began(process), exit, process.program(), &process.arguments, started_by)
    };
    let mut all: Vec<ProcessEnd> = exits.map(one).collect();
    for file in reduced_files_in(path) {
        let reduced = JobPart::read(&file).ok()?;
        let processes = reduced.processes().iter();
        all.extend(processes.map(|one| {
            ProcessEnd::from_process(one.began_ns, one.exit, &one.program, &one.arguments, one.started_by.as_deref())
        }));
    }
    Some(all)
}

fn record_row(entry: &Entry, row: Row) -> Row {
    let unreadable = "unreadable".to_owned();
    let Ok(job) = Job::open(&entry.path) else { return Row { end: unreadable, ..row } };
    let Some(all) = read_processes(&job, &entry.path) else { return Row { end: unreadable, ..row } };
    let exits: Vec<Exit> = all.iter().map(|one| one.exit).collect();
    let end = match entry.is_running() {
        Some(true) if exits.iter().any(|exit| end_severity(exit) == DEAD_SEVERITY) => {
            format!("running, {}", worst_end(&exits))
        }
        Some(true) => "running".to_owned(),
        _ => worst_end_with_started(&exits, &job.started),
    };
    // A process that executed several programs has a file for each.
    let count = exits.iter().filter(|exit| exit.kind != ExitKind::Executed).count();
    let first = all.into_iter().min_by_key(|one| one.began);
    Row {
        began_ns: first.as_ref().map(|one| one.began),
        program: first.map(|one| one.program).unwrap_or_default(),
        processes: Some(count),
        end,
        ..row
    }
}

fn sweep_row(entry: &Entry, row: Row) -> Row {
    let Ok((program, done)) = sweeps::read_progress(&entry.path) else {
        return Row { end: "unreadable".into(), ..row };
    };
    let runs = counted(done as u64, "run");
    let end = if entry.is_running() == Some(true) { format!("running, {runs}") } else { runs };
    // Some file systems do not store the time of creation.
    let made = entry.path.metadata().and_then(|about| about.created()).ok();
    let made = made.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let began_ns = made.map(|since| since.as_nanos() as u64);
    Row { began_ns, program, end, ..row }
}

/// Returns the severity of an end; the largest number is the worst.
fn end_severity(exit: &Exit) -> u8 {
    match (exit.kind, exit.code) {
        (ExitKind::Signal | ExitKind::Died, _) => DEAD_SEVERITY,
        (ExitKind::Returned, Some(1..)) => 4,
        (ExitKind::Running, _) => 3,
        (ExitKind::Unseen | ExitKind::Gone, _) => 2,
        (ExitKind::Returned, _) => 1,
        (ExitKind::Executed, _) => 0,
    }
}

const DEAD_SEVERITY: u8 = 5;

/// Returns the worst end of processes, including programs that were started and made no driver call.
fn worst_end_with_started(exits: &[Exit], started: &[StartedProgram]) -> String {
    let started = started.iter().map(|one| (Exit::of(Some(false), one.end, false), one));
    let last = started.max_by_key(|(exit, _)| end_severity(exit));
    let is_worst = |exit: &Exit| end_severity(exit) > exits.iter().map(end_severity).max().unwrap_or(0);
    match last.filter(|(exit, _)| is_worst(exit)) {
        Some((exit, one)) => format!("{} ({})", end_in_words(&exit), one.program),
        None => worst_end(exits),
    }
}

/// Returns an end in a word or two.
fn end_in_words(exit: &Exit) -> String {
    match exit.code {
        Some(code) => format!("exit {code}"),
        None => format_end_short(*exit),
    }
}

/// Returns the worst end of the processes.
fn worst_end(exits: &[Exit]) -> String {
    let Some(worst) = exits.iter().max_by_key(|exit| end_severity(exit)) else { return "no process".into() };
    let alike = exits.iter().filter(|exit| end_in_words(exit) == end_in_words(worst)).count();
    // A process that executed several programs has an entry for each.
    let all = exits.iter().filter(|exit| exit.kind != ExitKind::Executed).count();
    match end_severity(worst) {
        4.. if all > 1 => format!("{}, {alike} of {all}", end_in_words(worst)),
        _ => end_in_words(worst),
    }
}

/// Returns a command line without the Python interpreter before its script: in a narrow terminal, the script's name
/// distinguishes recordings.
fn without_interpreter(mut program: Vec<String>) -> Vec<String> {
    if let [python, script, ..] = &program[..]
        && file_name(python).starts_with("python")
        && !script.starts_with('-')
    {
        program.remove(0);
    }
    program
}

fn file_name(program: &str) -> String {
    Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::end::RecordedEnd;

    #[test]
    fn a_record_ends_as_its_worst_process() {
        let of = |ends: &[RecordedEnd]| {
            let exits: Vec<Exit> = ends.iter().map(|end| Exit::of(Some(false), *end, false)).collect();
            worst_end(&exits)
        };
        assert_eq!(of(&[]), "no process");
        assert_eq!(of(&[RecordedEnd::Returned(0), RecordedEnd::Returned(0)]), "exit 0");
        assert_eq!(of(&[RecordedEnd::Returned(3)]), "exit 3");
        assert_eq!(
            of(&[RecordedEnd::Returned(0), RecordedEnd::Returned(3), RecordedEnd::Returned(3)]),
            "exit 3, 2 of 3"
        );
        assert_eq!(of(&[RecordedEnd::Returned(3), RecordedEnd::Signal(9)]), "SIGKILL, 1 of 2");
        assert_eq!(of(&[RecordedEnd::Returned(0), RecordedEnd::Unseen]), "died, 1 of 2");
        assert_eq!(
            of(&[RecordedEnd::Returned(3), RecordedEnd::Returned(1), RecordedEnd::Returned(1)]),
            "exit 1, 2 of 3"
        );
        assert_eq!(worst_end(&[Exit::of(None, RecordedEnd::Unseen, false)]), "unknown");
    }
}
