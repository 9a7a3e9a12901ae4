//! The summary after a run that made its own record: how much was called, what failed, what hangs, what was left open,
//! and where the record is. It takes a few lines; the report has the rest.

pub mod faults;
mod found;

use super::filter::Filter;
use super::model::{Finding, Function, Open, Pending, Proc, Process, Report, State};
use super::moments::number;
use super::suppress::Suppressions;
use super::symbols::Symbols;
use super::text::endings::death;
use super::text::names::{clean, codes, counted};
use super::text::suppressed;
use cupeer_record::Job;
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The largest record that is read at the end of a run: a second or two.
const MOST_READ: u64 = 1 << 30;
/// How many lines there are about one thing.
const MOST_LINES: usize = 4;

/// What is asked for at the end of a run.
#[derive(Default)]
pub struct How {
    /// What is found, and counts for nothing.
    pub suppressions: Suppressions,
    /// Whether something depends on what is found: the record is read, however large it is and whoever else records there.
    pub decides: bool,
    /// Whether the report is wanted, unless the record is large.
    pub annotates: bool,
}

/// What is said at the end of a run.
#[derive(Default)]
pub struct Told {
    /// The lines.
    pub lines: Vec<String>,
    /// The report of the run's processes, where it was made.
    pub report: Option<Report>,
}

/// All of a record.
pub fn whole(directory: &Path, how: &How) -> Told {
    let shown = shortest(directory);
    let size = size(directory);
    if size > MOST_READ && !how.decides {
        return Told { lines: vec![too_large(size, &shown)], report: None };
    }
    match judged(directory, how, |_| true) {
        Ok(report) => Told { lines: about(&report, &shown), report: Some(report) },
        Err(error) => Told { lines: vec![unreadable(&shown, &error)], report: None },
    }
}

/// How large a record is.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold(0, u64::saturating_add)
}

/// The report of some processes, in the light of what all of the record did.
fn judged(
    directory: &Path,
    how: &How,
    is_chosen: impl Fn(&cupeer_record::Process) -> bool,
) -> anyhow::Result<Report> {
    let job = Job::open(directory)?;
    let mut filter = Filter::of(&job, is_chosen);
    filter.suppressions = how.suppressions.clone();
    // Names of functions take their time, and only suppressions ask for them here.
    let mut symbols = (!how.suppressions.is_empty()).then(|| Symbols::of_record(directory, &job.processes));
    super::read(&job, &filter, 0, symbols.as_mut())
}

fn unreadable(shown: &str, error: &anyhow::Error) -> String {
    format!("recorded in {shown}, which cannot be read: {error:#}")
}

fn too_large(size: u64, shown: &str) -> String {
    format!("recorded {} MiB in {shown}; 'cupeer report {shown}' shows it", size >> 20)
}

/// The lines about the processes of one run, which `is_of_it` tells from those of others in the directory. What follows from
/// all of them together is the report's. None where none of them reached the driver.
pub fn of_run(directory: &Path, how: &How, is_of_it: impl Fn(&cupeer_record::Process) -> bool) -> Told {
    let is_wanted = how.decides || how.annotates && size(directory) <= MOST_READ;
    let report = is_wanted.then(|| judged(directory, how, &is_of_it));
    let mut lines = own(directory, is_of_it);
    if let Some(Err(error)) = &report {
        lines.push(unreadable(&shortest(directory), error));
    }
    let report = report.and_then(Result::ok).filter(|report| !report.processes.is_empty());
    lines.extend(report.iter().flat_map(suppressed));
    Told { lines, report }
}

