//! The outcome of a sweep.

use super::count::Site;
use super::state::{Baseline, Done, Plan, Sim};
use super::trials::{Counts, Fault, Trial};
use super::verdict::Judged;
use crate::formats::quoted;
use std::path::PathBuf;
use std::time::Duration;

/// The outcome of a sweep.
pub struct Outcome {
    /// What was run.
    pub plan: Plan,
    /// Without faults.
    pub baseline: Baseline,
    /// What is wrong without faults.
    pub own: Option<Judged>,
    /// The runs that are done, in their order.
    pub done: Vec<Done>,
    /// The runs that are not.
    pub left_out: Vec<Trial>,
    /// How many more runs there would be.
    pub unplanned: u64,
    /// Who calls, of all places.
    pub places: Vec<Counts>,
    /// The directory of the sweep.
    pub directory: PathBuf,
    /// How long it took this time.
    pub time: Duration,
}

impl Outcome {
    /// The runs with findings.
    pub fn findings(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().filter(|done| self.plan.is_finding(done.judged.verdict))
    }

    /// The findings, in their order: runs about one call that show the same are one.
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

    /// What is wrong without faults, where that is a finding.
    pub fn own_finding(&self) -> Option<&Judged> {
        self.own.as_ref().filter(|own| self.plan.is_finding(own.verdict))
    }

    /// Whether there is a finding.
    pub fn has_findings(&self) -> bool {
        self.own_finding().is_some() || self.findings().next().is_some()
    }

    /// Who calls from the place of a call.
    pub fn caller(&self, site: &Site) -> &str {
        self.places.iter().find(|place| place.site == *site).map_or("", |place| place.caller.as_str())
    }

    /// The command that repeats a run, or the program without faults.
    pub fn command(&self, trial: Option<&Trial>, is_checked: bool) -> String {
        let mut words = vec!["cupeer".to_owned(), "run".to_owned()];
        match &self.plan.sim {
            Sim::Topology(topology) => words.push(format!("--sim={topology}")),
            Sim::Usual => words.push("--sim".into()),
            Sim::No => {}
        }
        if let Some(driver) = &self.plan.driver {
            words.extend(["--driver".into(), driver.display().to_string()]);
        }
        if is_checked {
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

fn is_alike(a: &Done, b: &Done) -> bool {
    let (last, before) = (a.trial.faults.last(), &a.trial.faults[..a.trial.faults.len() - 1]);
    let call = |fault: Option<&Fault>| fault.map(|fault| fault.call.clone());
    a.judged.verdict == b.judged.verdict
        && call(last) == call(b.trial.fault())
        && before == &b.trial.faults[..b.trial.faults.len() - 1]
}
