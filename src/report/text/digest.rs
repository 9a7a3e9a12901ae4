//! The summary at the start of a report: one line per problem, causes before consequences, and the commands that show
//! more; or that there are no problems.

use super::super::findings::is_explanation;
use super::super::kinds::{self, first_clause};
use super::super::looked;
use super::super::model::{ExitKind, FailureGroup, Finding, Handle, Proc, Process, State};
use super::super::moments::number;
use super::View;
use super::findings::times;
use super::names::{clean, counted, quiet_ones};
use super::wrong::Thing;
use crate::style::Mark;
use crate::table::wrap;

/// The most lines, the one about further commands among them.
const MOST_LINES: usize = 8;
/// How many rules are named that were not looked for.
const MOST_RULES: usize = 3;

/// A line of the digest.
pub struct Line<'a> {
    pub text: String,
    pub about: About<'a>,
}

/// What a line of the digest is about.
#[derive(Clone, Copy)]
pub enum About<'a> {
    /// A process that died.
    Death(&'a Process),
    /// What a rule found.
    Finding(&'a Finding),
    /// Other things that are wrong.
    Rest,
    /// Which commands show more.
    More,
}

impl About<'_> {
    /// How its line is marked.
    pub fn mark(self) -> Option<Mark> {
        match self {
            About::Death(_) => Some(Mark::Error),
            About::Finding(finding) => Some(Mark::of_severity(finding.severity)),
            About::Rest | About::More => None,
        }
    }
}

impl<'a> View<'a> {
    pub fn digest(&self, wrong: &[Thing]) -> String {
        let lines = self.digest_lines(wrong);
        if lines.is_empty() {
            return self.nothing();
        }
        let marked = |Line { text, about }: &Line| match about.mark() {
            None => self.hanging(text),
            // The first word is a severity, or who died.
            Some(mark) => {
                self.style.mark_in(mark, text.split(" in ").next().unwrap_or(text), &self.hanging(text))
            }
        };
        lines.iter().map(marked).chain(["\n".into()]).collect()
    }

    /// The lines as they are before they are wrapped; none, where nothing is wrong.
    pub fn digest_lines(&self, wrong: &[Thing]) -> Vec<Line<'a>> {
        let kinds = kinds::told(self.report);
        let rest = |text: String| Line { text, about: About::Rest };
        let mut lines = self.deaths_in_short();
        lines.extend(self.deaths_not_shown().map(rest));
        // What no finding explains comes first, with what was looked at.
        let is_explained = kinds.iter().any(|kind| !is_explanation(&kind.first().rule));
        let ends = [self.failing_ends(), self.failed()].into_iter().flatten().map(|thing| thing.in_short);
        let ends: Vec<String> = if is_explained { Vec::new() } else { ends.collect() };
        lines.extend(ends.iter().cloned().map(rest));
        let kind =
            |kind: &kinds::Kind<'a>| Line { text: self.kind(kind), about: About::Finding(kind.first()) };
        lines.extend(kinds.iter().map(kind));
        if lines.is_empty() && wrong.is_empty() {
            return lines;
        }
        if !is_explained && !lines.is_empty() && self.report.record.filters.is_empty() {
            let text = format!("no finding explains that. {}", looked::scope(self.report));
            lines.insert(1, rest(text));
        }
        if self.report.record.lost > 0 {
            let lost = counted(self.report.record.lost, "event");
            lines.push(rest(format!("{lost} could not be recorded: there may be more problems")));
        }
        let is_new = |thing: &&Thing| !thing.in_short.is_empty() && !ends.contains(&thing.in_short);
        let things = wrong.iter().filter(is_new);
        lines.extend(things.map(|thing| rest(thing.in_short.clone())));
        if lines.is_empty() {
            // What others were to say, they do not: filters have left them out.
            lines.extend(wrong.iter().map(|thing| rest(thing.what.clone())));
        }
        let mut more: Vec<String> = Vec::new();
        // Filters may have chosen it already.
        let dead = self.all_deaths();
        let died = dead.first().filter(|_| self.report.record.matching.is_none());
        more.extend(died.map(|(process, _)| option(process)));
        for thing in wrong {
            more.extend((!thing.option.is_empty()).then(|| thing.option.to_owned()));
        }
        more.dedup();
        let report = format!("cupeer report {} {}", clean(self.shown), more.join(" or "));
        let rule = kinds.first().map(|kind| format!("cupeer explain {}", clean(&kind.first().rule)));
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