/// The lines of [`of_run`], without what rules found.
fn own(directory: &Path, is_of_it: impl Fn(&cupeer_record::Process) -> bool) -> Vec<String> {
    let shown = shortest(directory);
    let read = || -> anyhow::Result<Vec<String>> {
        let mut job = Job::open(directory)?;
        let all = job.processes.len();
        job.processes.retain(is_of_it);
        if job.processes.is_empty() {
            return Ok(Vec::new());
        }
        let sizes = job.processes.iter().filter_map(|process| Some(process.path.metadata().ok()?.len()));
        let size = sizes.fold(0, u64::saturating_add);
        if size > MOST_READ {
            return Ok(vec![too_large(size, &shown)]);
        }
        let others = (all - job.processes.len()) as u64;
        let report = super::read(&job, &Filter::all(&job), 0, None)?;
        let mut lines = deaths(&report);
        let own = counts(&report);
        lines.push(match others {
            0 => format!("{own}; 'cupeer report {shown}' shows them"),
            _ => format!(
                "{own} in this run; 'cupeer report {shown}' shows them and {} of other runs",
                counted(others, "process")
            ),
        });
        lines.extend(failing(&report));
        lines.extend(pending(&report));
        Ok(lines)
    };
    read().unwrap_or_else(|error| vec![unreadable(&shown, &error)])
}

/// How many processes, calls and failures there are.
fn counts(report: &Report) -> String {
    let calls: u64 = report.functions.iter().map(|function| function.calls).sum();
    let failed: u64 = report.functions.iter().map(|function| function.wrong()).sum();
    let processes = counted(report.processes.len() as u64, "process");
    format!("{processes}, {}{}, {failed} failed", report.record.last(), counted(calls, "call"))
}

/// The directory as a person would type it.
fn shortest(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| directory.strip_prefix(here).ok());
    relative.filter(|path| !path.as_os_str().is_empty()).unwrap_or(directory).display().to_string()
}

fn about(report: &Report, shown: &str) -> Vec<String> {
    let mut lines = deaths(report);
    lines.push(format!("{}; 'cupeer report {shown}' shows them", counts(report)));
    lines.extend(blind(report));
    let (told, kinds) = found::lines(report);
    lines.extend(told);
    more(&mut lines, kinds, "kind", "of finding");
    lines.extend(failing(report));
    lines.extend(pending(report));
    for kind in Object::exported() {
        let of_kind = || report.handles.iter().filter(|handle| handle.kind == kind);
        let opened = of_kind().filter(|handle| !handle.opens.is_empty()).count() as u64;
        let is_open = |open: &Open| {
            open.closed_ns.is_none() && !matches!(open.state, State::Closed | State::OpenOnPurpose)
        };
        let left = of_kind().filter(|handle| handle.opens.iter().any(is_open)).count() as u64;
        if left > 0 {
            let (all, was) = (format!("{kind} handle"), if left == 1 { "was" } else { "were" });
            lines.push(format!(
                "  {} of {} {was} left open; --leaks shows where",
                number(left),
                counted(opened, &all)
            ));
        }
        let freed = of_kind().filter(|handle| handle.state == State::FreedWhileOpen).count() as u64;
        let is_found = |finding: &Finding| finding.rule.ends_with("-while-open");
        if freed > 0 && !report.findings.iter().any(is_found) {
            let (all, was) = (format!("{kind} handle"), if freed == 1 { "was" } else { "were" });
            lines.push(format!("  {} {was} freed while open elsewhere", counted(freed, &all)));
        }
    }
    lines.extend(found::notes(report));
    lines.extend(suppressed(report));
    if report.record.lost > 0 {
        lines.push(format!(
            "  {} lost: the record could not be written",
            counted(report.record.lost, "event")
        ));
    }
    lines
}

/// How many findings were suppressed, and by which file.
fn suppressed(report: &Report) -> Vec<String> {
    suppressed::lines(report.findings.iter()).iter().map(|line| format!("  {line}")).collect()
}

/// The functions that failed, a line each.
fn failing(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let failing: Vec<_> = report.functions.iter().filter(|function| function.wrong() > 0).collect();
    for function in failing.iter().take(MOST_LINES) {
        let calls = counted(function.calls, "call");
        let injected = match injected(report, function) {
            0 => String::new(),
            all if all == function.wrong() => ", all injected".into(),
            some => format!(", {} of them injected", number(some)),
        };
        lines.push(format!("  {}, {calls}: {}{injected}", function.function, codes(&function.wrong)));
    }
    more(&mut lines, failing.len(), "function", "that failed");
    lines
}

