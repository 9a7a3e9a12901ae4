//! The variables of the checks, and which of their options are refused.

use crate::args::{CheckArgs, Options};
use anyhow::{Result, bail};
use cupeer_rules::RuleSet;
use cupeer_spec::env;
use std::ffi::OsString;

/// The variables that the options become.
pub fn variables(options: &CheckArgs) -> Result<Vec<(&'static str, OsString)>> {
    let sets = [
        ("--ignore", env::IGNORE, &options.ignore),
        ("--only", env::ONLY, &options.only),
        ("--abort-on", env::ABORT_ON, &options.abort_on),
        ("--stop-on", env::STOP_ON, &options.stop_on),
    ];
    let mut variables = Vec::new();
    if let Some(level) = options.check {
        variables.push((env::CHECK, level.word().into()));
    }
    for (option, variable, set) in sets {
        let Some(set) = set else { continue };
        needed_by(option, "chooses rules", options)?;
        if let Err(error) = RuleSet::parse(set) {
            bail!("{option} '{set}', {error}");
        }
        variables.push((variable, set.into()));
    }
    Ok(variables)
}

/// Refuses an option that does nothing without checks.
pub fn needed_by(option: &str, does: &str, options: &CheckArgs) -> Result<()> {
    if options.check.is_none() && !is_inherited() {
        bail!("{option} {does}, but nothing is checked; add --check");
    }
    Ok(())
}

fn is_inherited() -> bool {
    std::env::var_os(env::CHECK).is_some_and(|level| !level.is_empty())
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
        None => Ok((is_off && is_inherited()).then(|| (env::CHECK, OsString::new()))),
    }
}
