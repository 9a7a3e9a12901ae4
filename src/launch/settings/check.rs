//! The variables of the checks, and which of their options are refused.

use crate::args::{CheckArgs, Level, Options};
use crate::job;
use anyhow::{Result, anyhow, bail, ensure};
use cupeer_console::args::value_word;
use cupeer_console::variables::nonempty_variable;
use cupeer_rules::RuleSet;
use cupeer_spec::env;
use std::ffi::{OsStr, OsString};

/// Returns the variables of the check options. `is_by_default` is true if rules are checked without any option.
pub fn check_variables(options: &CheckArgs, is_by_default: bool) -> Result<Vec<(&'static str, OsString)>> {
    let sets = [
        ("--ignore", env::IGNORE, &options.ignore),
        ("--only", env::ONLY, &options.only),
        ("--abort-on", env::ABORT_ON, &options.abort_on),
        ("--stop-on", env::STOP_ON, &options.stop_on),
    ];
    let mut variables = Vec::new();
    if let Some(level) = options.check {
        variables.push((env::CHECK, value_word(level).into()));
    }
    for (option, variable, set) in sets {
        let Some(set) = set else { continue };
        let is_checked = match (options.check, nonempty_variable(env::CHECK)) {
            (Some(level), _) => level != Level::Off,
            (None, Some(inherited)) => !is_off(&inherited),
            (None, None) => is_by_default,
        };
        ensure!(is_checked, "{option} chooses rules, but nothing is checked; add --check");
        RuleSet::parse(set).map_err(|error| anyhow!("{option} '{set}', {error}"))?;
        variables.push((variable, set.into()));
    }
    Ok(variables)
}

fn is_off(level: &OsStr) -> bool {
    level == value_word(Level::Off).as_str()
}

/// Returns the default variable of a run that records, unless an option or a variable chooses a level.
pub fn default_variable(options: &CheckArgs) -> Option<(&'static str, OsString)> {
    let is_unsaid = options.check.is_none() && nonempty_variable(env::CHECK).is_none();
    is_unsaid.then(|| (env::CHECK, env::BRIEF.into()))
}

/// Makes sure that rules are checked, because an option depends on their findings.
pub fn require_checks(options: &mut Options, option: &str) -> Result<()> {
    let check = &mut options.check;
    ensure!(check.check != Some(Level::Off), "{option} and --check=off contradict each other");
    let is_off_record = options.record.as_deref() == Some(job::OFF);
    ensure!(!is_off_record, "{option} and --record off contradict each other: findings go into the recording");
    if check.check.is_none() && nonempty_variable(env::CHECK).is_none_or(|level| is_off(&level)) {
        check.check = Some(Level::Brief);
    }
    Ok(())
}

/// Returns the variable for a run without a recording, in which `--check` is refused. `--record off` overrides an inherited
/// level; otherwise, every process would report that it cannot check.
pub fn unrecorded_variable(options: &Options) -> Result<Option<(&'static str, OsString)>> {
    let is_off = options.record.as_deref() == Some(job::OFF);
    match options.check.check {
        None | Some(Level::Off) => {
            let is_inherited = is_off && nonempty_variable(env::CHECK).is_some();
            Ok(is_inherited.then(|| (env::CHECK, OsString::new())))
        }
        Some(_) if is_off => {
            bail!("--check and --record off contradict each other: findings go into the recording")
        }
        Some(_) => bail!("--check needs a recording, but nothing is recorded; add --out DIR"),
    }
}
