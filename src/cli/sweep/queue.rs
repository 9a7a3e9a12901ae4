//! All runs of a sweep in their order: those about distinct stacks, and what is behind them, before all others.

use super::count::Site;
use super::plan::Plan;
use super::pool::{self, Limits};
use super::progress::Progress;
use super::state::{Done, Journal};
use super::trial::Bench;
use super::trials::{self, Trial};
use super::verdict::Verdict;
use super::{Outcome, table, time};
use crate::records::sweeps::counted;
use crate::start::args::SweepArgs;
use crate::start::output;
use anyhow::{Context, Result, bail};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A sweep that takes longer wants a budget.
const LONG: Duration = Duration::from_secs(3600);

pub fn runs(
    args: &SweepArgs,
    bench: &Bench,
    journal: &mut Journal,
    done: Vec<Done>,
    outcome: &mut Outcome,
) -> Result<()> {
    let plan = &bench.launcher.plan;
    let distinct = trials::distinct(&outcome.places, &[], plan);
    let (further, more) = trials::further(&outcome.places, plan);
    outcome.unplanned = more;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = match args.jobs {
        // A name in /dev/shm does not tell which of several runs has made it.
        _ if plan.clean_shm => 1,
        Some(jobs) => jobs.into(),
        None => (cpus / bench.baseline.counted.processes.max(1)).max(1),
    };
    let all = distinct.len() + further.len() + more as usize;
    announce(args, bench, distinct.len(), all, jobs, &done)?;
    let until = args.budget.map(|budget| Instant::now() + budget);
    let limits = Limits { jobs, until, is_first_enough: args.fail_fast };
    let mut queue = Queue {
        bench,
        limits,
        journal: Mutex::new(journal),
        progress: Progress::new(jobs),
        had: done.into_iter().map(|done| (done.trial.clone(), done)).collect(),
        known: bench.known.clone(),
        outcome,
    };
    queue.progress.expect(distinct.len() + further.len());
    let swept = queue.with_all_behind(distinct).and_then(|()| queue.with_all_behind(further));
    queue.progress.finish();
    swept
}

/// How long a run takes that hangs: until its time is over, and once more where it is a finding, which is tried again.
fn cost_of_hang(plan: &Plan, timeout: Duration) -> Duration {
    timeout * if plan.is_finding(Verdict::Hang) { 2 } else { 1 }
}

/// How long runs take side by side: on average, and if each of them hangs. Of as many as are done, `hung` did.
fn estimate(
    left: usize,
    jobs: usize,
    [cost, hang]: [Duration; 2],
    (hung, done): (usize, usize),
) -> [Duration; 2] {
    let rate = hung as f64 / done.max(1) as f64;
    let of = |one: Duration| one.mul_f64(left as f64 / jobs as f64);
    [of(cost.mul_f64(1.0 - rate) + hang.mul_f64(rate)), of(cost.max(hang))]
}

/// Says how much there is to do, before it is done.
fn announce(
    args: &SweepArgs,
    bench: &Bench,
    distinct: usize,
    all: usize,
    jobs: usize,
    had: &[Done],
) -> Result<()> {
    let places = &bench.baseline.places;
    let calls: u64 = places.iter().map(trials::Counts::total).sum();
    let left = all.saturating_sub(had.len());
    let hang = cost_of_hang(&bench.launcher.plan, bench.launcher.timeout);
    let hung = had.iter().filter(|done| done.judged.verdict == Verdict::Hang).count();
    let [expected, most] = estimate(left, jobs, [bench.baseline.cost, hang], (hung, had.len()));
    let mut sentence = format!(
        "{}, {} of {} each: about {} with -j {jobs}; a run that hangs takes {}, at most {} in all",
        table::counted_on(calls, places.len()),
        counted(all as u64, "run"),
        time(bench.baseline.cost),
        time(expected),
        time(hang),
        time(most),
    );
    if !had.is_empty() {
        sentence += &format!("; {} are already done", had.len());
    }
    output::note(&sentence);
    match args.budget {
        None if expected > LONG => bail!(
            "that is more than an hour; set a limit with --budget TIME, which goes first to the {distinct} runs about distinct stacks, or make fewer runs with --codes one"
        ),
        Some(budget) if expected > budget => output::note(&format!(
            "the budget of {} goes first to the {distinct} runs about distinct stacks",
            time(budget)
        )),
        _ => {}
    }
    Ok(())
}

struct Queue<'a> {
    bench: &'a Bench,
    limits: Limits,
    journal: Mutex<&'a mut Journal>,
    progress: Progress,
    /// What an earlier sweep has done.
    had: HashMap<Trial, Done>,
    /// Places whose calls fail already, or will.
    known: HashSet<Site>,
    outcome: &'a mut Outcome,
}

impl Queue<'_> {
    /// Does runs, and then those about the calls that the program made in them and does not make without faults.
    fn with_all_behind(&mut self, mut batch: Vec<Trial>) -> Result<()> {
        while !batch.is_empty() {
            let from = self.outcome.done.len();
            self.do_all(batch)?;
            batch = self.behind(from);
            if !batch.is_empty() {
                tracing::debug!("{} more runs are about calls made only after a fault", batch.len());
                self.progress.expect(batch.len());
            }
        }
        Ok(())
    }

    fn do_all(&mut self, batch: Vec<Trial>) -> Result<()> {
        let first = self.outcome.done.len() + self.outcome.left_out.len() + 1;
        let plan = &self.bench.launcher.plan;
        let run = |index: usize, trial: &Trial| {
            let rules = || format!("failed to run with {}", trial.rules(plan).join(";"));
            let done = match self.had.get(trial) {
                Some(done) => done.clone(),
                None => {
                    let Some(done) = self.bench.run(first + index, trial).with_context(rules)? else {
                        return Ok(None);
                    };
                    if let Ok(mut journal) = self.journal.lock() {
                        journal.done(&done)?;
                    }
                    done
                }
            };
            self.progress.done(plan.is_finding(done.judged.verdict));
            Ok(Some(done))
        };
        let results = pool::all(&batch, &self.limits, &self.progress, &run)?;
        for (trial, result) in batch.into_iter().zip(results) {
            match result {
                Some(done) => self.outcome.done.push(done),
                None => self.outcome.left_out.push(trial),
            }
        }
        Ok(())
    }

    /// The runs about what is behind those from a number on.
    fn behind(&mut self, from: usize) -> Vec<Trial> {
        let plan = &self.bench.launcher.plan;
        let mut batch = Vec::new();
        for done in &self.outcome.done[from..] {
            if done.trial.faults.len() >= usize::from(plan.depth) {
                continue;
            }
            for place in &done.new {
                if self.known.insert(place.site.clone()) {
                    batch.extend(trials::distinct(std::slice::from_ref(place), &done.trial.faults, plan));
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
        let of = |had| estimate(100, 2, [second, 20 * second], had);
        assert_eq!(of((0, 0)), [50 * second, 1000 * second]);
        // Half of those that are done hung.
        assert_eq!(of((5, 10)), [525 * second, 1000 * second]);
        let plan = |accept: &[Verdict]| Plan { accept: accept.iter().copied().collect(), ..Plan::default() };
        assert_eq!(cost_of_hang(&plan(&[]), 10 * second), 20 * second);
        assert_eq!(cost_of_hang(&plan(&[Verdict::Hang]), 10 * second), 10 * second);
    }
}
