//! Fault plans of a run: where its processes count together what the plans did, and what they did in the end.
//!
//! What belongs here: the directory, and reading it. The options, and the text that the processes get, are
//! `settings::inject`'s; the sentences are the report's.

use anyhow::{Context, Result};
use cupeer_console::variables::Environment;
use cupeer_facts::faults::{Fault, of_rules};
use cupeer_launch::job::{self, Job};
use cupeer_record::{FaultFile, FaultRule, faults};
use cupeer_report::model::DENY;
use cupeer_spec::env;
use cupeer_spec::fault::Plan;
use std::path::PathBuf;
use tempfile::TempDir;

/// The library's name for a plan without a name.
const UNNAMED: &str = "inject";

pub struct Faults {
    /// The directory in which the processes count.
    directory: PathBuf,
    /// The same, where it is for this run only, and goes with it.
    _temporary: Option<TempDir>,
    /// True if an outer cupeer shares the counts, and reports them.
    is_inherited: bool,
    /// The rules of which something is to be said, also where no process came to count them.
    rules: Vec<FaultRule>,
    is_dry: bool,
}

/// Returns true if processes with this environment are or may come under a fault plan, or are denied something.
pub fn are_asked_for(environment: &Environment) -> bool {
    [env::INJECT, env::DENY_PEER, env::PEER_LIMIT, env::ALLOW_FAULTS]
        .into_iter()
        .any(|name| value(environment, name).is_some())
}

fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(name).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
}

impl Faults {
    /// Those of an environment, which is told where to count. `None` where there are none.
    pub fn new(environment: &mut Environment, job: Option<&Job>) -> Result<Option<Faults>> {
        if !are_asked_for(environment) {
            return Ok(None);
        }
        let rules = rules(environment);
        let is_dry = value(environment, env::DRY_RUN) == Some("1");
        let inherited = value(environment, env::FAULTS).map(PathBuf::from);
        let is_inherited = inherited.is_some();
        if let Some(directory) = inherited.or_else(|| job.map(|job| job.directory.clone())) {
            return Ok(Some(Faults { directory, _temporary: None, is_inherited, rules, is_dry }));
        }
        let temporary = job::temporary("cupeer-faults-")
            .context("failed to make a directory in which processes count what fault plans do")?;
        environment.set(env::FAULTS, job::literal(temporary.path()));
        let directory = temporary.path().to_path_buf();
        tracing::debug!("fault plans are counted in {}", directory.display());
        Ok(Some(Faults { directory, _temporary: Some(temporary), is_inherited, rules, is_dry }))
    }

    pub fn seen(&self) -> Vec<Fault> {
        let mut counted = faults::merged(&FaultFile::all_in(&self.directory));
        // There is no file if no process reached the point of counting.
        if counted.is_empty() {
            counted = self.rules.clone();
        }
        of_rules(counted, self.is_dry)
    }

    /// Returns true if this run reports the counts, and not an outer cupeer.
    pub fn is_ours(&self) -> bool {
        !self.is_inherited
    }
}

/// The rules that an environment asks for, of which nothing has been counted.
fn rules(environment: &Environment) -> Vec<FaultRule> {
    let uncounted = |name: String, text: String| FaultRule { name, text, matched: 0, fired: 0, processes: 0 };
    // The library itself reports a plan that it cannot parse.
    let plan = value(environment, env::INJECT).and_then(|text| Plan::parse(UNNAMED, text).ok());
    let rules = plan.into_iter().flat_map(|plan| plan.rules).map(|rule| uncounted(rule.name, rule.text));
    let denied = value(environment, env::DENY_PEER).into_iter().flat_map(|pairs| pairs.split(','));
    let limit = value(environment, env::PEER_LIMIT).map(|limit| format!("more than {limit} peers"));
    let denied = denied.map(str::to_owned).chain(limit).zip(1..);
    rules.chain(denied.map(|(what, number)| uncounted(format!("{DENY}/{number}"), what))).collect()
}
