//! The headline: one line per problem, causes before consequences, and the commands that show more. [`super::seen`] has what
//! stands there if there are no problems.

use super::ends::ABNORMAL;
use super::findings::{first_clause, times};
use super::incidents::{ASKED_TO_END, FAILED, UNEXPLAINED};
use super::{FindingGroup, Problem, Verdict, looked};
use crate::base::style::Emphasis;
use crate::model::{Finding, Process};
use crate::words::endings::{describe_end, is_crash};
use crate::words::names::{clean, counted};
use cupeer_rules::Severity;
use std::iter;

/// Largest number of lines of the headline, including the line about further commands. If there are more
/// problems, one line has their number.
const MOST_LINES: usize = 8;
/// Number of notes, the first ones, about processes that failed for an unknown reason.
const MOST_NOTES: usize = 2;

/// Line of the headline.
pub struct HeadlineLine<'a> {
    /// Text of the line.
    pub text: String,
    /// Subject of the line, which links and colors follow.
    pub about: LineSubject<'a>,
}

/// Subject of a line.
#[derive(Clone, Copy)]
pub enum LineSubject<'a> {
    /// Process that crashed or was killed.
    Death(&'a Process),
    /// Group of findings; this is the first of them.
    Finding(&'a Finding),
    /// Problem without findings, of this severity.
    Problem(Severity),
    /// Additional facts about the lines above.
    Remark,
    /// Commands that show more details.
    Commands,
}

impl LineSubject<'_> {
    /// Returns the emphasis by which the line is colored; `None` for a plain line.
    pub fn emphasis(self) -> Option<Emphasis> {
        match self {
            LineSubject::Death(_) => Some(Emphasis::Error),
            LineSubject::Finding(finding) => Some(Emphasis::of_severity(finding.severity)),
            LineSubject::Problem(_) | LineSubject::Remark | LineSubject::Commands => None,
        }
    }
}

