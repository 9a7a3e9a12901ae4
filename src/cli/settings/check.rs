//! The variables of the checks, and which of their options are refused.

use super::inherited;
use crate::args::{CheckArgs, Level, Options, word};
use anyhow::{Result, anyhow, bail, ensure};
use cupeer_rules::RuleSet;
use cupeer_spec::env;
use std::ffi::OsString;

pub fn variables(options: &CheckArgs) -> Result<Vec<(&'static str, OsString)>> {
    let sets = [
        ("--ignore", env::IGNORE, &options.ignore),
        ("--only", env::ONLY, &options.only),
        ("--abort-on", env::ABORT_ON, &options.abort_on),
        ("--stop-on", env::STOP_ON, &options.stop_on),
    ];
    let mut variables = Vec::new();
    if let Some(level) = options.check {
        variables.push((env::CHECK, word(level).into()));
    }
    for (option, variable, set) in sets {
        let Some(set) = set else { continue };
        let is_checked = options.check.is_some() || inherited(env::CHECK).is_some();
        ensure!(is_checked, "{option} chooses rules, but nothing is checked; add --check");
        RuleSet::parse(set).map_err(|error| anyhow!("{option} '{set}', {error}"))?;
        variables.push((variable, set.into()));
    }
    Ok(variables)
}

/// Checks at the usual level, where nobody says at which.
pub fn imply(options: &mut CheckArgs) {
    if options.check.is_none() && inherited(env::CHECK).is_none() {
        options.check = Some(Level::Warnings);
    }
}

/// What holds where nothing is recorded: `--check` is refused. An inherited one gives way to `--record off`, or
/// every process would complain that it cannot check.
pub fn without_record(options: &Options) -> Result<Option<(&'static str, OsString)>> {
    let is_off = options.record.as_deref() == Some("off");
    match options.check.check {
        Some(_) if is_off => {
            bail!("--check and --record off contradict each other: findings go into the record")
        }
        Some(_) => bail!("--check needs a record, but nothing is recorded; add --out DIR"),
        None => Ok((is_off && inherited(env::CHECK).is_some()).then(|| (env::CHECK, OsString::new()))),
    }
}
