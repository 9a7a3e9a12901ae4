//! Parallel runs.
//!
//! What belongs here: who takes which run and when it stops. The verdicts do not depend on it: runs are numbered
//! before, and what only one run at a time can tell is left to a run by itself.

use super::baseline::Baseline;
use super::interrupt;
use super::progress::Progress;
use super::state::Done;
use super::trials::Trial;
use crate::args::SweepArgs;
use anyhow::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;
use std::time::Instant;

/// Conditions under which no further run begins.
pub struct Limits {
    pub jobs: usize,
    pub until: Option<Instant>,
    pub is_first_enough: bool,
}

/// Returns the number of parallel runs: the requested number, or the number of processors divided by the number of the
/// program's processes.
pub fn jobs(args: &SweepArgs, baseline: &Baseline) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    args.jobs.map_or((cpus / baseline.counted.processes.max(1)).max(1), usize::from)
}

impl Limits {
    fn are_over(&self, progress: &Progress) -> bool {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late || interrupt::is_set() || self.is_first_enough && progress.has_found()
    }
}

/// Does all runs. The result of a run that was not done is `None`. The first error of cupeer itself ends all runs.
pub fn all(
    trials: &[Trial],
    limits: &Limits,
    progress: &Progress,
    run: &(dyn Fn(usize, &Trial) -> Result<Option<Done>> + Sync),
) -> Result<Vec<Option<Done>>> {
    let results: Vec<Mutex<Option<Done>>> = trials.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Result<()> {
        while !limits.are_over(progress) && !failed.load(Relaxed) {
            let index = next.fetch_add(1, Relaxed);
            let Some(trial) = trials.get(index) else { break };
            let Some(done) = run(index, trial)? else { break };
            if let Ok(mut result) = results[index].lock() {
                *result = Some(done);
            }
        }
        Ok(())
    };
    let work = || work().inspect_err(|_| failed.store(true, Relaxed));
    std::thread::scope(|scope| {
        // If no thread can be started, this thread does all runs.
        let begin = |_| Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..limits.jobs.min(trials.len())).filter_map(begin).collect();
        let own = work();
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        own
    })?;
    Ok(results.into_iter().map(|result| result.into_inner().unwrap_or(None)).collect())
}
