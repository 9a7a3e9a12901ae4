//! The outcome of a sweep.

use super::baseline::Baseline;
use super::count::CallSite;
use super::plan::{SimChoice, SweepPlan};
use super::state::CompletedRun;
use super::trials::{SiteCounts, Trial};
use super::verdict::{JudgedRun, Verdict};
use cupeer_console::args::shell_quoted;
use std::path::PathBuf;
use std::time::Duration;

pub struct SweepOutcome {
    pub plan: SweepPlan,
    pub baseline: Baseline,
    /// Verdict on the program without faults; `None` if nothing is wrong.
    pub baseline_verdict: Option<JudgedRun>,
    /// Completed runs, in order.
    pub done: Vec<CompletedRun>,
    pub left_out: Vec<Trial>,
    /// Number of possible runs that are not planned.
    pub unplanned: u64,
    /// Places with their callers and calls.
    pub places: Vec<SiteCounts>,
    pub directory: PathBuf,
    pub time: Duration,
}

impl SweepOutcome {
    pub fn findings(&self) -> impl Iterator<Item = &CompletedRun> {
        self.done.iter().filter(|done| self.plan.is_finding(done.judged.verdict))
    }

    /// Returns the findings in order, grouped: runs about the same place with the same result form one group.
    pub fn distinct_findings(&self) -> Vec<Vec<&CompletedRun>> {
        let mut groups: Vec<Vec<&CompletedRun>> = Vec::new();
        for done in self.findings() {
            match groups.iter_mut().find(|group| have_same_result(group[0], done)) {
                Some(group) => group.push(done),
                None => groups.push(vec![done]),
            }
        }
        groups
    }

    /// Returns the verdict on the program without faults, if it is a finding.
    pub fn baseline_finding(&self) -> Option<&JudgedRun> {
        self.baseline_verdict.as_ref().filter(|own| self.plan.is_finding(own.verdict))
    }

    pub fn has_findings(&self) -> bool {
        self.baseline_finding().is_some() || self.findings().next().is_some()
    }

    /// Returns the caller at a place.
    pub fn caller_at(&self, site: &CallSite) -> &str {
        self.places.iter().find(|place| place.site == *site).map_or("", |place| place.caller.as_str())
    }

    /// Returns the command that repeats a run; without a trial, the run of the program without faults.
    pub fn repeat_command(&self, trial: Option<&Trial>, verdict: Verdict) -> String {
        let mut words = vec!["cupeer".to_owned(), "run".to_owned()];
        match &self.plan.sim {
            SimChoice::Topology(topology) => words.push(format!("--sim={topology}")),
            SimChoice::Usual => words.push("--sim".into()),
            SimChoice::No => {}
        }
        if let Some(driver) = &self.plan.driver {
            words.extend(["--driver".into(), driver.display().to_string()]);
        }
        if verdict == Verdict::Misuse {
            words.push("--check".into());
        }
        for rule in trial.into_iter().flat_map(|trial| trial.fault_rules(&self.plan)) {
            words.extend(["--inject".into(), rule]);
        }
        words.push("--".into());
        words.extend(self.plan.program.iter().cloned());
        words.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Returns true if two runs are about the same place, reached in the same way, and have the same result.
fn have_same_result(a: &CompletedRun, b: &CompletedRun) -> bool {
    let sites = |done: &CompletedRun| done.trial.faults.iter().map(|fault| fault.call.site.clone()).collect::<Vec<_>>();
    a.judged.verdict == b.judged.verdict && sites(a) == sites(b)
}

/// Outcome of the runs of a sweep.
pub trait SweepReport {
    fn has_findings(&self) -> bool;
    fn text(&self) -> String;
    fn json(&self, is_interrupted: bool) -> serde_json::Value;
}
