//! The ends of processes: in one word, in a sentence, and which processes ended abnormally.

use super::super::incidents::{FORKED, FORKED_LATE};
use super::super::model::{Exit, ExitKind, Handle, Process, Started};
use super::super::moments::{bytes, number};
use super::View;
use super::names::{clean, counted, signal_name};
use super::wrong::Thing;
use crate::style::Mark;
use std::collections::BTreeMap;

/// The most handles that are named of one process.
const MOST_HANDLES: usize = 3;
/// The headline of processes that died.
const ABNORMAL: &str = "ended abnormally";

/// Formats the end of a process for a column of a table.
pub fn ending(exit: Exit) -> String {
    match (exit.kind, exit.code, exit.signal) {
        (ExitKind::Returned, Some(code), _) => code.to_string(),
        (ExitKind::Returned, None, _) => "returned".into(),
        (ExitKind::Signal, _, signal) => signal_name(signal.unwrap_or(0).into()),
        (ExitKind::Running, ..) => "running".into(),
        (ExitKind::Died, ..) => "died".into(),
        (ExitKind::Executed, ..) => "exec".into(),
        (ExitKind::Gone, ..) => "gone".into(),
        (ExitKind::Unseen, ..) => "unknown".into(),
    }
}

/// Formats the end of a process in words.
pub fn how(exit: Exit) -> String {
    match exit {
        Exit { kind: ExitKind::Returned, code: Some(code), immediate: true, .. } => {
            format!("exit status {code} by _exit")
        }
        Exit { kind: ExitKind::Returned, code: Some(code), .. } => format!("exit status {code}"),
        Exit { kind: ExitKind::Returned, .. } => "returned".into(),
        Exit { kind: ExitKind::Signal, signal, .. } => {
            format!("was killed by {}", signal_name(signal.unwrap_or(0).into()))
        }
        Exit { kind: ExitKind::Died, .. } => "was killed or called exit_group".into(),
        Exit { kind: ExitKind::Running, .. } => "runs".into(),
        Exit { kind: ExitKind::Executed, .. } => "became another program".into(),
        Exit { kind: ExitKind::Gone, .. } => "ended in an unknown way".into(),
        Exit { kind: ExitKind::Unseen, .. } => "may still be running, or may have ended".into(),
    }
}

/// Formats the end of a process in words, with the program that it became.
pub fn ended(process: &Process) -> String {
    match (&process.became, process.exit.kind) {
        (None, _) => how(process.exit),
        (Some(program), ExitKind::Executed) => format!("became {}", clean(program)),
        (Some(program), _) => format!("became {}: {}", clean(program), how(process.exit)),
    }
}

/// Formats an abnormal end; `None` if the process exited, is running, or its end is unknown.
pub fn death(process: &Process) -> Option<String> {
    // Who ends so because of a fault plan, does what was asked for.
    if process.is_stopped_on_purpose() || killed(process.exit).is_none() {
        None
    } else {
        Some(ended(process))
    }
}

/// Formats how a program was killed; `None` if it was not killed.
pub fn killed(exit: Exit) -> Option<String> {
    match exit {
        Exit { kind: ExitKind::Signal | ExitKind::Died, .. } => Some(how(exit)),
        _ => None,
    }
}

impl<'a> View<'a> {
    /// The processes that died, with what they left open elsewhere.
    pub fn deaths(&self) -> String {
        let text = self.died().map_or_else(String::new, |thing| self.shown(&thing));
        self.style.mark_in(Mark::Error, ABNORMAL, &text)
    }

    /// The same as a thing, with the items in the order of [`View::all_deaths`].
    pub fn died(&self) -> Option<Thing> {
        let items: Vec<String> =
            self.all_deaths().iter().map(|(process, how)| self.death(process, how)).collect();
        Thing::of((items.len() as u64, "process"), ABNORMAL, items)
    }

    /// The processes that died, and how; the first one first. Of those that filters choose, where these leave out none of
    /// their calls.
    pub fn all_deaths(&self) -> Vec<(&'a Process, String)> {
        let is_shown = !self.report.record.in_part;
        let all = self.report.processes.iter().filter(|_| is_shown);
        let mut dead: Vec<_> = all.filter_map(|process| Some((process, death(process)?))).collect();
        dead.sort_by_key(|(process, _)| {
            process.last_call.as_ref().map_or(process.began_ns, |call| call.at_ns)
        });
        dead
    }

    /// Returns a sentence if processes crashed or were killed, and filters omit some of their calls; `None` otherwise.
    pub fn deaths_not_shown(&self) -> Option<String> {
        let dead = self.report.processes.iter().filter(|process| death(process).is_some()).count() as u64;
        let is_told = self.report.record.in_part && dead > 0;
        is_told
            .then(|| format!("{} {ABNORMAL}, as the report without filters says", counted(dead, "process")))
    }

    /// The processes that returned a failure, each with its exit status. Where a fault plan has made calls fail, that was to be
    /// expected.
    pub fn all_failing_ends(&self) -> Vec<(&'a Process, u8)> {
        if self.is_injected() { Vec::new() } else { self.all_failures_returned() }
    }

