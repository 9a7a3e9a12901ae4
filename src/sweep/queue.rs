//! All runs of a sweep in their order: those about distinct stacks, and what is behind them, before all others.

use super::count::CallSite;
use super::outcome::SweepOutcome;
use super::plan::SweepPlan;
use super::pool::{self, PoolLimits};
use super::progress::RunProgress;
use super::state::SweepJournal;
use super::table;
use super::times::format_duration;
use super::trial::TrialRunner;
use super::trials::{self, Trial};
use super::verdict::Verdict;
use crate::args::SweepArgs;
use anyhow::{Context, Result, bail};
use cupeer_console::output;
use cupeer_report::names::counted;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Estimated duration of a sweep above which a time budget is required.
const LONG_SWEEP: Duration = Duration::from_secs(3600);

pub fn run_trials(
    args: &SweepArgs,
    bench: &TrialRunner,
    journal: &mut SweepJournal,
    outcome: &mut SweepOutcome,
) -> Result<()> {
    let plan = &bench.launcher.plan;
    let distinct = trials::first_call_trials(&outcome.places, &[], plan);
    let (further, more) = trials::further_call_trials(&outcome.places, plan);
    outcome.unplanned = more;
    let jobs = pool::job_count(args, &bench.baseline);
    let all = distinct.len() + further.len() + more as usize;
    announce(args, bench, distinct.len(), all, jobs)?;
    let until = args.budget.map(|budget| Instant::now() + budget);
    let limits = PoolLimits { jobs, until, is_first_enough: args.fail_fast };
    let mut queue = TrialQueue {
        bench,
        limits,
        journal: Mutex::new(journal),
        progress: RunProgress::new(jobs),
        known: bench.known.clone(),
        outcome,
    };
    queue.progress.add_expected(distinct.len() + further.len());
    let swept = queue.run_with_followups(distinct).and_then(|()| queue.run_with_followups(further));
    queue.progress.clear_bar();
    swept
}

/// Returns the duration of a hanging run: its time limit, or twice the limit if a hang is a finding, because the run
/// is repeated.
fn cost_of_hang(plan: &SweepPlan, timeout: Duration) -> Duration {
    timeout * if plan.is_finding(Verdict::Hang) { 2 } else { 1 }
}

/// Estimates the duration of all remaining runs: if no run hangs, and if every run hangs.
fn estimate_duration(left: usize, jobs: usize, [cost, hang]: [Duration; 2]) -> [Duration; 2] {
    [cost, cost.max(hang)].map(|one| one.mul_f64(left as f64 / jobs as f64))
}

/// Prints the number and the estimated duration of the runs before the first one begins.
fn announce(args: &SweepArgs, bench: &TrialRunner, distinct: usize, all: usize, jobs: usize) -> Result<()> {
    let places = &bench.baseline.places;
    let calls: u64 = places.iter().map(trials::SiteCounts::total_calls).sum();
    let hang = cost_of_hang(&bench.launcher.plan, bench.launcher.timeout);
    let [expected, most] = estimate_duration(all, jobs, [bench.baseline.cost, hang]);
    output::print_note(&format!(
        "{}, {} of {} each: about {} with -j {jobs}; a run that hangs takes {}, at most {} in all",
        table::format_calls_on_stacks(calls, places.len()),
        counted(all as u64, "run"),
        format_duration(bench.baseline.cost),
        format_duration(expected),
        format_duration(hang),
        format_duration(most),
    ));
    match args.budget {
        None if expected > LONG_SWEEP => bail!(
            "that is more than an hour; set a limit with --budget TIME, which goes first to the {distinct} runs about distinct stacks, or make fewer runs with --codes one"
        ),
        Some(budget) if expected > budget => output::print_note(&format!(
            "the budget of {} goes first to the {distinct} runs about distinct stacks",
            format_duration(budget)
        )),
        _ => {}
    }
    Ok(())
}

struct TrialQueue<'a> {
    bench: &'a TrialRunner,
    limits: PoolLimits,
    journal: Mutex<&'a mut SweepJournal>,
    progress: RunProgress,
    /// Places whose calls already fail in some planned run.
    known: HashSet<CallSite>,
    outcome: &'a mut SweepOutcome,
}

impl TrialQueue<'_> {
    /// Does runs, and then runs about calls that the program made only in those runs and not without faults.
    fn run_with_followups(&mut self, mut batch: Vec<Trial>) -> Result<()> {
        while !batch.is_empty() {
            let from = self.outcome.done.len();
            self.run_batch(batch)?;
            batch = self.followup_trials(from);
            if !batch.is_empty() {
                tracing::debug!("{} more runs are about calls made only after a fault", batch.len());
                self.progress.add_expected(batch.len());
            }
        }
        Ok(())
    }

    fn run_batch(&mut self, batch: Vec<Trial>) -> Result<()> {
        let first = self.outcome.done.len() + self.outcome.left_out.len() + 1;
        let plan = &self.bench.launcher.plan;
        let run = |index: usize, trial: &Trial| {
            let rules = || format!("failed to run with {}", trial.fault_rules(plan).join(";"));
            let Some(done) = self.bench.run_trial(first + index, trial).with_context(rules)? else {
                return Ok(None);
            };
            if let Ok(mut journal) = self.journal.lock() {
                journal.note_completed(&done)?;
            }
            self.progress.note_completed(plan.is_finding(done.judged.verdict));
            Ok(Some(done))
        };
        let results = pool::run_all(&batch, &self.limits, &self.progress, &run)?;
        for (trial, result) in batch.into_iter().zip(results) {
            match result {
                Some(done) => self.outcome.done.push(done),
                None => self.outcome.left_out.push(trial),
            }
        }
        Ok(())
    }

    /// Returns the runs about new calls in the completed runs from the index `from` on.
    fn followup_trials(&mut self, from: usize) -> Vec<Trial> {
        let plan = &self.bench.launcher.plan;
        let mut batch = Vec::new();
        for done in &self.outcome.done[from..] {
            if done.trial.faults.len() >= usize::from(plan.depth) {
                continue;
            }
            for place in &done.new {
                if self.known.insert(place.site.clone()) {
                    batch.extend(trials::first_call_trials(std::slice::from_ref(place), &done.trial.faults, plan));
                    self.outcome.places.push(place.clone());
                }
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_what_hangs_cost() {
        let second = Duration::from_secs(1);
        assert_eq!(estimate_duration(100, 2, [second, 20 * second]), [50 * second, 1000 * second]);
        let plan = |accept: &[Verdict]| SweepPlan { accept: accept.iter().copied().collect(), ..SweepPlan::default() };
        assert_eq!(cost_of_hang(&plan(&[]), 10 * second), 20 * second);
        assert_eq!(cost_of_hang(&plan(&[Verdict::Hang]), 10 * second), 10 * second);
    }
}
