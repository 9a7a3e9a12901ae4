//! Parallel runs.
//!
//! What belongs here: who takes which run and when it stops. The verdicts do not depend on it: runs are numbered
//! before, and what only one run at a time can tell is left to a run by itself.

use super::baseline::Baseline;
use super::progress::RunProgress;
use super::state::CompletedRun;
use super::trials::Trial;
use crate::args::SweepArgs;
use anyhow::Result;
use cupeer_console::interrupt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;
use std::time::Instant;

/// Conditions under which no further run begins.
pub struct PoolLimits {
    pub jobs: usize,
    pub until: Option<Instant>,
    pub is_first_enough: bool,
}

/// Returns the number of parallel runs: the requested number, or the number of processors divided by the number of the
/// program's processes.
pub fn job_count(args: &SweepArgs, baseline: &Baseline) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    args.jobs.map_or((cpus / baseline.counted.processes.max(1)).max(1), usize::from)
}

impl PoolLimits {
    fn are_reached(&self, progress: &RunProgress) -> bool {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late || interrupt::is_interrupted() || self.is_first_enough && progress.has_findings()
    }
}

/// Does all runs. The result of a run that was not done is `None`. The first error of cupeer itself ends all runs.
pub fn run_all(
    trials: &[Trial],
    limits: &PoolLimits,
    progress: &RunProgress,
    run: &(dyn Fn(usize, &Trial) -> Result<Option<CompletedRun>> + Sync),
) -> Result<Vec<Option<CompletedRun>>> {
    let results: Vec<Mutex<Option<CompletedRun>>> = trials.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Result<()> {
        while !limits.are_reached(progress) && !failed.load(Relaxed) {
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
