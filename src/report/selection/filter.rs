//! Selects the processes and calls that a report covers.
//!
//! The state of a handle or of a pair of devices follows from calls of all processes, and from earlier calls. So all
//! calls up to the end of the selected time are read, and the filters select what is counted and shown.

use crate::base::moments;
use crate::model::{Allocations, Proc, Report};
use crate::selection::mark_times::MarkTimes;
use crate::selection::suppress::Suppressions;
use crate::words::{lives, names};
use anyhow::{Result, anyhow, bail, ensure};
use cupeer_record::{Call, Job, Outcome, Process};
use cupeer_rules::ErrorChoice;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FUNCTIONS, FnId, Group};
use cupeer_spec::selector::FunctionSet;
use std::collections::{BTreeSet, HashSet};

/// Filters in the form of the command line. The fields are the options of `cupeer report`.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Selection<'a> {
    pub process: Option<&'a str>,
    pub rank: Option<&'a str>,
    pub function: Option<&'a str>,
    pub failed: bool,
    pub since: Option<&'a str>,
    pub until: Option<&'a str>,
    pub since_mark: Option<&'a str>,
    pub until_mark: Option<&'a str>,
}

/// Processes and calls that the filters select.
pub struct Filter {
    /// True for each selected process, by the index of the process.
    processes: Vec<bool>,
    functions: Option<FunctionSet>,
    failed: bool,
    since: Option<u64>,
    until: Option<u64>,
    /// Filters as the user gave them.
    pub given_options: Vec<String>,
    /// Suppressions, whose findings do not count.
    pub suppressions: Suppressions,
    /// Findings that count as errors; without a choice, each run's own applies.
    pub error_on: Option<ErrorChoice>,
}

impl Selection<'_> {
    /// Returns the options as they were given.
    fn given_options(&self) -> Vec<String> {
        let given = |(option, text): (&str, Option<&str>)| match text? {
            "" => Some(option.to_owned()),
            text if text.contains(' ') => Some(format!("{option} '{text}'")),
            text => Some(format!("{option} {text}")),
        };
        let options = [
            ("--process", self.process),
            ("--rank", self.rank),
            ("--function", self.function),
            ("--failed", self.failed.then_some("")),
            ("--since", self.since),
            ("--until", self.until),
            ("--since-mark", self.since_mark),
            ("--until-mark", self.until_mark),
        ];
        options.into_iter().filter_map(given).collect()
    }
}

impl Filter {
    /// Selects all of a recording.
    pub fn all(job: &Job) -> Self {
        Self::all_processes(job.processes.len(), Suppressions::default())
    }

    /// Selects all calls of all processes, of which there are this many.
    pub fn all_processes(processes: usize, suppressions: Suppressions) -> Self {
        Filter {
            processes: vec![true; processes],
            functions: None,
            failed: false,
            since: None,
            until: None,
            given_options: Vec::new(),
            suppressions,
            error_on: None,
        }
    }

    /// Selects all calls of the processes that meet a condition.
    pub fn of(job: &Job, is_chosen: impl Fn(&Process) -> bool) -> Self {
        Filter { processes: job.processes.iter().map(is_chosen).collect(), ..Filter::all(job) }
    }

    /// Reads the filters of the command line.
    ///
    /// # Errors
    ///
    /// A filter is malformed, or selects no process. The error is a message for the user.
    pub fn new(selection: &Selection, job: &Job) -> Result<Self> {
        let mut filter =
            Filter { failed: selection.failed, given_options: selection.given_options(), ..Filter::all(job) };
        if let Some(text) = selection.process {
            filter.keep_processes_named(job, text)?;
        }
        if let Some(text) = selection.rank {
            filter.keep_ranks(job, text)?;
        }
        filter.functions = selection.function.map(parse_functions).transpose()?;
        filter.set_times(job, selection)?;
        Ok(filter)
    }

    fn keep_processes_named(&mut self, job: &Job, text: &str) -> Result<()> {
        self.processes = job.processes.iter().map(|process| is_process_named(process, text)).collect();
        ensure!(
            self.processes.contains(&true),
            "no process of the recording is called '{text}': --process takes a pid, a name as in --format json, or NAME=VALUE of a variable"
        );
        Ok(())
    }

