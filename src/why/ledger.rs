//! The processes in the recording of a job: calls that have not returned, and handles that nobody opened.

use super::document::{self, Call, Ended};
use super::process::ProcessInfo;
use super::times::format_duration;
use cupeer_record::Job;
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::{ExitKind, Failure, Handle, Process, Report, State};
use cupeer_report::names::clean;
use cupeer_report::symbols::Symbols;
use cupeer_spec::function::FnId;
use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of exported handles of a process that are named: the oldest ones; further ones are only counted.
const MOST: usize = 2;
/// Maximum number of failed calls that are searched for failed exports.
const MOST_FAILURES: usize = 1000;

pub struct RecordedJob {
    report: Report,
    /// Names of processes in the recording, by pid namespace, pid, and start time.
    names: HashMap<(u64, u32, u64), String>,
    now: u64,
    /// Number of processes of other hosts.
    pub elsewhere: u64,
}

impl RecordedJob {
    /// Reads a recording; returns `None` if no process has recorded anything.
    pub fn open(directory: &Path) -> anyhow::Result<Option<RecordedJob>> {
        let job = &mut Job::open(directory)?;
        // Before the first call, the recording may be empty.
        if job.processes.is_empty() {
            return Ok(None);
        }
        let symbols = &mut Symbols::of_record(directory, &job.processes);
        let keep = Keep { failures: MOST_FAILURES, ..Keep::default() };
        let report = cupeer_facts::read(job, &Filter::all(job), keep, Some(symbols))?;
        let boot = cupeer_record::host::boot_id();
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            job.processes.iter().partition(|process| Some(process.header.boot_id) == boot);
        let name = |process: &&cupeer_record::Process| {
            let header = &process.header;
            ((header.pid_ns, header.pid, header.started), process.proc.clone())
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        // Several programs that a process executed follow one another: the last one is running.
        Ok(Some(RecordedJob { names: here.iter().map(name).collect(), report, now, elsewhere: elsewhere.len() as u64 }))
    }

    /// Returns the name of a process in the recording.
    pub fn process_name(&self, about: &ProcessInfo) -> Option<&str> {
        self.names.get(&(about.pid_ns, about.own_pid, about.started)).map(String::as_str)
    }

    fn find_process(&self, proc: &str) -> Option<&Process> {
        self.report.processes.iter().find(|process| *process.proc == *proc)
    }

    pub fn rank(&self, proc: &str) -> Option<u32> {
        self.find_process(proc)?.rank
    }

    /// Returns the end of a process; `None` if the recording shows none.
    pub fn process_end(&self, proc: &str) -> Option<Ended> {
        let process = self.find_process(proc)?;
        let ago = process.ended_by_ns.map(|at| self.now.saturating_sub(at));
        has_ended(process).then(|| Ended::from_exit(process.exit, ago))
    }

    /// Returns the processes of this host that have ended, with their ends if known.
    pub fn ended_processes(&self) -> impl Iterator<Item = document::Process> + '_ {
        let is_here = |process: &&Process| self.names.values().any(|name| **name == *process.proc);
        let one = |process: &Process| {
            let ended = self.process_end(&process.proc)?;
            Some(document::Process {
                rank: process.rank,
                proc: Some(process.proc.to_string()),
                program: process.program.clone(),
                arguments: process.arguments.clone(),
                parent: process.ppid,
                ended: Some(ended),
                ..document::Process::with_end_only(process.pid)
            })
        };
        self.report.processes.iter().filter(is_here).filter_map(one)
    }

    /// Returns true if a thread is in a recorded call that has not returned.
    pub fn is_in_recorded_call(&self, proc: &str, own_tid: u32) -> bool {
        let mut processes = self.report.processes.iter().filter(|process| *process.proc == *proc);
        processes.any(|process| process.pending.iter().any(|pending| pending.tid == own_tid))
    }

    /// Returns the recorded call in which a thread is.
    pub fn recorded_call(&self, proc: &str, own_tid: u32) -> Option<Call> {
        let process = self.find_process(proc)?;
        let pending = process.pending.iter().find(|pending| pending.tid == own_tid)?;
        let is_known = |text: &&str| self.find_handle(text).is_some();
        let handle = pending.args.values().filter_map(|value| value.as_str()).find(is_known);
        Some(Call {
            function: pending.function.to_string(),
            since_ns: self.now.saturating_sub(pending.since_ns),
            handle: handle.map(str::to_owned),
            injected_by: pending.injected_by.clone(),
        })
    }

    fn find_handle(&self, fingerprint: &str) -> Option<&Handle> {
        self.report.handles.iter().find(|handle| handle.fingerprint.to_string() == fingerprint)
    }

    /// Returns the fingerprints of the handles that a process exported.
    pub fn exported_fingerprints(&self, proc: &str) -> Vec<String> {
        let is_its = |handle: &&Handle| handle.exporter.as_deref() == Some(proc);
        self.report.handles.iter().filter(is_its).map(|handle| handle.fingerprint.to_string()).collect()
    }

    /// Returns a clause about the last failed export of a process; `None` if a later export succeeded.
    fn failed_export_clause(&self, proc: &str) -> Option<String> {
        let exports = |name: &str| FnId::all().any(|id| id.spec().name() == name && id.spec().exports().is_some());
        let is_its = |failure: &&Failure| *failure.proc == *proc && exports(&failure.function);
        let last = self.report.failures.iter().filter(is_its).max_by_key(|failure| failure.time_ns)?;
        let is_later =
            |handle: &Handle| handle.exporter.as_deref() == Some(proc) && handle.exported_ns > Some(last.time_ns);
        if self.report.handles.iter().any(is_later) {
            return None;
        }
        let place = last.caller.source().map_or_else(|| last.caller.short(), |line| line.text());
        Some(format!(
            "failed to export {} ago: {} returned {} at {}",
            format_duration(self.now.saturating_sub(last.time_ns)),
            clean(&last.function),
            clean(&last.result),
            clean(&place)
        ))
    }

    /// Returns clauses about what a process owes to others that may wait for it: an export that failed, and exported
    /// handles that nobody opened, the oldest first.
    pub fn owed_clauses(&self, proc: &str) -> Vec<String> {
        let is_its = |handle: &&Handle| {
            let is_untaken = handle.opens.is_empty() && handle.failed.is_empty() && handle.state == State::Exported;
            handle.exporter.as_deref() == Some(proc) && is_untaken
        };
        let mut untaken: Vec<&Handle> = self.report.handles.iter().filter(is_its).collect();
        untaken.sort_by_key(|handle| handle.exported_ns);
        let one = |handle: &&Handle| {
            let when = handle.exported_ns.map(|at| format!(" {} ago", format_duration(self.now.saturating_sub(at))));
            format!("exported {}{} and nobody opened it", handle.fingerprint, when.unwrap_or_default())
        };
        let mut clauses: Vec<String> = self.failed_export_clause(proc).into_iter().collect();
        clauses.extend(untaken.iter().take(MOST).map(one));
        if untaken.len() > MOST {
            clauses.push(format!("exported {} more handles that nobody opened", untaken.len() - MOST));
        }
        clauses
    }
}

fn has_ended(process: &Process) -> bool {
    !matches!(process.exit.kind, ExitKind::Running | ExitKind::Unseen | ExitKind::Executed)
}
