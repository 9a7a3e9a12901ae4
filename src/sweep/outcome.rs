//! The outcome of a sweep.

use super::baseline::Baseline;
use super::count::Site;
use super::plan::{Plan, Sim};
use super::state::Done;
use super::trials::{Counts, Trial};
use super::verdict::{Judged, Verdict};
use cupeer_console::args::quoted;
use std::path::PathBuf;
use std::time::Duration;

pub struct Outcome {
    pub plan: Plan,
    pub baseline: Baseline,
    /// Verdict on the program without faults; `None` if nothing is wrong.
    pub own: Option<Judged>,
    /// Completed runs, in order.
    pub done: Vec<Done>,
    pub left_out: Vec<Trial>,
    /// Number of possible runs that are not planned.
    pub unplanned: u64,
    /// Places with their callers and calls.
    pub places: Vec<Counts>,
    pub directory: PathBuf,
    pub time: Duration,
}

impl Outcome {
    pub fn findings(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().filter(|done| self.plan.is_finding(done.judged.verdict))
    }

    /// Returns the findings in order, grouped: runs about the same place with the same result form one group.
    pub fn distinct_findings(&self) -> Vec<Vec<&Done>> {
        let mut groups: Vec<Vec<&Done>> = Vec::new();
        for done in self.findings() {
            match groups.iter_mut().find(|group| is_alike(group[0], done)) {
                Some(group) => group.push(done),
                None => groups.push(vec![done]),
            }
        }
        groups
    }

    /// Returns the verdict on the program without faults, if it is a finding.
    pub fn own_finding(&self) -> Option<&Judged> {
        self.own.as_ref().filter(|own| self.plan.is_finding(own.verdict))
    }

    pub fn has_findings(&self) -> bool {
        self.own_finding().is_some() || self.findings().next().is_some()
    }

    /// Returns the caller at a place.
    pub fn caller(&self, site: &Site) -> &str {
        self.places.iter().find(|place| place.site == *site).map_or("", |place| place.caller.as_str())
    }

    /// Returns the command that repeats a run; without a trial, the run of the program without faults.
    pub fn command(&self, trial: Option<&Trial>, verdict: Verdict) -> String {
        let mut words = vec!["cupeer".to_owned(), "run".to_owned()];
        match &self.plan.sim {
            Sim::Topology(topology) => words.push(format!("--sim={topology}")),
            Sim::Usual => words.push("--sim".into()),
            Sim::No => {}
        }
        if let Some(driver) = &self.plan.driver {
            words.extend(["--driver".into(), driver.display().to_string()]);
        }
        if verdict == Verdict::Misuse {
            words.push("--check".into());
        }
        for rule in trial.into_iter().flat_map(|trial| trial.rules(&self.plan)) {
            words.extend(["--inject".into(), rule]);
        }
        words.push("--".into());
        words.extend(self.plan.program.iter().cloned());
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Returns true if two runs are about the same place, reached in the same way, and have the same result.
fn is_alike(a: &Done, b: &Done) -> bool {
    let sites =
        |done: &Done| done.trial.faults.iter().map(|fault| fault.call.site.clone()).collect::<Vec<_>>();
    a.judged.verdict == b.judged.verdict && sites(a) == sites(b)
}

/// Outcome of the runs of a sweep.
pub trait Found {
    fn has_findings(&self) -> bool;
    fn text(&self) -> String;
    fn json(&self, is_interrupted: bool) -> serde_json::Value;
}
