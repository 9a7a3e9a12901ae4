//! One run with a fault, from its rules to its verdict.

use super::baseline::{Baseline, counting_rule};
use super::compare;
use super::count::{self, CallSite, RunObservations};
use super::launch::{RunEnd, RunLauncher, RunRequest};
use super::state::CompletedRun;
use super::trials::{SiteCounts, Trial, sorted_sites};
use super::verdict::{JudgedRun, Verdict, judge_trial};
use anyhow::Result;
use std::collections::HashSet;
use std::fs;

/// Maximum number of attempts at a run in which the program does not make the call.
const MOST_ATTEMPTS: u32 = 3;

/// Data that all runs of a sweep share.
pub struct TrialRunner {
    pub launcher: RunLauncher,
    pub baseline: Baseline,
    /// Places that make calls without faults.
    pub known: HashSet<CallSite>,
}

struct Attempt {
    counted: RunObservations,
    judged: JudgedRun,
}

impl TrialRunner {
    /// Does the run with a number; twice if the verdict is bad. Returns `None` if the run was interrupted.
    pub fn run_trial(&self, number: usize, trial: &Trial) -> Result<Option<CompletedRun>> {
        let (name, again) = (format!("trial-{number}"), format!("trial-{number}-again"));
        let Some(first) = self.attempt_until_reached(&name, trial)? else { return Ok(None) };
        let mut judged = first.judged;
        let mut is_needed = self.launcher.plan.is_finding(judged.verdict);
        if is_needed {
            let Some(second) = self.attempt_until_reached(&again, trial)? else { return Ok(None) };
            if second.judged.verdict == judged.verdict {
                self.remove_unless_needed(&again, false);
            } else {
                let (verdict, other) = (judged.verdict.words(), second.judged.verdict.words());
                let seen = format!("{verdict} ({}), then {other} ({})", judged.seen, second.judged.seen);
                judged = JudgedRun { verdict: Verdict::NotRepeatable, seen };
                is_needed = self.launcher.plan.is_finding(Verdict::NotRepeatable);
                self.remove_unless_needed(&again, is_needed);
            }
        }
        self.remove_unless_needed(&name, is_needed);
        let new = sorted_sites(&first.counted).into_iter().filter(|place| !self.known.contains(&place.site));
        let new: Vec<SiteCounts> = new.collect();
        tracing::debug!("run {number}: {}: {}", judged.verdict.words(), judged.seen);
        Ok(Some(CompletedRun { trial: trial.clone(), number, judged, new }))
    }

    fn remove_unless_needed(&self, name: &str, is_needed: bool) {
        if !is_needed && !self.launcher.keeps {
            // If this fails, a directory remains, which is harmless.
            let _ = fs::remove_dir_all(self.launcher.directory.join(name));
        }
    }

    /// Repeats a run until the program makes the call, at most [`MOST_ATTEMPTS`] times.
    fn attempt_until_reached(&self, name: &str, trial: &Trial) -> Result<Option<Attempt>> {
        let mut attempts = 1..MOST_ATTEMPTS;
        loop {
            let Some(tried) = self.attempt_once(name, trial)? else { return Ok(None) };
            if tried.counted.fired || attempts.next().is_none() {
                return Ok(Some(tried));
            }
        }
    }

    fn attempt_once(&self, name: &str, trial: &Trial) -> Result<Option<Attempt>> {
        let plan = &self.launcher.plan;
        let mut rules = trial.fault_rules(plan);
        let last = rules.len().saturating_sub(1);
        for (i, rule) in rules.iter_mut().enumerate() {
            // The rules before the last one lead to the call that the run is about.
            *rule += &if i == last { format!(":name={}", count::FAIL) } else { format!(":name=before-{i}") };
        }
        rules.push(counting_rule(plan));
        let order = RunRequest { name, rules: &rules.join(";"), is_dry: false };
        let Some(ran) = self.launcher.run_program(&order)? else { return Ok(None) };
        let counted = count::read_recording(&ran.recording_path(), &|site| self.known.contains(site))?;
        let right = match &plan.compare {
            Some(command) if ran.end == self.baseline.ran.end && ran.end == RunEnd::Exited(0) => {
                match compare::is_output_right(command, &plan.directory, &ran.stdout_path())? {
                    None => return Ok(None),
                    right => right,
                }
            }
            Some(_) => Some(true),
            None => None,
        };
        let judged = judge_trial(&self.baseline, &ran, &counted, right);
        Ok(Some(Attempt { counted, judged }))
    }
}