    fn keep_ranks(&mut self, job: &Job, text: &str) -> Result<()> {
        let ranks = parse_ranks(text)?;
        self.keep_processes(job, |process| process.rank().is_some_and(|rank| ranks.iter().any(|r| r.contains(&rank))));
        if self.processes.contains(&true) {
            return Ok(());
        }
        let ranks: BTreeSet<u32> = job.processes.iter().filter_map(|process| process.rank()).collect();
        match ranks.is_empty() {
            true => bail!("--rank: the processes of the recording have no ranks"),
            false => {
                bail!("no process of the recording has a rank in '{text}'; it has {}", names::ranks(ranks.into_iter()))
            }
        }
    }

    /// Sets the start and the end of the selected period, from times and from marks.
    fn set_times(&mut self, job: &Job, selection: &Selection) -> Result<()> {
        let began = lives::recording_start(job);
        let moment = |text| moments::parse(text, began);
        self.since = selection.since.map(moment).transpose()?;
        self.until = selection.until.map(moment).transpose()?;
        if selection.since_mark.or(selection.until_mark).is_some() {
            let marks = MarkTimes::read(job, |index| self.has_process(index))?;
            // Marks of one name are a period from the first to the last of them, over all ranks.
            let first = |text| marks.times_of(text).map(|times| *times.start());
            let last = |text| marks.times_of(text).map(|times| *times.end());
            self.since = selection.since_mark.map(first).transpose()?.or(self.since);
            self.until = selection.until_mark.map(last).transpose()?.or(self.until);
        }
        if let Some(until) = self.until {
            // Deselect processes that had not begun before the end of the period.
            self.keep_processes(job, |process| lives::process_start(job, process) <= until);
            if self.since > Some(until) {
                let since = if selection.since_mark.is_some() { "--since-mark" } else { "--since" };
                let until = if selection.until_mark.is_some() { "--until-mark" } else { "--until" };
                bail!("{since} is after {until}");
            }
        }
        Ok(())
    }

    /// Deselects the processes that do not meet a condition.
    fn keep_processes(&mut self, job: &Job, is_kept: impl Fn(&Process) -> bool) {
        for (chosen, process) in self.processes.iter_mut().zip(&job.processes) {
            *chosen &= is_kept(process);
        }
    }

    /// Returns true if the process with this index is selected.
    pub fn has_process(&self, index: usize) -> bool {
        self.processes[index]
    }

    /// Returns true if all calls of all processes are selected.
    pub fn has_all_calls(&self) -> bool {
        self.functions.is_none() && !self.failed && self.since.is_none() && self.until.is_none()
    }

    /// Returns true if a time is at or before the end of the selected period.
    pub fn is_before_end(&self, at: u64) -> bool {
        self.until.is_none_or(|until| at <= until)
    }

    /// Returns the end of the selected period; `None` if it has none.
    pub fn until(&self) -> Option<u64> {
        self.until
    }

    /// Returns true if a time is at or after the start of the selected period.
    pub fn is_after_start(&self, at: u64) -> bool {
        self.since.is_none_or(|since| at >= since)
    }

    /// Returns true if a time is in the selected period.
    pub fn is_in_time(&self, at: u64) -> bool {
        self.is_after_start(at) && self.is_before_end(at)
    }

    /// Returns true if a call of a selected process is selected.
    pub fn has_call(&self, call: &Call, at: u64) -> bool {
        let failed = matches!(call.outcome, Outcome::Returned(result) if result != 0);
        self.has_call_of(call.function, failed, at)
    }

    /// Returns true if a call of this function at this time is selected.
    pub fn has_call_of(&self, function: Option<FnId>, failed: bool, at: u64) -> bool {
        let in_set = match (&self.functions, function) {
            (None, _) => true,
            (Some(set), Some(function)) => set.contains(function as usize),
            (Some(_), None) => false,
        };
        self.is_in_time(at) && in_set && (!self.failed || failed)
    }

