//! All that a sweep has come to.

use super::count::Site;
use super::state::{Baseline, Done, Plan};
use super::trials::{Counts, Trial};
use super::verdict::Judged;
use crate::formats::quoted;
use std::path::PathBuf;
use std::time::Duration;

/// All that a sweep has come to.
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
            Some(Some(topology)) => words.push(format!("--sim={topology}")),
            Some(None) => words.push("--sim".into()),
            None => {}
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