impl<'a> Verdict<'a> {
    /// Returns the lines, the worst first: a hang, a process that crashed or was killed, an error, an
    /// unexplained failure, a leak, another warning. Empty without problems. `shown` is the argument of
    /// `cupeer report` for this recording.
    pub fn headline(&self, shown: &str) -> Vec<HeadlineLine<'a>> {
        let mut groups = self.main_finding_groups();
        groups.sort_by_key(FindingGroup::headline_rank);
        let dead: Vec<&Process> = self.deaths.iter().flat_map(Problem::processes).collect();
        let mut lines = self.problem_lines(&groups, &dead);
        if lines.is_empty() {
            return lines;
        }
        let commands = self.further_commands(shown, dead.first().copied(), &groups);
        let room = MOST_LINES - usize::from(!commands.is_empty());
        if let Some(left_out @ 1..) = lines.len().checked_sub(room) {
            lines.truncate(room - 1);
            lines.push(remark_line(format!("and {} below", counted(left_out as u64 + 1, "more problem"))));
        }
        if !commands.is_empty() {
            lines.push(HeadlineLine { text: format!("more: {}", commands.join("; ")), about: LineSubject::Commands });
        }
        lines
    }

    /// Returns a line for each problem; none without problems.
    fn problem_lines(&self, groups: &[FindingGroup<'a>], dead: &[&'a Process]) -> Vec<HeadlineLine<'a>> {
        let mut lines: Vec<HeadlineLine> = self.hangs.iter().map(Problem::headline_line).collect();
        let hung = lines.len();
        lines.extend(self.death_lines(dead));
        let not_shown = self.filtered_deaths_text();
        lines.extend(not_shown.map(|text| HeadlineLine { text, about: LineSubject::Problem(Severity::Error) }));
        let ends = self.unexplained_ends(groups);
        lines.extend(ends.iter().map(|problem| problem.headline_line()));
        lines.extend(groups.iter().map(|group| self.line_of_group(group)));
        if lines.is_empty() && self.other_problems.is_empty() {
            return lines;
        }
        if !self.explains_ends() && lines.len() > hung && self.report.record.filters.is_empty() {
            let unexplained = self.unexplained_lines("that").into_iter().chain(self.clue_lines());
            lines.splice(hung + 1..hung + 1, unexplained);
        }
        if self.report.record.lost > 0 {
            let lost = counted(self.report.record.lost, "event");
            lines.push(remark_line(format!("{lost} could not be recorded: there may be more problems")));
        }
        let is_new =
            |problem: &&Problem| !problem.in_short.is_empty() && !ends.iter().any(|end| std::ptr::eq(*end, *problem));
        lines.extend(self.other_problems.iter().filter(is_new).map(Problem::headline_line));
        if lines.is_empty() {
            // If filters left out all findings and deaths, list the other problems.
            let others = self.other_problems.iter();
            lines.extend(others.map(|problem| HeadlineLine { text: problem.what.clone(), ..problem.headline_line() }));
        }
        let is_asked = |problem: &Problem| problem.kind.is_some_and(|kind| kind.id == ASKED_TO_END.id);
        let has_none = self.hangs.is_none() && self.deaths.is_none() && self.main_findings.is_empty();
        if has_none && self.other_problems.iter().all(is_asked) {
            lines.extend(self.describe_coverage().into_iter().map(remark_line));
        }
        lines
    }

    /// Returns the failed processes and calls, if no error, and no warning about these processes, explains them.
    /// They come before warnings, with the causes that were ruled out.
    fn unexplained_ends(&self, groups: &[FindingGroup]) -> Vec<&Problem<'a>> {
        let failed = self.problem_of_kind(&FAILED);
        let is_about =
            |group: &FindingGroup| failed.iter().flat_map(|it| it.processes()).any(|it| group.is_about(&it.proc));
        let is_cause =
            |group: &FindingGroup| group.headline_rank() == 0 || group.headline_rank() == 3 && is_about(group);
        if groups.iter().any(is_cause) {
            return Vec::new();
        }
        failed.into_iter().chain(self.problem_of_kind(&UNEXPLAINED)).collect()
    }

    /// Returns the commands that show more about the dead process and these groups of findings.
    fn further_commands(&self, shown: &str, died: Option<&Process>, groups: &[FindingGroup]) -> Vec<String> {
        // Suggest no option for the process if filters already select one.
        let died = died.filter(|_| self.report.record.matching.is_none());
        let options = self.other_problems.iter().map(|problem| problem.option.to_owned());
        let mut more: Vec<String> = died.map(process_option).into_iter().chain(options).collect();
        more.retain(|option| !option.is_empty());
        more.dedup();
        let report = format!("cupeer report {} {}", clean(shown), more.join(" or "));
        let rule = groups.first().map(|group| format!("cupeer explain {}", clean(&group.first_finding().rule)));
        let hangs = self.hangs.is_some() && self.report.record.running;
        let why = hangs.then(|| format!("cupeer why {}", clean(shown)));
        why.into_iter().chain((!more.is_empty()).then_some(report)).chain(rule).collect()
    }

    /// Returns lines that say that no finding explains a problem, which rules were checked and which were
    /// not, and the notes about the failed processes, because one of them may be the cause.
    pub fn unexplained_lines(&self, what: &str) -> Vec<HeadlineLine<'a>> {
        // A kill from outside, and a kill for lack of memory, need no note as explanation.
        let crashed = self.deaths.iter().filter(|died| died.processes().any(|process| is_crash(process.exit)));
        let notes = self.note_groups_about(crashed.chain(self.problem_of_kind(&FAILED)));
        let below = [(!notes.is_empty(), "notes about it"), (!self.report.clues.is_empty(), "unusual facts")];
        let below: Vec<&str> = below.iter().filter(|(is_there, _)| *is_there).map(|(_, what)| *what).collect();
        let and = if below.is_empty() { String::new() } else { format!("; {} are below", below.join(" and ")) };
        let text = format!("no finding explains {what}{and}. {}", looked::describe_scope(self.report));
        let notes = notes.iter().take(MOST_NOTES).map(|group| self.line_of_group(group));
        iter::once(HeadlineLine { text, about: LineSubject::Remark }).chain(notes).collect()
    }

    /// Describes the end of the first process that crashed or was killed, and the number of others.
    fn death_lines(&self, dead: &[&'a Process]) -> Vec<HeadlineLine<'a>> {
        let Some((first, others)) = dead.split_first() else { return Vec::new() };
        let after = self.format_after(first.ended_by_ns);
        let act = match (first.pending.first(), &first.last_call) {
            (Some(call), _) => format!(" in {}, called at {}", clean(&call.function), self.at(call.since_ns)),
            (None, Some(call)) => {
                format!("; its last recorded call was {} at {}", clean(&call.function), self.at(call.at_ns))
            }
            (None, None) => String::new(),
        };
        let text = format!("{} {}{after}{act}", self.name_process(&first.proc), describe_end(first));
        let mut lines = vec![HeadlineLine { text, about: LineSubject::Death(first) }];
        let (later, others): (Vec<_>, Vec<_>) = others.iter().copied().partition(|process| first.ended_before(process));
        for (dead, when) in [(later, "ended abnormally after it"), (others, "also ended abnormally")] {
            if let Some(next) = dead.first() {
                let procs = self.names.processes(dead.iter().map(|process| &*process.proc));
                let text = format!("{} {when}: {procs}", counted(dead.len() as u64, "process"));
                lines.push(HeadlineLine { text, about: LineSubject::Death(next) });
            }
        }
        lines
    }

    /// Returns a line about crashed processes that the filters select only in part.
    fn filtered_deaths_text(&self) -> Option<String> {
        let dead = self.dead_processes().count() as u64;
        let is_told = self.report.record.in_part && dead > 0;
        is_told.then(|| format!("{} {ABNORMAL}, as the report without filters says", counted(dead, "process")))
    }

    fn line_of_group(&self, group: &FindingGroup<'a>) -> HeadlineLine<'a> {
        let (first, message) = (group.first_finding(), group.message_with_confidence());
        let count = if group.call_count() > 1 { format!(", {}", times(group.call_count())) } else { String::new() };
        let text = format!(
            "{} {} in {}{count}: {}",
            first.severity,
            clean(&first.rule),
            group.name_ranks(self),
            clean(first_clause(&message))
        );
        HeadlineLine { text, about: LineSubject::Finding(first) }
    }
}

fn remark_line<'a>(text: String) -> HeadlineLine<'a> {
    HeadlineLine { text, about: LineSubject::Remark }
}

/// Returns the option of `cupeer report` that shows only this process.
fn process_option(process: &Process) -> String {
    match process.rank {
        Some(rank) => format!("--rank {rank}"),
        None => format!("--process {}", process.pid),
    }
}
