//! The head: the recording, its place, time, and size, and what is missing from it.

use super::TextView;
use cupeer_report::endings::is_end_request;
use cupeer_report::model::{Exit, ExitKind, Process, Quiet};
use cupeer_report::moments::{date, duration, number};
use cupeer_report::names::{clean, counted, format_unrecorded_count, ranks};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of program names that are listed for processes without a recording.
const MOST_PROGRAMS: usize = 4;

/// Largest number of commands that are shown.
const MOST_COMMANDS: usize = 4;

impl TextView<'_> {
    pub fn head(&self) -> String {
        let record = &self.report.record;
        let rings = self.report.processes.iter().filter(|process| process.mode == "ring").count();
        let limited = self.report.reached_limits();
        let ring = match record.mode {
            _ if limited.as_ref().is_some_and(|limited| limited.processes == rings) => "",
            "full" => "",
            "ring" => ", which keeps the last events, and what is open",
            _ => ", of which some processes keep only the last events, and what is open",
        };
        let mut text = self.wrap_item("recording  ", &format!("{}{ring}", clean(&record.path)));
        for command in self.commands().iter().take(MOST_COMMANDS) {
            text += &self.wrap_item("command    ", &clean(command));
        }
        if let Some(limited) = limited {
            text += &self.wrap_item("LIMIT      ", &limited.sentence());
        }
        if !record.hosts.is_empty() {
            let began = date(record.began_ns);
            text += &self.wrap_item("began      ", &format!("{began}; times below are seconds since then"));
            let so_far = if record.running { " so far" } else { "" };
            let lasted = duration(record.ended_ns - record.began_ns);
            text += &self.wrap_item("lasted     ", &format!("{lasted}{so_far}"));
        }
        text += &self.wrap_item("processes  ", &self.describe_processes());
        text += &self.wrap_item("events     ", &self.format_event_count());
        if record.lost > 0 {
            text += &self.wrap_item(
                "LOST       ",
                &format!("{} could not be recorded, and are missing from this report", counted(record.lost, "event")),
            );
        }
        for stall in self.describe_stalls() {
            text += &self.wrap_item("stalled    ", &stall);
        }
        if let Some(quiet) = self.describe_unrecorded() {
            text += &self.wrap_item("quiet      ", &quiet);
        }
        if !record.filters.is_empty() {
            text += &self.wrap_item("shown      ", &clean(&record.filters.join(" ")));
        }
        for problem in &record.problems {
            text += &self.wrap_item("problem    ", &clean(problem));
        }
        text
    }

    /// Returns the commands of the runs. For an older recording without commands, returns that of the process
    /// that began first.
    pub fn commands(&self) -> Vec<String> {
        let all = self.report.processes.iter().filter(|process| !process.arguments.is_empty());
        let first = || {
            let first = all.min_by_key(|process| process.began_ns)?;
            Some(first.started_by.clone().unwrap_or_else(|| first.arguments.join(" ")))
        };
        match &self.report.record.commands[..] {
            [] => first().into_iter().collect(),
            commands => commands.to_vec(),
        }
    }

    /// Describes processes that shared nothing: `1,990 more processes shared nothing and were not recorded:
    /// python3 (1,988), sh (2)`.
    fn describe_unrecorded(&self) -> Option<String> {
        let record = &self.report.record;
        let item = |quiet: &Quiet| format!("{} ({})", clean(&quiet.program), number(quiet.processes));
        let mut programs: Vec<String> = record.quiet.iter().take(MOST_PROGRAMS).map(item).collect();
        if let Some(others @ 1..) = record.quiet.len().checked_sub(MOST_PROGRAMS) {
            programs.push(counted(others as u64, "more program"));
        }
        let of = format_unrecorded_count(record.count_quiet_processes(), self.report.processes.len())
            .filter(|_| record.filters.is_empty())?;
        Some(format!("{of}: {}", programs.join(", ")))
    }

    /// Formats the number of events: `122 of 1,004` if filters select only some.
    fn format_event_count(&self) -> String {
        let record = &self.report.record;
        let all = format!("{}{}", self.report.kept_prefix(), number(record.events));
        let all = match record.repeated {
            0 => all,
            more => {
                format!("{all}, and {} that only repeat a failure and are counted", counted(more, "call"))
            }
        };
        match record.matching {
            None => all,
            Some(0) => format!("no call matches the filters; there are {all} events"),
            Some(matching) => format!("{} of {all}", number(matching)),
        }
    }

    /// Describes the processes: `8 on 1 host (vm): 8 have ended; ranks 0-7`.
    fn describe_processes(&self) -> String {
        // A process that executed another program has one entry per program.
        let (became, processes): (Vec<&Process>, Vec<&Process>) =
            self.report.processes.iter().partition(|process| process.exit.kind == ExitKind::Executed);
        let hosts = &self.report.record.hosts;
        if hosts.is_empty() {
            return "none".into();
        }
        let mut text = format!("{} on {}", number(processes.len() as u64), counted(hosts.len() as u64, "host"));
        if hosts.len() <= 4 {
            text += &format!(" ({})", clean(&hosts.join(", ")));
        }
        if processes.is_empty() {
            return text;
        }
        let mut counts = BTreeMap::new();
        processes.iter().for_each(|process| *counts.entry(state_in_words(process)).or_insert(0) += 1);
        let before = counted(became.len() as u64, "other program");
        let states: Vec<String> =
            counts.iter().map(|((_, state), count)| format!("{} {state}", number(*count))).collect();
        text += &format!(": {}", states.join(", "));
        text += &if became.is_empty() { String::new() } else { format!(", after {before} in the same process") };
        let numbers: BTreeSet<u32> = processes.iter().filter_map(|process| process.rank).collect();
        if !numbers.is_empty() {
            text += &format!("; {}", ranks(numbers.into_iter()));
        }
        text
    }
}

/// Returns the state of a process in a few words, and its sort order.
fn state_in_words(process: &Process) -> (u8, &'static str) {
    let is_asked = process.asked.is_some() || process.exit.signal.is_some_and(is_end_request);
    match process.exit {
        _ if is_asked => (3, "ended by a signal"),
        Exit { kind: ExitKind::Running, .. } => (0, "running"),
        Exit { kind: ExitKind::Returned, code: Some(1..), .. } => (2, "exited with an error"),
        Exit { kind: ExitKind::Returned | ExitKind::Executed | ExitKind::Gone, .. } => (1, "ended"),
        Exit { kind: ExitKind::Signal, .. } => (4, "killed by a signal"),
        Exit { kind: ExitKind::Died, .. } => (5, "killed, or called exit_group"),
        Exit { kind: ExitKind::Unseen, .. } => (6, "which may still be running, or may have ended"),
    }
}
