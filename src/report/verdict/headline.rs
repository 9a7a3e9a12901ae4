//! The headline: one line per problem, causes before consequences, and the commands that show more. [`super::seen`] has what
//! stands there if there are no problems.

use super::ends::ABNORMAL;
use super::findings::{first_clause, times};
use super::incidents::{ASKED, FAILED, UNEXPLAINED};
use super::{Alike, Problem, Verdict, looked};
use crate::base::style::Mark;
use crate::model::{Finding, Process};
use crate::words::endings::{ended, is_crash};
use crate::words::names::{clean, counted};
use cupeer_rules::Severity;
use std::iter;

/// Largest number of lines of the headline, including the line about further commands.
const MOST_LINES: usize = 8;
/// Largest number of notes about processes that failed for an unknown reason.
const MOST_NOTES: usize = 2;

/// Line of the headline.
pub struct Line<'a> {
    /// Text of the line.
    pub text: String,
    /// Subject of the line, which links and colors follow.
    pub about: About<'a>,
}

/// Subject of a line.
#[derive(Clone, Copy)]
pub enum About<'a> {
    /// Process that crashed or was killed.
    Death(&'a Process),
    /// Group of findings; this is the first of them.
    Finding(&'a Finding),
    /// Problem without findings, of this severity.
    Problem(Severity),
    /// Additional facts about the lines above.
    Rest,
    /// Commands that show more details.
    More,
}

impl About<'_> {
    /// Returns the mark by which the line is colored; `None` for an unmarked line.
    pub fn mark(self) -> Option<Mark> {
        match self {
            About::Death(_) => Some(Mark::Error),
            About::Finding(finding) => Some(Mark::of_severity(finding.severity)),
            About::Problem(_) | About::Rest | About::More => None,
        }
    }
}

