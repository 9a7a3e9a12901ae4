//! The headline: one line per problem, causes before consequences, and the commands that show more; or that there are no
//! problems, as far as can be seen.

use super::ends::ABNORMAL;
use super::findings::{first_clause, times};
use super::incidents::{FAILED, UNEXPLAINED};
use super::{Alike, Problem, Verdict, looked};
use crate::base::moments::number;
use crate::base::style::Mark;
use crate::model::{ExitKind, FailureGroup, Finding, Handle, Proc, Process, State};
use crate::words::endings::ended;
use crate::words::names::{clean, counted, quiet_ones};
use std::iter;

/// The most lines, the one about further commands among them.
const MOST_LINES: usize = 8;
/// The most notes about processes that failed for no known reason.
const MOST_NOTES: usize = 2;
/// How many rules are named that were not looked for.
const MOST_RULES: usize = 3;

/// Line of the headline.
pub struct Line<'a> {
    /// Text of the line.
    pub text: String,
    /// Subject of the line.
    pub about: About<'a>,
}

/// Subject of a line.
#[derive(Clone, Copy)]
pub enum About<'a> {
    /// A process that died.
    Death(&'a Process),
    /// Findings, the first of which is this one.
    Finding(&'a Finding),
    /// Other problems.
    Rest,
    /// Commands that show more.
    More,
}

impl About<'_> {
    /// Returns how the line is marked.
    pub fn mark(self) -> Option<Mark> {
        match self {
            About::Death(_) => Some(Mark::Error),
            About::Finding(finding) => Some(Mark::of_severity(finding.severity)),
            About::Rest | About::More => None,
        }
    }
}