    /// The processes that returned a failure of their own, whatever was injected.
    pub fn all_failures_returned(&self) -> Vec<(&'a Process, u8)> {
        if self.report.record.in_part {
            return Vec::new();
        }
        let code = |process: &'a Process| Some((process, process.exit.code.filter(|code| *code > 0)?));
        let is_own = |process: &&Process| !process.is_stopped_on_purpose();
        self.report.processes.iter().filter(is_own).filter_map(code).collect()
    }

    /// Returns true if a fault plan changed a call.
    pub fn is_injected(&self) -> bool {
        self.report.processes.iter().any(|process| process.injected > 0)
    }

    /// The processes that returned a failure, by exit status.
    pub fn failing_ends(&self) -> Option<Thing> {
        let mut by_code: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
        for (process, code) in self.all_failing_ends() {
            by_code.entry(code).or_default().push(&process.proc);
        }
        let count = by_code.values().map(Vec::len).sum::<usize>() as u64;
        let item = |(code, procs): (u8, Vec<&str>)| {
            format!("exit status {code}: {}", self.names.processes(procs.into_iter()))
        };
        let items: Vec<String> = by_code.into_iter().map(item).collect();
        Thing::of((count, "process"), "exited with an error", items)
    }

    /// The programs that were started, made no call, and ended badly: whether each was killed, and a sentence.
    pub fn all_failing_starts(&self) -> Vec<(bool, String)> {
        let record = &self.report.record;
        let returned = |exit: Exit| {
            let code = exit.code.filter(|code| *code > 0 && !self.is_injected())?;
            Some(format!("returned {code}"))
        };
        let item = |started: &Started| {
            let killed = killed(started.exit);
            let (is_killed, how) = (killed.is_some(), killed.or_else(|| returned(started.exit))?);
            let which = match record.quiet.is_empty() {
                true => "made no call itself",
                false => "made no call itself or shared nothing",
            };
            Some((is_killed, format!("{} {how} (it {which})", clean(&started.program))))
        };
        let started = record.started.iter().filter(|_| !record.in_part);
        started.filter_map(item).collect()
    }

    /// Returns true if processes with calls ended badly: a launcher passes on how its ranks ended.
    pub fn is_passed_on(&self) -> bool {
        !self.all_deaths().is_empty() || !self.all_failing_ends().is_empty()
    }

    /// The same as a thing.
    pub fn failing_starts(&self) -> Option<Thing> {
        let items: Vec<String> = self.all_failing_starts().into_iter().map(|(_, item)| item).collect();
        let thing = Thing::of((items.len() as u64, "launched program"), "failed", items)?;
        Some(if self.is_passed_on() { thing.in_short(String::new()) } else { thing })
    }

    /// Returns the number of processes that were forked after the driver was initialized and made no call that shows
    /// it.
    pub fn forked_late(&self) -> u64 {
        if self.report.record.in_part { 0 } else { self.report.record.forked }
    }

    /// The same as a thing.
    pub fn forked(&self) -> Option<Thing> {
        let count = self.forked_late();
        let items = if count > 0 { vec![FORKED.hint.into()] } else { Vec::new() };
        Thing::of((count, "process"), FORKED_LATE, items)
    }

    pub fn death(&self, process: &Process, how: &str) -> String {
        let mut text = format!("{} {how}{}", self.names.process(&process.proc), self.last_act(process));
        let left: Vec<String> =
            self.report.handles.iter().filter_map(|handle| self.left_open(process, handle)).collect();
        if !left.is_empty() {
            text += &format!("; never closed elsewhere: {}", left[..left.len().min(MOST_HANDLES)].join(", "));
            if left.len() > MOST_HANDLES {
                text += &format!(" and {} more", number((left.len() - MOST_HANDLES) as u64));
            }
        }
        text
    }

    /// In which call a process ended, or after which.
    pub fn last_act(&self, process: &Process) -> String {
        if let Some(call) = process.pending.first() {
            let others = match process.pending.len() {
                1 => String::new(),
                all => format!(", and in {}", counted(all as u64 - 1, "more call")),
            };
            return format!(" in {}, {}{others}", clean(&call.function), self.called(call));
        }
        let last = process.last_call.as_ref();
        last.map_or_else(String::new, |call| {
            format!("; its last call was {} at {}", clean(&call.function), self.at(call.at_ns))
        })
    }

    /// `ipc:2f... (1MiB) in rank 2`: what a process exported and others opened and never closed.
    fn left_open(&self, process: &Process, handle: &Handle) -> Option<String> {
        (handle.exporter.as_ref() == Some(&process.proc)).then_some(())?;
        let open = handle.opens.iter().filter(|open| open.closed_ns.is_none());
        let mut who: Vec<&str> = open.map(|open| &*open.proc).collect();
        who.dedup();
        let size = handle.bytes.map(|size| format!(" ({})", bytes(size))).unwrap_or_default();
        let names = || self.names.processes(who.iter().copied());
        (!who.is_empty()).then(|| format!("{}{size} in {}", handle.fingerprint, names()))
    }
}
