//! Fault plans of a run: where its processes count together what the plans did, and what they did in the end.
//!
//! What belongs here: the directory, and reading it. The options, and the text that the processes get, are
//! `settings::inject`'s; the sentences are the report's.

use anyhow::{Context, Result};
use cupeer_console::variables::Environment;
use cupeer_facts::faults::{Fault, rows_of_faults};
use cupeer_launch::job::{self, Job};
use cupeer_record::{FaultCounts, FaultFile, faults};
use cupeer_report::model::DENY;
use cupeer_spec::env;
use cupeer_spec::fault::FaultPlan;
use std::path::PathBuf;
use tempfile::TempDir;

/// Name that the preload library gives to a plan without a name.
const UNNAMED: &str = "inject";

pub struct RunFaults {
    /// Directory of the files in which the processes count what the plans do.
    directory: PathBuf,
    /// Owner of the directory if it is temporary: dropping it deletes the directory.
    _temporary: Option<TempDir>,
    /// True if an outer cupeer chose the directory; that cupeer reports the counts.
    is_inherited: bool,
    /// Rules to report, even if no process counted for them.
    rules: Vec<FaultCounts>,
    is_dry: bool,
}

/// Returns true if an environment requests fault plans or denied pairs.
pub fn requests_faults(environment: &Environment) -> bool {
    [env::INJECT, env::DENY_PEER, env::PEER_LIMIT, env::ALLOW_FAULTS]
        .into_iter()
        .any(|name| nonempty_value(environment, name).is_some())
}

fn nonempty_value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(name).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
}

impl RunFaults {
    /// Returns the fault plans of an environment, and sets the variable of their directory; `None` if there are
    /// no plans.
    pub fn new(environment: &mut Environment, job: Option<&Job>) -> Result<Option<RunFaults>> {
        if !requests_faults(environment) {
            return Ok(None);
        }
        let rules = requested_rules(environment);
        let is_dry = nonempty_value(environment, env::DRY_RUN) == Some("1");
        let inherited = nonempty_value(environment, env::FAULTS).map(PathBuf::from);
        let is_inherited = inherited.is_some();
        if let Some(directory) = inherited.or_else(|| job.map(|job| job.directory.clone())) {
            return Ok(Some(RunFaults { directory, _temporary: None, is_inherited, rules, is_dry }));
        }
        let temporary = job::create_temporary_directory("cupeer-faults-")
            .context("failed to make a directory in which processes count what fault plans do")?;
        environment.set(env::FAULTS, job::without_placeholders(temporary.path()));
        let directory = temporary.path().to_path_buf();
        tracing::debug!("fault plans are counted in {}", directory.display());
        Ok(Some(RunFaults { directory, _temporary: Some(temporary), is_inherited, rules, is_dry }))
    }

    pub fn collect_counts(&self) -> Vec<Fault> {
        let mut counted = faults::merge_faults(&FaultFile::all_in(&self.directory));
        // The directory has no file with counts if no process reached the driver.
        if counted.is_empty() {
            counted = self.rules.clone();
        }
        rows_of_faults(counted, self.is_dry)
    }

    /// Returns true if this run reports the counts; false if an outer cupeer does.
    pub fn is_reported_here(&self) -> bool {
        !self.is_inherited
    }
}

/// Returns the rules that an environment requests, with counts of zero.
fn requested_rules(environment: &Environment) -> Vec<FaultCounts> {
    let uncounted = |name: String, text: String| FaultCounts { name, text, matched: 0, fired: 0, processes: 0 };
    // The preload library itself reports a plan that it cannot parse.
    let plan = nonempty_value(environment, env::INJECT).and_then(|text| FaultPlan::parse(UNNAMED, text).ok());
    let rules = plan.into_iter().flat_map(|plan| plan.rules).map(|rule| uncounted(rule.name, rule.text));
    let denied = nonempty_value(environment, env::DENY_PEER).into_iter().flat_map(|pairs| pairs.split(','));
    let limit = nonempty_value(environment, env::PEER_LIMIT).map(|limit| format!("more than {limit} peers"));
    let denied = denied.map(str::to_owned).chain(limit).zip(1..);
    rules.chain(denied.map(|(what, number)| uncounted(format!("{DENY}/{number}"), what))).collect()
}
