//! The ends of processes: which of them are problems, in sentences.

use super::incidents::{ASKED_TO_END, DIED, FAILED};
use super::{Incident, Problem, Verdict};
use crate::base::moments::{bytes, duration, number};
use crate::model::{Exit, ExitKind, Handle, Process, Started};
use crate::words::endings::{describe_end, describe_kill, is_end_request, name_sender};
use crate::words::names::{clean, counted};
use cupeer_spec::env;
use std::collections::{BTreeMap, BTreeSet};

/// Number of handles that are named per process; of further ones, only the number is given.
const MOST_HANDLES: usize = 3;
/// Words of the headline for processes that died.
pub const ABNORMAL: &str = "ended abnormally";
/// Words for a program that a launcher started and that is not in the recording.
pub const LAUNCHED: &str = "launched program";
/// Words of the headline for processes that a signal from outside asked to end.
const ENDED: &str = "ended after a signal";
/// Number to which a shell adds the signal that ended its child, to form its own exit status. Python exits
/// with the negative signal.
const BY_SIGNAL: u8 = 128;

/// Judgment of a report on the end of a process.
pub enum EndVerdict {
    /// The process is running, or ended normally.
    Normal,
    /// It is unknown how the process ended, for this reason.
    Unknown(String),
    /// The process crashed or was killed.
    Died,
    /// An external signal asked the process to end, which is not its fault.
    Requested,
    /// The process exited with this status, which reports an error.
    Failed(u8),
}

impl<'a> Verdict<'a> {
    /// Returns how the end of a process counts. If a fault plan changed calls, a failure is expected.
    pub fn judge_end(&self, process: &Process) -> EndVerdict {
        let unknown = |why: &str| EndVerdict::Unknown(why.into());
        match (process.exit.kind, process.exit.code) {
            _ if process.is_stopped_on_purpose() => unknown("a fault plan ended it"),
            _ if process.asked.is_some() || process.exit.signal.is_some_and(is_end_request) => EndVerdict::Requested,
            (ExitKind::Signal | ExitKind::Died, _) => EndVerdict::Died,
            (ExitKind::Returned, Some(0)) => EndVerdict::Normal,
            (ExitKind::Returned, Some(code)) if self.has_injected_calls() => {
                EndVerdict::Unknown(format!("it ended with exit status {code}, and a fault plan changed calls"))
            }
            (ExitKind::Returned, Some(code)) if self.has_passed_on_status(process) => {
                EndVerdict::Unknown(format!("it passed on how a child of it ended, with exit status {code}"))
            }
            (ExitKind::Returned, Some(code)) => EndVerdict::Failed(code),
            (ExitKind::Returned, None) => unknown("it returned, and its exit status is unknown"),
            (ExitKind::Running, _) => unknown("it is still running"),
            (ExitKind::Executed, _) => unknown("it became another program"),
            (ExitKind::Gone | ExitKind::Unseen, _) => unknown("how it ended is unknown"),
        }
    }