/// The calls that did not return, a line each.
fn pending(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let pending: Vec<_> = report
        .processes
        .iter()
        // Where it died in them has been said.
        .filter(|process| death(process).is_none())
        .flat_map(|process| process.pending.iter().map(move |call| (process, call)))
        .collect();
    for (process, call) in pending.iter().take(MOST_LINES) {
        let rank = process.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let library = caller(call);
        lines.push(format!(
            "  {} did not return{}: {rank}process {}, called from {library}",
            call.function,
            call.injected_by
                .as_ref()
                .map(|rule| format!(" because of fault {}", clean(rule)))
                .unwrap_or_default(),
            process.pid
        ));
    }
    more(&mut lines, pending.len(), "call", "that did not return");
    lines
}

/// The processes that were killed, or ended without returning: what comes first is a death.
fn deaths(report: &Report) -> Vec<String> {
    let dead = report.processes.iter().filter_map(|process| Some((process, death(process)?)));
    let dead: Vec<(&Process, String)> = dead.collect();
    let line = |(process, how): &(&Process, String)| {
        let rank = process.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let program = Path::new(&process.program).file_name().unwrap_or_default().to_string_lossy();
        let call = process
            .pending
            .first()
            .map(|call| format!(" in {}, called from {}", clean(&call.function), caller(call)));
        format!("{rank}process {} ({}) {how}{}", process.pid, clean(&program), call.unwrap_or_default())
    };
    let mut lines: Vec<String> = dead.iter().take(MOST_LINES).map(line).collect();
    more(&mut lines, dead.len(), "process", "like that");
    lines
}

/// The library that a call came from.
fn caller(call: &Pending) -> String {
    clean(call.caller.library.as_deref().unwrap_or("an unknown place"))
}

/// What was not seen: processes with a driver and no call, and libraries whose calls went past us beside those that came.
fn blind(report: &Report) -> Vec<String> {
    let pid_of = |proc: &Proc| {
        let process = report.processes.iter().find(|process| process.proc == *proc)?;
        let program = Path::new(&process.program).file_name()?.to_string_lossy();
        Some(format!("process {} ({})", process.pid, clean(&program)))
    };
    let who = |proc| pid_of(proc).unwrap_or_else(|| "a process".into());
    let mut lines: Vec<String> = Vec::new();
    let unseen: BTreeMap<&Proc, String> = report.unseen().collect();
    for (proc, why) in unseen.iter().take(MOST_LINES) {
        lines.push(format!("  libcuda was loaded in {}, but no watched call was seen: {why}", who(proc)));
    }
    more(&mut lines, unseen.len(), "process", "like that");
    let past: BTreeSet<String> = report
        .past()
        .filter(|escaped| !unseen.contains_key(&escaped.proc))
        .map(|escaped| format!("  {}", escaped.sentence()))
        .collect();
    lines.extend(past.iter().take(MOST_LINES).cloned());
    more(&mut lines, past.len(), "library", "whose calls escape cupeer");
    lines
}

/// How many failures of a function a fault plan made.
fn injected(report: &Report, function: &Function) -> u64 {
    let of_function = report.failure_groups.iter().filter(|group| group.function == function.function);
    of_function.filter(|group| group.injected).map(|group| group.count).sum()
}

/// Says how many were left out.
fn more(lines: &mut Vec<String>, all: usize, what: &str, that: &str) {
    if all > MOST_LINES {
        let more = counted((all - MOST_LINES) as u64, &format!("more {what}"));
        lines.push(format!("  and {more} {that}"));
    }
}

