//! Hangs that `cupeer run --on-hang` noticed, in sentences. A hang from which the job resumed is not a problem:
//! [`Verdict::describe_stalls`] only reports it.

use super::incidents::HUNG;
use super::{Incident, Problem, Verdict};
use crate::base::moments::duration;
use crate::model::{Hang, Report};
use crate::words::names::clean;
use cupeer_rules::{ErrorChoice, Severity};

/// Returns true if hangs count as errors under this choice. A hang belongs to no rule.
pub fn is_hang_error(chosen: Option<&ErrorChoice>) -> bool {
    chosen.is_none_or(|chosen| chosen.counted_severity(None, b"", HUNG.severity) == Severity::Error)
}

impl Report {
    /// Returns the hangs from which the job did not resume.
    pub fn lasting_hangs(&self) -> impl Iterator<Item = &Hang> {
        self.record.hangs.iter().filter(|hang| hang.resumed_ns.is_none())
    }
}

impl<'a> Verdict<'a> {
    /// Returns the problem of hangs from which the job did not resume, the earliest first.
    pub(super) fn find_hangs(&self) -> Option<Problem<'a>> {
        let lasting: Vec<&Hang> = self.report.lasting_hangs().collect();
        let incidents = lasting.iter().map(|hang| Incident::new(&HUNG, self.describe_hang(hang))).collect();
        let problem = Problem::from_incidents(&HUNG, "hang", "without later progress", incidents)?;
        let (first, more) = (problem.items[0].clone(), problem.items.len() - 1);
        let in_short = if more == 0 { first } else { format!("{first} (and {more} more below)") };
        let item = |(text, hang): (&String, &&Hang)| format!("{text}{}", name_stacks_file(hang, "\n"));
        let items = problem.items.iter().zip(&lasting).map(item).collect();
        Some(Problem { items, in_short, ..problem })
    }

    /// Returns a sentence about a hang: `the job hangs, without progress since 0.359610: at 4.371610, rank 1
    /// waits in recv at x.py:12 since 4 s`.
    fn describe_hang(&self, hang: &Hang) -> String {
        let is_over = !self.report.record.running || hang.ended_ns.is_some();
        let hangs = if is_over { "hung" } else { "hangs" };
        let since = match hang.without_progress_ns {
            Some(without) => {
                format!("without progress {}", self.format_wait_start(hang.began_ns(), without))
            }
            // Other calls returned, so the job made progress.
            None => "in a call that did not return".into(),
        };
        let ended = hang.ended_ns.map(|at| format!(", and cupeer ended it{}", self.format_time_clause(at)));
        format!("the job {hangs}, {since}{}: {}", ended.unwrap_or_default(), self.describe_waits(hang))
    }

    /// Returns a sentence for each hang from which the job resumed: its time, and the calls that waited.
    pub fn describe_stalls(&self) -> impl Iterator<Item = String> {
        let stall = |hang: &Hang| {
            let lasted = duration(hang.resumed_ns?.saturating_sub(hang.began_ns()));
            let (answer, stacks) = (self.describe_waits(hang), name_stacks_file(hang, "; "));
            Some(format!("for {lasted}, and then made progress again; {answer}{stacks}"))
        };
        self.report.record.hangs.iter().filter_map(stall)
    }

    /// Describes the calls in which processes waited, and when the stacks were read. Durations of the calls
    /// end at that time.
    fn describe_waits(&self, hang: &Hang) -> String {
        let answer = clean(&hang.answer);
        match self.format_time_clause(hang.time_ns).trim_start() {
            "" => answer,
            at => format!("{at}, {answer}"),
        }
    }

    /// Formats the time of an event: ` at 4.371610`; empty if times have no origin.
    fn format_time_clause(&self, moment: u64) -> String {
        if self.had_recording_begun(moment) { format!(" at {}", self.at(moment)) } else { String::new() }
    }

    /// Formats the start of a wait and its duration.
    fn format_wait_start(&self, began: u64, lasted: u64) -> String {
        if self.had_recording_begun(began) {
            format!("since {}", self.at(began))
        } else {
            format!("for {}", duration(lasted))
        }
    }

    /// Returns true if the recording had begun at a time. A process records from its first call on.
    fn had_recording_begun(&self, moment: u64) -> bool {
        (1..=moment).contains(&self.report.record.began_ns)
    }
}

/// Names the file with the stacks of a hang, preceded by `before`; empty if there is no file.
fn name_stacks_file(hang: &Hang, before: &str) -> String {
    if hang.file.is_empty() { String::new() } else { format!("{before}stacks in {}", clean(&hang.file)) }
}
