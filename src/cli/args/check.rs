//! The options of the checks, which `run` and `env` share.

use clap::{Args, ValueEnum};

#[derive(Args, Default)]
pub struct CheckArgs {
    /// Check the rules of 'cupeer list rules', and report violations of LEVEL or worse [default: warnings]
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "warnings"
    )]
    pub check: Option<Level>,
    /// Do not check these rules: names or patterns, separated by commas; RULE@LIBRARY applies only to calls of that library
    #[arg(long, value_name = "RULES")]
    pub ignore: Option<String>,
    /// Check only these rules, written as for --ignore
    #[arg(long, value_name = "RULES")]
    pub only: Option<String>,
    /// Abort a process (SIGABRT) when it breaks one of these rules
    #[arg(long, value_name = "RULES")]
    pub abort_on: Option<String>,
    /// Stop a process (SIGSTOP) when it breaks one of these rules, for a debugger
    #[arg(long, value_name = "RULES")]
    pub stop_on: Option<String>,
}

/// The least severity that is reported.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// What makes a call fail, or has an undefined effect.
    Errors,
    /// Also what works today, changes nothing, or costs speed or memory.
    Warnings,
    /// Also what is worth knowing.
    Notes,
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;
    use cupeer_rules::Severity;
    use cupeer_spec::env;

    #[test]
    fn the_library_understands_every_level() {
        let understood: Vec<Severity> =
            Level::value_variants().iter().filter_map(|level| env::level(&word(*level))).collect();
        assert_eq!(understood, [Severity::Error, Severity::Warning, Severity::Note]);
    }
}