    /// A line of the digest; where it has to be wrapped, its other lines are further in.
    fn hanging(&self, line: &str) -> String {
        let mut lines = wrap(line, self.width.saturating_sub(4).max(20)).into_iter();
        let first = lines.next().unwrap_or_default();
        lines.fold(first, |text, line| text + "\n    " + &line) + "\n"
    }

    /// What happened to the first process that died, and how many others did.
    fn deaths_in_short(&self) -> Vec<Line<'a>> {
        let dead = self.all_deaths();
        let Some(((first, how), others)) = dead.split_first() else { return Vec::new() };
        let act = match (first.pending.first(), &first.last_call) {
            (Some(call), _) => format!(" in {} at {}", clean(&call.function), self.at(call.since_ns)),
            (None, Some(call)) => format!(" after {} at {}", clean(&call.function), self.at(call.at_ns)),
            (None, None) => String::new(),
        };
        let text = format!("{} {how}{act}", self.called_process(&first.proc));
        let mut lines = vec![Line { text, about: About::Death(first) }];
        if let Some((next, _)) = others.first() {
            let procs = self.names.processes(others.iter().map(|(process, _)| &*process.proc));
            let text =
                format!("{} ended abnormally after it: {procs}", counted(others.len() as u64, "process"));
            lines.push(Line { text, about: About::Death(next) });
        }
        lines
    }

    fn kind(&self, kind: &kinds::Kind) -> String {
        let first = kind.first();
        let message = kind.message();
        let count = if kind.count() > 1 { format!(", {}", times(kind.count())) } else { String::new() };
        format!(
            "{} {} in {}{count}: {}",
            first.severity,
            clean(&first.rule),
            kind.who(self.report),
            clean(first_clause(&message))
        )
    }

    /// That nothing is wrong, as far as can be seen.
    pub fn nothing(&self) -> String {
        if self.report.record.matching == Some(0) {
            return String::new();
        }
        let unseen: Vec<(&Proc, String)> = self.report.unseen().collect();
        if let Some((_, why)) = unseen.first() {
            let processes = self.names.processes(unseen.iter().map(|(proc, _)| &***proc));
            let text =
                format!("libcuda was loaded in {processes}, but cupeer saw no call that it records: {why}.");
            return self.item("", &text) + "\n";
        }
        let record = &self.report.record;
        let is_whole = record.problems.is_empty();
        let filtered = match (record.matching, record.dropped) {
            (Some(_), _) => " with what is shown",
            (None, true) if is_whole => " with what was kept",
            (None, true) => " with what was kept, as far as could be seen",
            (None, false) if is_whole => "",
            (None, false) => " as far as could be seen",
        };
        let quiet = quiet_ones(record.quiet_processes(), 0).filter(|_| record.hosts.is_empty());
        if let Some(quiet) = quiet {
            return self.item("", &format!("Nothing is known: {quiet}. --record full keeps all.")) + "\n";
        }
        let mut text = format!("{}: all calls returned", self.well(filtered));
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
        let failing = self.all_failures_returned().len() as u64;
        if failing > 0 {
            // Else that would be wrong.
            let ended = counted(failing, "process");
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
        self.item("", &text) + &self.outside() + &self.unchecked() + "\n"
    }

    /// What stands before the reasons why nothing is wrong: how far that is known.
    fn well(&self, filtered: &str) -> String {
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

    /// That no handle is open, and how many were freed before they were closed: a rule has told of those in a note.
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

    /// What was not looked for, or not wholly, in processes that were not checked.
    fn unchecked(&self) -> String {
        let Some((how_far, rules)) = looked::only_at_the_call(self.report) else { return String::new() };
        let named = rules[..rules.len().min(MOST_RULES)].join(", ");
        let text = match rules.len().saturating_sub(MOST_RULES) {
            0 => format!("Only partly checked without --check{how_far}: {named}."),
            more => format!("Only partly checked without --check{how_far}: {named} and {more} more rules."),
        };
        self.item("", &text)
    }
}

/// The option that shows one process alone.
fn option(process: &Process) -> String {
    match process.rank {
        Some(rank) => format!("--rank {rank}"),
        None => format!("--process {}", process.pid),
    }
}
