//! One run with a fault, from its rules to its verdict.

use super::baseline::{Baseline, counting};
use super::compare;
use super::count::{self, Counted, Site};
use super::launch::{End, Launcher, Order};
use super::state::Done;
use super::trials::{Counts, Trial, places};
use super::verdict::{Judged, Verdict, judge};
use anyhow::Result;
use std::collections::HashSet;
use std::fs;

/// Maximum number of attempts at a run in which the program does not make the call.
const ATTEMPTS: u32 = 3;

/// Data that all runs of a sweep share.
pub struct Bench {
    pub launcher: Launcher,
    pub baseline: Baseline,
    /// Places that make calls without faults.
    pub known: HashSet<Site>,
}

struct Tried {
    counted: Counted,
    judged: Judged,
}

impl Bench {
    /// Does the run with a number; twice if the verdict is bad. Returns `None` if the run was interrupted.
    pub fn run(&self, number: usize, trial: &Trial) -> Result<Option<Done>> {
        let (name, again) = (format!("trial-{number}"), format!("trial-{number}-again"));
        let Some(first) = self.attempt(&name, trial)? else { return Ok(None) };
        let mut judged = first.judged;
        let mut is_needed = self.launcher.plan.is_finding(judged.verdict);
        if is_needed {
            let Some(second) = self.attempt(&again, trial)? else { return Ok(None) };
            if second.judged.verdict == judged.verdict {
                self.remove(&again, false);
            } else {
                let (verdict, other) = (judged.verdict.words(), second.judged.verdict.words());
                let seen = format!("{verdict} ({}), then {other} ({})", judged.seen, second.judged.seen);
                judged = Judged { verdict: Verdict::NotRepeatable, seen };
                is_needed = self.launcher.plan.is_finding(Verdict::NotRepeatable);
                self.remove(&again, is_needed);
            }
        }
        self.remove(&name, is_needed);
        let new = places(&first.counted).into_iter().filter(|place| !self.known.contains(&place.site));
        let new: Vec<Counts> = new.collect();
        tracing::debug!("run {number}: {}: {}", judged.verdict.words(), judged.seen);
        Ok(Some(Done { trial: trial.clone(), number, judged, new }))
    }

    fn remove(&self, name: &str, is_needed: bool) {
        if !is_needed && !self.launcher.keeps {
            // If this fails, a directory remains, which is harmless.
            let _ = fs::remove_dir_all(self.launcher.directory.join(name));
        }
    }

    /// Repeats a run until the program makes the call, at most [`ATTEMPTS`] times.
    fn attempt(&self, name: &str, trial: &Trial) -> Result<Option<Tried>> {
        let mut attempts = 1..ATTEMPTS;
        loop {
            let Some(tried) = self.once(name, trial)? else { return Ok(None) };
            if tried.counted.fired || attempts.next().is_none() {
                return Ok(Some(tried));
            }
        }
    }

    fn once(&self, name: &str, trial: &Trial) -> Result<Option<Tried>> {
        let plan = &self.launcher.plan;
        let mut rules = trial.rules(plan);
        let last = rules.len().saturating_sub(1);
        for (i, rule) in rules.iter_mut().enumerate() {
            // The rules before the last one lead to the call that the run is about.
            *rule += &if i == last { format!(":name={}", count::FAIL) } else { format!(":name=before-{i}") };
        }
        rules.push(counting(plan));
        let order = Order { name, rules: &rules.join(";"), is_dry: false };
        let Some(ran) = self.launcher.run(&order)? else { return Ok(None) };
        let counted = count::read(&ran.record(), &|site| self.known.contains(site))?;
        let right = match &plan.compare {
            Some(command) if ran.end == self.baseline.ran.end && ran.end == End::Exited(0) => {
                match compare::is_right(command, &plan.directory, &ran.stdout())? {
                    None => return Ok(None),
                    right => right,
                }
            }
            Some(_) => Some(true),
            None => None,
        };
        let judged = judge(&self.baseline, &ran, &counted, right);
        Ok(Some(Tried { counted, judged }))
    }
}
