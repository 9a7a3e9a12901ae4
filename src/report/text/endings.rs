//! How processes ended: in a word, in a sentence, and which of them did not end well.

use super::super::model::{Exit, ExitKind, Handle, Process};
use super::super::moments::{bytes, number};
use super::View;
use super::names::{clean, counted, signal_name};
use std::collections::BTreeMap;

/// The most handles that are named of one process.
const MOST_HANDLES: usize = 3;

/// How a process ended, for a column.
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

/// How a process died; `None` where it returned, runs, or that is not known.
pub fn death(process: &Process) -> Option<String> {
    match process.exit {
        // Who ends so because of a fault plan, does what was asked for.
        _ if process.is_stopped_on_purpose() => None,
        Exit { kind: ExitKind::Signal, signal, .. } => {
            Some(format!("was killed by {}", signal_name(signal.unwrap_or(0).into())))
        }
        Exit { kind: ExitKind::Died, .. } => Some("ended without returning".into()),
        _ => None,
    }
}

impl<'a> View<'a> {
    /// The processes that died.
    pub fn deaths(&self) -> String {
        let items: Vec<String> =
            self.all_deaths().iter().map(|(process, how)| self.death(process, how)).collect();
        self.thing((items.len() as u64, "process"), "did not return", &items)
    }

    /// The processes that died, and how.
    pub fn all_deaths(&self) -> Vec<(&'a Process, String)> {
        // Where filters are given, what they leave out is not spoken of.
        let is_shown = self.report.record.matching.is_none();
        let all = self.report.processes.iter().filter(|_| is_shown);
        all.filter_map(|process| Some((process, death(process)?))).collect()
    }

    /// The processes that returned a failure, each with its exit status. Where a fault plan has made calls fail, that was to be expected.
    pub fn all_failing_ends(&self) -> Vec<(&'a Process, u8)> {
        if self.report.record.matching.is_some() || self.is_injected() {
            return Vec::new();
        }
        let code = |process: &'a Process| Some((process, process.exit.code.filter(|code| *code > 0)?));
        self.report.processes.iter().filter_map(code).collect()
    }

    /// Whether a fault plan has changed a call.
    pub fn is_injected(&self) -> bool {
        self.report.processes.iter().any(|process| process.injected > 0)
    }

    /// The processes that returned a failure, by exit status.
    pub fn failing_ends(&self) -> String {
        let mut by_code: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
        for (process, code) in self.all_failing_ends() {
            by_code.entry(code).or_default().push(&process.proc);
        }
        let count = by_code.values().map(Vec::len).sum::<usize>() as u64;
        let item = |(code, procs): (u8, Vec<&str>)| {
            format!("exit status {code}: {}", self.names.processes(procs.into_iter()))
        };
        let items: Vec<String> = by_code.into_iter().map(item).collect();
        self.thing((count, "process"), "ended with a failure", &items)
    }

    pub fn death(&self, process: &Process, how: &str) -> String {
        let mut text = format!("{} {how}", self.names.process(&process.proc));
        if let Some(call) = process.pending.first() {
            text += &format!(" in {}, {}", clean(&call.function), self.called(call));
            text += &match process.pending.len() {
                1 => String::new(),
                all => format!(", and in {}", counted(all as u64 - 1, "more call")),
            };
        } else if let Some(call) = &process.last_call {
            text += &format!("; its last call was {} at {}", clean(&call.function), self.at(call.at_ns));
        }
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

    /// What stands before the reasons why nothing is wrong: how far that is known.
    pub fn well(&self, filtered: &str) -> String {
        let count = |kinds: &[ExitKind]| {
            let is_one =
                |process: &&Process| kinds.contains(&process.exit.kind) && !process.is_stopped_on_purpose();
            self.report.processes.iter().filter(is_one).count() as u64
        };
        let has_suppressed = self.report.findings.iter().any(|finding| finding.suppressed_by.is_some());
        let else_is = if has_suppressed { "but what is suppressed is " } else { "is " };
        let unknown = count(&[ExitKind::Gone, ExitKind::Unseen]);
        let so_far = if count(&[ExitKind::Running]) > 0 { " so far" } else { "" };
        match unknown {
            0 => format!("Nothing {else_is}wrong{filtered}{so_far}"),
            _ => format!(
                "Nothing {else_is}wrong{filtered}{so_far}, but how {} ended is unknown",
                counted(unknown, "process")
            ),
        }
    }
}
