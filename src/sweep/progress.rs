//! The progress that a sweep shows: what it is at before its runs, and how many of them are done.
//!
//! On a terminal a bar says so all the time; elsewhere there is a line now and then.

use super::times::format_duration;
use cupeer_console::output;
use cupeer_console::progress::{TICK, has_bar};
use cupeer_report::names::counted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Without a terminal: interval between lines about the progress of the runs.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

pub struct RunProgress {
    bar: Option<ProgressBar>,
    last_line_at: Mutex<Instant>,
    done: AtomicUsize,
    found: AtomicUsize,
    all: AtomicUsize,
    /// Number of parallel runs.
    jobs: usize,
    begun: Instant,
}

impl RunProgress {
    pub fn new(jobs: usize) -> RunProgress {
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs, {msg}{eta_precise} left");
        let bar = has_bar().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message("no findings, ")
        });
        let (done, found, all) = Default::default();
        let begun = Instant::now();
        RunProgress { bar, last_line_at: Mutex::new(begun), done, found, all, jobs, begun }
    }

    pub fn add_expected(&self, more: usize) {
        self.all.fetch_add(more, Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc_length(more as u64);
            bar.enable_steady_tick(TICK);
        }
    }

    pub fn note_completed(&self, is_finding: bool) {
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
        let Ok(mut said) = self.last_line_at.lock() else { return };
        if said.elapsed() >= LINE_INTERVAL {
            *said = Instant::now();
            let all = self.all.load(Relaxed);
            let left = format_duration(estimate_remaining(self.begun.elapsed(), done, all, self.jobs));
            output::print_note(&format!("{done} of {all} runs, {findings}, about {left} left"));
        }
    }

    /// Returns true if there has been a finding.
    pub fn has_findings(&self) -> bool {
        self.found.load(Relaxed) > 0
    }

    pub fn clear_bar(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Estimates the remaining time from the time taken so far. A hang counts with the time that it took.
fn estimate_remaining(taken: Duration, done: usize, all: usize, jobs: usize) -> Duration {
    // Runs in progress are half done, on average.
    let so_far = done as f64 + (jobs.min(all - done.min(all)) as f64) / 2.0;
    taken.mul_f64((all as f64 - so_far).max(0.0) / so_far.max(1.0))
}