    /// Returns the processes that crashed or were killed, in the order of the report, including processes
    /// that filters leave out.
    pub fn dead_processes(&self) -> impl Iterator<Item = &'a Process> {
        self.report.processes.iter().filter(|process| matches!(self.judge_end(process), EndVerdict::Died))
    }

    /// Returns the processes that did not crash and were not killed.
    pub fn surviving_processes(&self) -> impl Iterator<Item = &'a Process> {
        self.report.processes.iter().filter(|process| !matches!(self.judge_end(process), EndVerdict::Died))
    }

    /// Returns true if filters keep all calls of the selected processes. Only then are process ends reported.
    fn can_report_ends(&self) -> bool {
        !self.report.record.in_part
    }

    /// Returns the processes that crashed or were killed, in order of their ends if known. Otherwise, one
    /// that ended in a call comes first.
    pub(super) fn find_deaths(&self) -> Option<Problem<'a>> {
        let mut dead: Vec<&Process> = self.dead_processes().filter(|_| self.can_report_ends()).collect();
        dead.sort_by_key(|process| (process.ended_by_ns.unwrap_or(u64::MAX), process.pending.is_empty()));
        let incident = |process: &'a Process| {
            let call = process.pending.first();
            Incident {
                process: Some(process),
                function: call.map(|call| &*call.function),
                stack: call.map_or(&[], |call| &call.stack),
                ..Incident::new(&DIED, self.describe_death(process))
            }
        };
        Problem::from_incidents(&DIED, "process", ABNORMAL, dead.into_iter().map(incident).collect())
    }

    /// Returns the problem of processes that exited with an error, grouped by exit status, the earliest exit
    /// first.
    pub(super) fn find_failing_ends(&self) -> Option<Problem<'a>> {
        let failed = |process: &'a Process| match self.judge_end(process) {
            EndVerdict::Failed(code) => Some((code, process)),
            _ => None,
        };
        let own = self.report.processes.iter().filter(|_| self.can_report_ends());
        let mut all: Vec<(u8, &Process)> = own.filter_map(failed).collect();
        all.sort_by_key(|(_, process)| process.ended_by_ns.unwrap_or(u64::MAX));
        let (mut codes, mut items) = (BTreeSet::new(), Vec::new());
        for (code, _) in &all {
            if codes.insert(code) {
                let procs = all.iter().filter(|(other, _)| other == code).map(|(_, process)| &*process.proc);
                items.push(format!("exit status {code}: {}", self.names.processes(procs)));
            }
        }
        let incident = |(code, process): (u8, &'a Process)| Incident {
            process: Some(process),
            ..Incident::new(&FAILED, self.describe_failure(process, code))
        };
        let incidents: Vec<_> = all.iter().copied().map(incident).collect();
        let problem = Problem::of((incidents.len() as u64, "process"), "exited with an error", items)?;
        Some(Problem { kind: Some(&FAILED), incidents, ..problem })
    }

    /// Returns the problem of processes that ended after a signal from outside. Leaves out processes that
    /// their parent ended in a run that succeeded.
    pub(super) fn find_requested_ends(&self) -> Option<Problem<'a>> {
        let failing = self.find_failing_ends();
        let failed = || self.deaths.iter().chain(&failing).flat_map(Problem::processes);
        let are_started_well = self.report.record.started.iter().all(|started| started.exit.code == Some(0));
        let is_well = failed().next().is_none() && are_started_well;
        let is_one = |process: &&Process| {
            let is_told = process.asked.is_some() || !is_well || is_started_by_run(process);
            self.can_report_ends() && is_told && matches!(self.judge_end(process), EndVerdict::Requested)
        };
        let mut by_how: BTreeMap<_, Vec<&Process>> = BTreeMap::new();
        for process in self.report.processes.iter().filter(is_one) {
            let by = process.asked.as_ref().and_then(name_sender);
            by_how.entry((describe_end(process), by)).or_default().push(process);
        }
        let mut groups: Vec<_> = by_how.into_iter().collect();
        let last = |group: &[&Process]| group.iter().filter_map(|process| process.ended_by_ns).max();
        groups.sort_by_key(|(_, group)| last(group));
        let line = |((how, by), group): &((String, Option<String>), Vec<&Process>)| {
            let (who, was) = match group[..] {
                [one] => (self.name_process(&one.proc), "was "),
                _ => (counted(group.len() as u64, "process"), "were "),
            };
            let how = match how.strip_prefix("was ") {
                Some(rest) => format!("{was}{rest}"),
                None if how.starts_with("ended ") => how.clone(),
                None => format!("ended with {how}"),
            };
            let is_later = |process: &&Process| failed().any(|first| first.ended_before(process));
            let when = match last(group) {
                _ if group.iter().all(is_later) => " after that".to_owned(),
                ended => self.format_after(ended),
            };
            let by = by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
            let which = self.names.processes(group.iter().map(|process| &*process.proc));
            let which = if group.len() > 1 { format!(": {which}") } else { String::new() };
            format!("{who} {how}{when}{by}{which}")
        };
        let lines: Vec<String> = groups.iter().map(line).collect();
        let incident = |process: &&'a Process| Incident {
            process: Some(*process),
            ..Incident::new(&ASKED_TO_END, self.describe_death(process))
        };
        let incidents: Vec<_> = groups.iter().flat_map(|(_, group)| group.iter().map(incident)).collect();
        let problem = Problem::of((incidents.len() as u64, "process"), ENDED, lines.clone())?;
        Some(Problem { kind: Some(&ASKED_TO_END), in_short: lines.join("; "), incidents, ..problem })
    }

    /// Returns how long after the start of the recording something happened: ` after 14.021s`; empty if the
    /// time is unknown.
    pub(super) fn format_after(&self, moment: Option<u64>) -> String {
        let since = moment.map(|moment| moment.saturating_sub(self.report.record.began_ns));
        since.map(|since| format!(" after {}", duration(since))).unwrap_or_default()
    }

    /// Returns true if a process exited with the status of a child that had failed before it.
    fn has_passed_on_status(&self, process: &Process) -> bool {
        let Some(code) = process.exit.code.filter(|code| *code > 0) else { return false };
        self.report.processes.iter().any(|child| {
            let is_child = (child.ppid, child.pid_ns) == (process.pid, process.pid_ns);
            let by_signal = child.exit.signal.map(|signal| [BY_SIGNAL + signal, signal.wrapping_neg()]);
            let has_same = child.exit.code == Some(code) || by_signal.is_some_and(|codes| codes.contains(&code));
            // The parent may have waited for the child although no later call of the parent shows it.
            let has_outlived = child.ended_by_ns.is_some_and(|ended| {
                child.boot_id == process.boot_id && process.ended_by_ns.is_some_and(|its| ended <= its)
            });
            is_child && has_outlived && has_same
        })
    }

    /// Returns a sentence: a process exited with an error.
    pub fn describe_failure(&self, process: &Process, code: u8) -> String {
        format!("{} ended with exit status {code}", self.names.process(&process.proc))
    }

    /// Returns true if a fault plan changed a call.
    fn has_injected_calls(&self) -> bool {
        self.report.processes.iter().any(|process| process.injected > 0)
    }

    /// Returns the problem of started programs that made no call and ended badly. A launcher exits with the
    /// status of its ranks, so the headline leaves the problem out if recorded processes failed.
    pub(super) fn find_failing_starts(&self) -> Option<Problem<'a>> {
        let record = &self.report.record;
        let returned = |exit: Exit| {
            let code = exit.code.filter(|code| *code > 0 && !self.has_injected_calls())?;
            Some((&FAILED, format!("returned {code}")))
        };
        let which = match record.quiet.is_empty() {
            true => "made no call itself",
            false => "made no call itself or shared nothing",
        };
        let incident = |started: &Started| {
            let was_killed = describe_kill(started.exit).map(|how| (&DIED, how));
            let (kind, how) = was_killed.or_else(|| returned(started.exit))?;
            Some(Incident::new(kind, format!("{} {how} (it {which})", clean(&started.program))))
        };
        let incidents = record.started.iter().filter(|_| self.can_report_ends()).filter_map(incident).collect();
        let problem = Problem::from_incidents(&FAILED, LAUNCHED, "failed", incidents)?;
        let problem = Problem { kind: None, ..problem };
        let is_asked = |process: &Process| matches!(self.judge_end(process), EndVerdict::Requested);
        let is_passed_on =
            self.deaths.is_some() || self.find_failing_ends().is_some() || self.report.processes.iter().any(is_asked);
        Some(match is_passed_on {
            true => Problem { in_short: String::new(), incidents: Vec::new(), ..problem },
            false => problem,
        })
    }

    /// Returns a sentence: how a process crashed or was killed, in which call, and which handles others still
    /// have open.
    pub fn describe_death(&self, process: &Process) -> String {
        let mut text = format!(
            "{} {}{}",
            self.names.process(&process.proc),
            describe_end(process),
            self.describe_last_call(process)
        );
        let left: Vec<String> =
            self.report.handles.iter().filter_map(|handle| self.format_left_open(process, handle)).collect();
        if !left.is_empty() {
            text += &format!("; never closed elsewhere: {}", left[..left.len().min(MOST_HANDLES)].join(", "));
            if left.len() > MOST_HANDLES {
                text += &format!(" and {} more", number((left.len() - MOST_HANDLES) as u64));
            }
        }
        text
    }

    /// Names the call in which a process ended or, if it was in no call, its last call.
    pub fn describe_last_call(&self, process: &Process) -> String {
        if let Some(call) = process.pending.first() {
            let others = match process.pending.len() {
                1 => String::new(),
                all => format!(", and in {}", counted(all as u64 - 1, "more call")),
            };
            return format!(" in {}, {}{others}", clean(&call.function), self.describe_call_site(call));
        }
        let last = process.last_call.as_ref();
        last.map_or_else(String::new, |call| {
            format!("; its last recorded call was {} at {}", clean(&call.function), self.at(call.at_ns))
        })
    }

    /// Formats a handle that the process exported and that others never closed: `ipc:2f... (1MiB) in rank 2`.
    fn format_left_open(&self, process: &Process, handle: &Handle) -> Option<String> {
        (handle.exporter.as_ref() == Some(&process.proc)).then_some(())?;
        let open = handle.opens.iter().filter(|open| open.closed_ns.is_none());
        let mut who: Vec<&str> = open.map(|open| &*open.proc).collect();
        who.dedup();
        let size = handle.bytes.map(|size| format!(" ({})", bytes(size))).unwrap_or_default();
        let names = || self.names.processes(who.iter().copied());
        (!who.is_empty()).then(|| format!("{}{size} in {}", handle.fingerprint, names()))
    }
}

/// Returns true if `cupeer run` started a process itself.
fn is_started_by_run(process: &Process) -> bool {
    let page = process.variables.get(env::STATUS);
    page.is_some_and(|page| page.starts_with(&format!("/proc/{}/", process.ppid)))
}
