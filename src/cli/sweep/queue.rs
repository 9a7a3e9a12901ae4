//! All runs of a sweep in their order: those about distinct stacks, and what is behind them, before all others.

use super::count::Site;
use super::pool::{self, Limits};
use super::progress::Progress;
use super::state::{Done, Journal};
use super::trial::Bench;
use super::trials::{self, Trial};
use super::{Outcome, table, time};
use crate::args::SweepArgs;
use crate::output;
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
    announce(args, bench, distinct.len(), all, jobs, done.len())?;
    let until = args.budget.map(|budget| Instant::now() + budget);
    let limits = Limits { jobs, until, is_first_enough: args.fail_fast };
    let mut queue = Queue {
        bench,
        limits,
        journal: Mutex::new(journal),
        progress: Progress::new(),
        had: done.into_iter().map(|done| (done.trial.clone(), done)).collect(),
        known: bench.known.clone(),
        outcome,
    };
    queue.progress.expect(distinct.len() + further.len());
    let swept = queue.with_all_behind(distinct).and_then(|()| queue.with_all_behind(further));
    queue.progress.finish();
    swept
}

/// Says how much there is to do, before it is done.
fn announce(
    args: &SweepArgs,
    bench: &Bench,
    distinct: usize,
    all: usize,
    jobs: usize,
    had: usize,
) -> Result<()> {
    let places = &bench.baseline.places;
    let calls: u64 = places.iter().map(trials::Counts::total).sum();
    let left = all.saturating_sub(had);
    let expected = bench.baseline.cost.mul_f64(left as f64 / jobs as f64);
    let about = time(expected);
    let mut sentence = format!(
        "{}, {} of {} each: about {about} with -j {jobs}",
        table::counted_on(calls, places.len()),
        table::counted(all as u64, "run"),
        time(bench.baseline.cost),
    );
    if had > 0 {
        sentence += &format!("; {had} are already done");
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