impl<'a> Verdict<'a> {
    /// Returns the lines; none if nothing is wrong. `shown` is the argument of `cupeer report` for this recording.
    pub fn headline(&self, shown: &str) -> Vec<Line<'a>> {
        let groups = self.alike();
        let rest = |text: String| Line { text, about: About::Rest };
        let dead: Vec<&Process> = self.died.iter().flat_map(Problem::processes).collect();
        let mut lines = self.deaths_in_short(&dead);
        lines.extend(self.deaths_not_shown().map(rest));
        // What no finding explains comes first, with what was looked at.
        let is_explained = self.explains_ends();
        let ends: Vec<&Problem> =
            [&FAILED, &UNEXPLAINED].into_iter().filter_map(|kind| self.of_kind(kind)).collect();
        let ends = if is_explained { &[][..] } else { &ends };
        lines.extend(ends.iter().map(|problem| rest(problem.in_short.clone())));
        lines.extend(groups.iter().map(|group| self.line(group)));
        if lines.is_empty() && self.others.is_empty() {
            return lines;
        }
        if !is_explained && !lines.is_empty() && self.report.record.filters.is_empty() {
            lines.splice(1..1, self.unexplained("that"));
        }
        if self.report.record.lost > 0 {
            let lost = counted(self.report.record.lost, "event");
            lines.push(rest(format!("{lost} could not be recorded: there may be more problems")));
        }
        let is_new = |problem: &&Problem| {
            !problem.in_short.is_empty() && !ends.iter().any(|end| std::ptr::eq(*end, *problem))
        };
        lines.extend(self.others.iter().filter(is_new).map(|problem| rest(problem.in_short.clone())));
        if lines.is_empty() {
            // Filters have left out the problems that were to say it.
            lines.extend(self.others.iter().map(|problem| rest(problem.what.clone())));
        }
        // Filters may have chosen it already.
        let died = dead.first().filter(|_| self.report.record.matching.is_none());
        let options = self.others.iter().map(|problem| problem.option.to_owned());
        let mut more: Vec<String> = died.map(|process| option(process)).into_iter().chain(options).collect();
        more.retain(|option| !option.is_empty());
        more.dedup();
        let report = format!("cupeer report {} {}", clean(shown), more.join(" or "));
        let rule = groups.first().map(|group| format!("cupeer explain {}", clean(&group.first().rule)));
        let commands: Vec<String> = (!more.is_empty()).then_some(report).into_iter().chain(rule).collect();
        let room = MOST_LINES - usize::from(!commands.is_empty());
        let left_out = if lines.len() > room { lines.len() - (room - 1) } else { 0 };
        lines.truncate(lines.len() - left_out);
        if left_out > 0 {
            lines.push(rest(format!("and {} below", counted(left_out as u64, "more problem"))));
        }
        if !commands.is_empty() {
            lines.push(Line { text: format!("more: {}", commands.join("; ")), about: About::More });
        }
        lines
    }

    /// Returns that no finding explains something, what cupeer looked at, and the notes about the processes that failed: the cause may
    /// be among these.
    pub fn unexplained(&self, what: &str) -> Vec<Line<'a>> {
        let failed = self.died.iter().chain(self.of_kind(&FAILED));
        let notes = self.noted_about(failed);
        let but = if notes.is_empty() { "" } else { ", but a note may" };
        let text = format!("no finding explains {what}{but}. {}", looked::scope(self.report));
        let notes = notes.iter().take(MOST_NOTES).map(|group| self.line(group));
        iter::once(Line { text, about: About::Rest }).chain(notes).collect()
    }

    /// What happened to the first process that died, and how many others did.
    fn deaths_in_short(&self, dead: &[&'a Process]) -> Vec<Line<'a>> {
        let Some((first, others)) = dead.split_first() else { return Vec::new() };
        let act = match (first.pending.first(), &first.last_call) {
            (Some(call), _) => format!(" in {} at {}", clean(&call.function), self.at(call.since_ns)),
            (None, Some(call)) => format!(" after {} at {}", clean(&call.function), self.at(call.at_ns)),
            (None, None) => String::new(),
        };
        let text = format!("{} {}{act}", self.called_process(&first.proc), ended(first));
        let mut lines = vec![Line { text, about: About::Death(first) }];
        let (later, others): (Vec<_>, Vec<_>) =
            others.iter().copied().partition(|process| first.ended_before(process));
        for (dead, when) in [(later, "ended abnormally after it"), (others, "also ended abnormally")] {
            if let Some(next) = dead.first() {
                let procs = self.names.processes(dead.iter().map(|process| &*process.proc));
                let text = format!("{} {when}: {procs}", counted(dead.len() as u64, "process"));
                lines.push(Line { text, about: About::Death(next) });
            }
        }
        lines
    }

    /// That processes died whose calls filters leave out in part.
    fn deaths_not_shown(&self) -> Option<String> {
        let dead = self.dead().count() as u64;
        let is_told = self.report.record.in_part && dead > 0;
        is_told
            .then(|| format!("{} {ABNORMAL}, as the report without filters says", counted(dead, "process")))
    }

    fn line(&self, group: &Alike<'a>) -> Line<'a> {
        let (first, message) = (group.first(), group.message());
        let count = if group.count() > 1 { format!(", {}", times(group.count())) } else { String::new() };
        let text = format!(
            "{} {} in {}{count}: {}",
            first.severity,
            clean(&first.rule),
            group.who(self),
            clean(first_clause(&message))
        );
        Line { text, about: About::Finding(first) }
    }

    /// Returns what is known if nothing is wrong: a paragraph each.
    pub fn nothing(&self) -> Vec<String> {
        if self.report.record.matching == Some(0) {
            return Vec::new();
        }
        let unseen: Vec<(&Proc, String)> = self.report.unseen().collect();
        if let Some((_, why)) = unseen.first() {
            let processes = self.names.processes(unseen.iter().map(|(proc, _)| &***proc));
            return vec![format!(
                "libcuda was loaded in {processes}, but cupeer saw no call that it records: {why}."
            )];
        }
        let record = &self.report.record;
        let quiet = quiet_ones(record.quiet_processes(), 0).filter(|_| record.hosts.is_empty());
        if let Some(quiet) = quiet {
            return vec![format!("Nothing is known: {quiet}. --record full keeps all.")];
        }
        [Some(self.well()), self.outside(), self.unchecked()].into_iter().flatten().collect()
    }

    /// That nothing is wrong, how far that is known, and why.
    fn well(&self) -> String {
        let record = &self.report.record;
        let is_whole = record.problems.is_empty();
        let filtered = match (record.matching, record.dropped) {
            (Some(_), _) => " with what is shown",
            (None, true) if is_whole => " with what was kept",
            (None, true) => " with what was kept, as far as could be seen",
            (None, false) if is_whole => "",
            (None, false) => " as far as could be seen",
        };
        let mut text = format!("{}: all calls returned", self.how_far(filtered));
        if self.report.processes.iter().any(|process| !process.pending.is_empty()) {
            text += " except those that a fault plan stopped";
        }
        let groups = &self.report.failure_groups;
        if groups.is_empty() {
            text += ", none failed";
        } else if groups.iter().all(FailureGroup::is_on_purpose) {
            text += ", none failed except because of a fault plan";
        }
        let expected = groups.iter().filter(|group| group.is_expected());
        let expected: u64 = expected.map(|group| group.count).sum();
        if expected > 0 {
            text += &format!(", {}", counted(expected, "expected failure"));
        }
        let is_open = |handle: &&Handle| matches!(handle.state, State::Open | State::OpenAtExit);
        match self.report.handles.iter().filter(is_open).count() {
            0 => text += &self.none_open(),
            count => text += &format!(", {} open", counted(count as u64, "handle")),
        }
        if record.lost > 0 {
            text += ", as far as events were kept";
        }
        text += ".";
        let is_own = |process: &&Process| !process.is_stopped_on_purpose() && !record.in_part;
        let failing = self.report.processes.iter().filter(is_own);
        let failing = failing.filter(|process| process.exit.code.is_some_and(|code| code > 0)).count();
        if failing > 0 {
            // Without a fault plan, that would be wrong.
            let ended = counted(failing as u64, "process");
            text += &format!(" {ended} exited with an error while a fault plan was active.");
        }
        match self.report.limited() {
            Some(limited) => text += &format!(" {}.", limited.sentence()),
            None if record.dropped => text += " The ring no longer contains older calls and their findings.",
            None => {}
        }
        if record.quiet_processes() > 0 {
            text += " Processes that shared nothing were not recorded, so how they ended is unknown.";
        }
        text
    }

    /// How far it is known that nothing is wrong.
    fn how_far(&self, filtered: &str) -> String {
        let count = |kinds: &[ExitKind]| {
            let is_one =
                |process: &&Process| kinds.contains(&process.exit.kind) && !process.is_stopped_on_purpose();
            self.report.processes.iter().filter(is_one).count() as u64
        };
        let unknown = count(&[ExitKind::Gone, ExitKind::Unseen]);
        let so_far = if count(&[ExitKind::Running]) > 0 { " so far" } else { "" };
        let has_suppressed = self.report.findings.iter().any(|finding| finding.suppressed_by.is_some());
        let else_is = if has_suppressed { "but what is suppressed is " } else { "is " };
        match unknown {
            0 => format!("Nothing {else_is}wrong{filtered}{so_far}"),
            _ => format!(
                "Nothing {else_is}wrong{filtered}{so_far}, but how {} ended is unknown",
                counted(unknown, "process")
            ),
        }
    }

    /// That no handle is open, and how many were freed before they were closed, of which a note tells.
    fn none_open(&self) -> String {
        let is_freed = |handle: &&Handle| handle.state == State::FreedWhileOpen;
        match self.report.handles.iter().filter(is_freed).count() as u64 {
            0 => ", and no handles are open".into(),
            1 => ", and no handles are open; 1 handle was freed while still open in another process (see Notes)".into(),
            freed => format!(
                ", and no handles are open; {} handles were freed while still open in another process (see Notes)",
                number(freed)
            ),
        }
    }

    /// Returns what was not looked for, or not wholly, in processes that were not checked.
    pub fn unchecked(&self) -> Option<String> {
        let (how_far, rules) = looked::only_at_the_call(self.report)?;
        let named = rules[..rules.len().min(MOST_RULES)].join(", ");
        Some(match rules.len().saturating_sub(MOST_RULES) {
            0 => format!("Only partly checked without --check{how_far}: {named}."),
            more => format!("Only partly checked without --check{how_far}: {named} and {more} more rules."),
        })
    }
}

/// The option that shows one process alone.
fn option(process: &Process) -> String {
    match process.rank {
        Some(rank) => format!("--rank {rank}"),
        None => format!("--process {}", process.pid),
    }
}