    /// Removes from a report everything that the filters do not select.
    pub fn remove_unselected(&self, report: &mut Report) {
        let all = report.processes.iter().zip(&self.processes);
        let others: HashSet<Proc> =
            all.filter(|(_, chosen)| !**chosen).map(|(process, _)| process.proc.clone()).collect();
        let chosen = |proc: &Proc| !others.contains(proc);
        if self.processes.contains(&false) {
            report.handles.retain(|handle| {
                handle.exporter.as_ref().is_some_and(chosen)
                    || handle.opens.iter().any(|open| chosen(&open.proc))
                    || handle.failed.iter().any(|failed| chosen(&failed.proc))
            });
            report.peers.retain(|peer| chosen(&peer.proc));
            report.allocations.retain(chosen);
            report.pools.retain(|pool| chosen(&pool.proc));
            report.escaped.retain(|escaped| chosen(&escaped.proc));
            report.leaks.retain(|leak| leak.procs.iter().any(chosen));
        }
        if let Some(since) = self.since {
            report.handles.retain(|handle| {
                let closed = handle.opens.iter().map(|open| open.closed_ns.unwrap_or(u64::MAX)).max();
                let last = [closed, handle.freed_ns, handle.failed.iter().map(|failed| failed.last_ns).max()];
                let is_there = handle.exporter.is_some() && handle.freed_ns.is_none();
                is_there || last.into_iter().flatten().any(|at| at >= since)
            });
        }
        if self.failed {
            report.handles.retain(|handle| !handle.failed.is_empty());
            report.peers.retain(|peer| !peer.failed.is_empty() || !peer.open_failed.is_empty());
            report.allocations = Allocations::default();
            report.pools.clear();
            report.marks.clear();
        }
        if let Some(set) = &self.functions {
            let has = |group: Group| {
                FUNCTIONS.iter().enumerate().any(|(i, function)| set.contains(i) && function.is_in(group))
            };
            let shows = |kind: &str| {
                let is_one = |objects: &[Object]| objects.iter().any(|object| object.word() == kind);
                has(match kind {
                    _ if is_one(&[Object::Allocation]) => Group::Vmm,
                    _ if is_one(&[Object::Pool, Object::Pointer]) => Group::Pool,
                    _ => Group::Ipc,
                })
            };
            report.handles.retain(|handle| shows(handle.kind));
            report.leaks.retain(|leak| shows(leak.kind));
            if !has(Group::Vmm) {
                report.allocations = Allocations::default();
            }
            if !has(Group::Pool) {
                report.pools.clear();
            }
            if ![Group::Peer, Group::IpcMem, Group::Vmm].into_iter().any(has) {
                report.peers.clear();
            }
        }
        let mut chosen = self.processes.iter();
        report.processes.retain(|_| chosen.next().copied().unwrap_or(true));
    }
}

/// Returns true if a text names the process: by its pid, by the value of an environment variable, or by its
/// name or the start of its name.
fn is_process_named(process: &Process, text: &str) -> bool {
    let has_variable = |(name, value): (&str, &str)| process.variable(name) == Some(value);
    text.parse() == Ok(process.header.pid)
        || text.split_once('=').is_some_and(has_variable)
        || process.proc == text
        || (text.len() >= 8 && process.proc.starts_with(text))
}

fn parse_functions(text: &str) -> Result<FunctionSet> {
    FunctionSet::parse(text).map_err(|error| anyhow!("--function '{text}', {}", error.explain_in(text)))
}

/// Parses a list of ranks: `0,2-5`.
fn parse_ranks(text: &str) -> Result<Vec<std::ops::RangeInclusive<u32>>> {
    let wrong = || anyhow!("--rank: '{text}' is not a list of ranks such as 0,2-5");
    let one = |item: &str| match item.split_once('-') {
        Some((first, last)) => Some(first.trim().parse().ok()?..=last.trim().parse().ok()?),
        None => item.trim().parse().ok().map(|rank| rank..=rank),
    };
    text.split(',').map(|item| one(item).filter(|range| !range.is_empty()).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(parse_ranks("3").unwrap(), [3..=3]);
        assert_eq!(parse_ranks("0,2-5").unwrap(), [0..=0, 2..=5]);
        for wrong in ["", "a", "1-", "5-2", "1,,2", "-1"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
    }
}
