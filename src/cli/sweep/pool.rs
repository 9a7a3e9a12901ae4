//! Parallel runs, and the progress that is shown meanwhile.
//!
//! What belongs here: who takes which run and when it stops. The verdicts do not depend on it: runs are numbered
//! before, and what only one run at a time can tell is left to a run by itself.

use super::interrupt;
use super::state::Done;
use super::table::counted;
use super::trials::Trial;
use crate::output;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: Option<ProgressBar>,
    said: Mutex<Instant>,
    done: AtomicUsize,
    found: AtomicUsize,
    all: AtomicUsize,
}

impl Progress {
    pub fn new() -> Progress {
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs, {msg}{eta_precise} left");
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message("no findings, ")
        });
        let (done, found, all) = Default::default();
        Progress { bar, said: Mutex::new(Instant::now()), done, found, all }
    }

    pub fn expect(&self, more: usize) {
        self.all.fetch_add(more, Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc_length(more as u64);
            bar.enable_steady_tick(Duration::from_millis(500));
        }
    }

    pub fn done(&self, is_finding: bool) {
        let done = self.done.fetch_add(1, Relaxed) + 1;
        let found = self.found.fetch_add(usize::from(is_finding), Relaxed) + usize::from(is_finding);
        let findings = match found {
            0 => "no findings".to_owned(),
            more => counted(more as u64, "finding"),
        };
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{findings}, "));
            bar.inc(1);
            return;
        }
        let Ok(mut said) = self.said.lock() else { return };
        if said.elapsed() >= LINE {
            *said = Instant::now();
            output::complain(&format!("{done} of {} runs, {findings}", self.all.load(Relaxed)));
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// When no further run is begun.
pub struct Limits {
    pub jobs: usize,
    pub until: Option<Instant>,
    pub is_first_enough: bool,
}

impl Limits {
    fn are_over(&self, progress: &Progress) -> bool {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late || interrupt::is_set() || self.is_first_enough && progress.found.load(Relaxed) > 0
    }
}

/// Does runs; those that were not done are `None`. The first failure of ours ends all.
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
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..limits.jobs.min(trials.len().max(1)))
            .map(|_| scope.spawn(|| work().inspect_err(|_| failed.store(true, Relaxed))))
            .collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        anyhow::Ok(())
    })?;
    Ok(results.into_iter().map(|result| result.into_inner().unwrap_or(None)).collect())
}