#[cfg(test)]
fn lines(directory: &Path) -> Vec<String> {
    whole(directory, &How::default()).lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_record::Outcome;
    use cupeer_record::writer::{self, About, Writer};
    use cupeer_spec::function::FnId::{self, *};

    fn record(ring: Option<u32>, fill: impl FnOnce(&mut Writer, u32)) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        writer::job(folder.path()).unwrap();
        let mut writer = Writer::create(folder.path(), About { ring, ..About::default() }).unwrap();
        let stream = writer.stream(1000).unwrap();
        fill(&mut writer, stream);
        writer.finish().unwrap();
        let shown = folder.path().display().to_string();
        lines(folder.path()).iter().map(|line| line.replace(&shown, "DIR")).collect()
    }

    fn fail(writer: &mut Writer, stream: u32, function: FnId, at: u64, result: i32) {
        let mut call = writer::call(function, at, at + 5);
        call.outcome = Outcome::Returned(result);
        writer.call(stream, &call).unwrap();
    }

    #[test]
    fn handles_are_counted_and_not_openings() {
        let lines = record(None, |writer, stream| {
            let mut open = |at: u64, handle: u8, address: u64| {
                let mut call = writer::call(cuIpcOpenMemHandle_v2, at, at + 1);
                writer::set(&mut call, "handle", &[handle; 16]);
                writer::set(&mut call, "pdptr", &address.to_le_bytes());
                writer::set(&mut call, "Flags", &1u32.to_le_bytes());
                writer.call(stream, &call).unwrap();
            };
            (0..10).for_each(|i| open(10 + i, 1, 0x7000));
            open(30, 2, 0x8000);
            open(31, 3, 0x9000);
            let mut close = writer::call(cuIpcCloseMemHandle, 40, 41);
            writer::set(&mut close, "dptr", &0x8000u64.to_le_bytes());
            writer.call(stream, &close).unwrap();
        });
        assert_eq!(
            lines,
            [
                "1 process, 13 calls, 0 failed; 'cupeer report DIR' shows them",
                "  2 of 3 memory handles were left open; --leaks shows where"
            ]
        );
    }

    #[test]
    fn of_a_ring_the_last_calls_are_counted() {
        let calls = |count: u64| {
            let lines = record(Some(8), |writer, stream| {
                let call = |i| writer::call(cuCtxEnablePeerAccess, 10 * i, 10 * i + 5);
                for i in 1..=count {
                    writer.call(stream, &call(i)).unwrap();
                }
            });
            lines.concat()
        };
        assert!(calls(10).starts_with("1 process, 10 calls, 0 failed"), "it has them all");
        let many = calls(100_000);
        assert!(many.starts_with("1 process, the last ") && many.contains(" calls, 0 failed"), "{many}");
    }

    #[test]
    fn what_the_driver_had_ended_already_has_not_failed() {
        let lines = record(None, |writer, stream| {
            let late = [cuDevicePrimaryCtxRelease, cuMemFree_v2, cuIpcCloseMemHandle, cuIpcGetMemHandle];
            for (i, function) in late.into_iter().enumerate() {
                fail(writer, stream, function, 10 * i as u64, 4);
            }
            fail(writer, stream, cuIpcCloseMemHandle, 60, 1);
        });
        let failed: Vec<&str> =
            lines.iter().filter(|line| line.contains(" call")).map(|line| line.trim()).collect();
        let wanted = [
            "1 process, 5 calls, 2 failed; 'cupeer report DIR' shows them",
            "cuIpcCloseMemHandle, 2 calls: 1 INVALID_VALUE",
            "cuIpcGetMemHandle, 1 call: 1 DEINITIALIZED",
        ];
        assert!(wanted.iter().all(|line| failed.contains(line)) && failed.len() == 3, "{lines:#?}");
    }

    #[test]
    fn one_that_is_left_out_is_one() {
        let lines = record(None, |writer, stream| {
            let ipc = [cuIpcGetMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle, cuIpcCloseMemHandle];
            for (i, function) in ipc.into_iter().chain([cuCtxEnablePeerAccess]).enumerate() {
                fail(writer, stream, function, 10 * i as u64, 1);
            }
        });
        assert_eq!(lines.last().unwrap(), "  and 1 more function that failed");
    }
}
