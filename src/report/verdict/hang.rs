//! Hangs that `cupeer run --on-hang` noticed, in sentences. A hang from which the job resumed is not a problem: [`Verdict::stalls`]
//! only reports it.

use super::incidents::HUNG;
use super::{Incident, Problem, Verdict};
use crate::base::moments::duration;
use crate::model::{Hang, Report};
use crate::words::names::clean;
use cupeer_rules::{Chosen, Severity};

/// Returns true if a choice of what counts as an error includes hangs, which are errors of no rule.
pub fn counts_hangs(chosen: Option<&Chosen>) -> bool {
    chosen.is_none_or(|chosen| chosen.severity(None, b"", HUNG.severity) == Severity::Error)
}

impl Report {
    /// Returns the hangs from which the job did not resume.
    pub fn lasting_hangs(&self) -> impl Iterator<Item = &Hang> {
        self.record.hangs.iter().filter(|hang| hang.resumed_ns.is_none())
    }
}

impl<'a> Verdict<'a> {
    /// Hangs from which the job did not resume, the first one first.
    pub(super) fn hangs(&self) -> Option<Problem<'a>> {
        let lasting: Vec<&Hang> = self.report.lasting_hangs().collect();
        let incidents = lasting.iter().map(|hang| Incident::new(&HUNG, self.hang(hang))).collect();
        let problem = Problem::of_kind(&HUNG, "hang", "without later progress", incidents)?;
        let (first, more) = (problem.items[0].clone(), problem.items.len() - 1);
        let in_short = if more == 0 { first } else { format!("{first} (and {more} more below)") };
        let item = |(text, hang): (&String, &&Hang)| format!("{text}{}", stacks(hang, "\n"));
        let items = problem.items.iter().zip(&lasting).map(item).collect();
        Some(Problem { items, in_short, ..problem })
    }

    /// `the job hangs, without progress since 0.359610: at 4.371610, rank 1 waits in recv at x.py:12 since 4 s`.
    fn hang(&self, hang: &Hang) -> String {
        let is_over = !self.report.record.running || hang.ended_ns.is_some();
        let hangs = if is_over { "hung" } else { "hangs" };
        let since = match hang.without_progress_ns {
            Some(without) => {
                format!("without progress {}", self.since(hang.began_ns(), without))
            }
            // Other calls returned, so there was progress.
            None => "in a call that did not return".into(),
        };
        let ended = hang.ended_ns.map(|at| format!(", and cupeer ended it{}", self.moment(at)));
        format!("the job {hangs}, {since}{}: {}", ended.unwrap_or_default(), self.answer(hang))
    }

    /// Returns a sentence for each hang from which the job resumed: its time, and the calls that waited.
    pub fn stalls(&self) -> impl Iterator<Item = String> {
        let stall = |hang: &Hang| {
            let lasted = duration(hang.resumed_ns?.saturating_sub(hang.began_ns()));
            let (answer, stacks) = (self.answer(hang), stacks(hang, "; "));
            Some(format!("for {lasted}, and then made progress again; {answer}{stacks}"))
        };
        self.report.record.hangs.iter().filter_map(stall)
    }

    /// Describes the calls that processes waited in, and the time of the reading. Durations end there.
    fn answer(&self, hang: &Hang) -> String {
        let answer = clean(&hang.answer);
        match self.moment(hang.time_ns).trim_start() {
            "" => answer,
            at => format!("{at}, {answer}"),
        }
    }

    /// ` at 4.371610`; empty if times have no origin.
    fn moment(&self, moment: u64) -> String {
        if self.has_begun(moment) { format!(" at {}", self.at(moment)) } else { String::new() }
    }

    /// Since a time, for so long.
    fn since(&self, began: u64, lasted: u64) -> String {
        if self.has_begun(began) {
            format!("since {}", self.at(began))
        } else {
            format!("for {}", duration(lasted))
        }
    }

    /// Returns true if the recording had begun: a process records from its first call on.
    fn has_begun(&self, moment: u64) -> bool {
        (1..=moment).contains(&self.report.record.began_ns)
    }
}

/// The file with the stacks, if there is one.
fn stacks(hang: &Hang, before: &str) -> String {
    if hang.file.is_empty() { String::new() } else { format!("{before}stacks in {}", clean(&hang.file)) }
}