impl<'a> Verdict<'a> {
    /// Returns the lines, the worst first: a hang, a process that crashed or was killed, an error, an
    /// unexplained failure, a leak, another warning. Empty without problems. `shown` is the argument of
    /// `cupeer report` for this recording.
    pub fn headline(&self, shown: &str) -> Vec<Line<'a>> {
        let mut groups = self.alike();
        groups.sort_by_key(Alike::place);
        let dead: Vec<&Process> = self.died.iter().flat_map(Problem::processes).collect();
        let mut lines = self.problems_in_short(&groups, &dead);
        if lines.is_empty() {
            return lines;
        }
        let commands = self.commands(shown, dead.first().copied(), &groups);
        let room = MOST_LINES - usize::from(!commands.is_empty());
        if let Some(left_out @ 1..) = lines.len().checked_sub(room) {
            lines.truncate(room - 1);
            lines.push(rest(format!("and {} below", counted(left_out as u64 + 1, "more problem"))));
        }
        if !commands.is_empty() {
            lines.push(Line { text: format!("more: {}", commands.join("; ")), about: About::More });
        }
        lines
    }

    /// Returns a line for each problem; none without problems.
    fn problems_in_short(&self, groups: &[Alike<'a>], dead: &[&'a Process]) -> Vec<Line<'a>> {
        let mut lines: Vec<Line> = self.hung.iter().map(Problem::line).collect();
        let hung = lines.len();
        lines.extend(self.deaths_in_short(dead));
        let not_shown = self.deaths_not_shown();
        lines.extend(not_shown.map(|text| Line { text, about: About::Problem(Severity::Error) }));
        let ends = self.ends_without_cause(groups);
        lines.extend(ends.iter().map(|problem| problem.line()));
        lines.extend(groups.iter().map(|group| self.line(group)));
        if lines.is_empty() && self.others.is_empty() {
            return lines;
        }
        if !self.explains_ends() && lines.len() > hung && self.report.record.filters.is_empty() {
            let unexplained = self.unexplained("that").into_iter().chain(self.clues_in_short());
            lines.splice(hung + 1..hung + 1, unexplained);
        }
        if self.report.record.lost > 0 {
            let lost = counted(self.report.record.lost, "event");
            lines.push(rest(format!("{lost} could not be recorded: there may be more problems")));
        }
        let is_new = |problem: &&Problem| {
            !problem.in_short.is_empty() && !ends.iter().any(|end| std::ptr::eq(*end, *problem))
        };
        lines.extend(self.others.iter().filter(is_new).map(Problem::line));
        if lines.is_empty() {
            // If filters left out all findings and deaths, list the other problems.
            let others = self.others.iter();
            lines.extend(others.map(|problem| Line { text: problem.what.clone(), ..problem.line() }));
        }
        let is_asked = |problem: &Problem| problem.kind.is_some_and(|kind| kind.id == ASKED.id);
        let has_none = self.hung.is_none() && self.died.is_none() && self.told.is_empty();
        if has_none && self.others.iter().all(is_asked) {
            lines.extend(self.seen().into_iter().map(rest));
        }
        lines
    }

    /// Returns the failed processes and calls, if no error, and no warning about these processes, explains them.
    /// They come before warnings, with the causes that were ruled out.
    fn ends_without_cause(&self, groups: &[Alike]) -> Vec<&Problem<'a>> {
        let failed = self.of_kind(&FAILED);
        let is_about =
            |group: &Alike| failed.iter().flat_map(|it| it.processes()).any(|it| group.concerns(&it.proc));
        let is_cause = |group: &Alike| group.place() == 0 || group.place() == 3 && is_about(group);
        if groups.iter().any(is_cause) {
            return Vec::new();
        }
        failed.into_iter().chain(self.of_kind(&UNEXPLAINED)).collect()
    }

    /// Returns the commands that show more about the dead process and these groups of findings.
    fn commands(&self, shown: &str, died: Option<&Process>, groups: &[Alike]) -> Vec<String> {
        // Suggest no option for the process if filters already select one.
        let died = died.filter(|_| self.report.record.matching.is_none());
        let options = self.others.iter().map(|problem| problem.option.to_owned());
        let mut more: Vec<String> = died.map(option).into_iter().chain(options).collect();
        more.retain(|option| !option.is_empty());
        more.dedup();
        let report = format!("cupeer report {} {}", clean(shown), more.join(" or "));
        let rule = groups.first().map(|group| format!("cupeer explain {}", clean(&group.first().rule)));
        let hangs = self.hung.is_some() && self.report.record.running;
        let why = hangs.then(|| format!("cupeer why {}", clean(shown)));
        why.into_iter().chain((!more.is_empty()).then_some(report)).chain(rule).collect()
    }

    /// Returns lines that say that no finding explains a problem, which rules were checked and which were
    /// not, and the notes about the failed processes, because one of them may be the cause.
    pub fn unexplained(&self, what: &str) -> Vec<Line<'a>> {
        // A kill from outside, and a kill for lack of memory, need no note as explanation.
        let crashed = self.died.iter().filter(|died| died.processes().any(|process| is_crash(process.exit)));
        let notes = self.noted_about(crashed.chain(self.of_kind(&FAILED)));
        let below = [(!notes.is_empty(), "notes about it"), (!self.report.clues.is_empty(), "unusual facts")];
        let below: Vec<&str> =
            below.iter().filter(|(is_there, _)| *is_there).map(|(_, what)| *what).collect();
        let and =
            if below.is_empty() { String::new() } else { format!("; {} are below", below.join(" and ")) };
        let text = format!("no finding explains {what}{and}. {}", looked::scope(self.report));
        let notes = notes.iter().take(MOST_NOTES).map(|group| self.line(group));
        iter::once(Line { text, about: About::Rest }).chain(notes).collect()
    }

    /// Describes the end of the first process that crashed or was killed, and the number of others.
    fn deaths_in_short(&self, dead: &[&'a Process]) -> Vec<Line<'a>> {
        let Some((first, others)) = dead.split_first() else { return Vec::new() };
        let after = self.after(first.ended_by_ns);
        let act = match (first.pending.first(), &first.last_call) {
            (Some(call), _) => format!(" in {}, called at {}", clean(&call.function), self.at(call.since_ns)),
            (None, Some(call)) => {
                format!("; its last recorded call was {} at {}", clean(&call.function), self.at(call.at_ns))
            }
            (None, None) => String::new(),
        };
        let text = format!("{} {}{after}{act}", self.called_process(&first.proc), ended(first));
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

    /// Returns a line about crashed processes that the filters select only in part.
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
}

fn rest<'a>(text: String) -> Line<'a> {
    Line { text, about: About::Rest }
}

/// Returns the option of `cupeer report` that shows only this process.
fn option(process: &Process) -> String {
    match process.rank {
        Some(rank) => format!("--rank {rank}"),
        None => format!("--process {}", process.pid),
    }
}
