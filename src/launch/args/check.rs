//! The options of the checks, which `run` and `env` share.

use clap::{Args, ValueEnum};

#[derive(Args, Default)]
pub struct CheckArgs {
    /// Select the rule violations to report, and the level of detail [--check alone: full; default: brief for 'run', off for 'env']
    #[arg(
        long, help_heading = "Checking",
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full"
    )]
    pub check: Option<Level>,
    /// Do not check these rules: names or patterns, separated by commas; RULE@LIBRARY applies only to calls of that library
    #[arg(long, help_heading = "Checking", value_name = "RULES")]
    pub ignore: Option<String>,
    /// Check only these rules, written as for --ignore
    #[arg(long, help_heading = "Checking", value_name = "RULES")]
    pub only: Option<String>,
    /// Abort a process (SIGABRT) when it breaks one of these rules
    #[arg(long, help_heading = "Checking", value_name = "RULES")]
    pub abort_on: Option<String>,
    /// Stop a process (SIGSTOP) when it breaks one of these rules, to attach a debugger
    #[arg(long, help_heading = "Checking", value_name = "RULES")]
    pub stop_on: Option<String>,
}

/// Selection of the findings to print, and their form.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Errors and warnings, one line each as they happen, and hints at the end
    Brief,
    /// Errors and warnings, in full
    Full,
    /// Errors, in full
    Errors,
    /// Errors and warnings, in full
    Warnings,
    /// Errors, warnings, and notes, in full
    Notes,
    /// Nothing during the run; the summary and the report still list what the recording shows
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_console::args::value_word;
    use cupeer_rules::Severity;
    use cupeer_spec::env;

    #[test]
    fn the_library_understands_every_level() {
        let understood = Level::value_variants().iter().map(|level| env::CheckLevel::parse(&value_word(*level)));
        let severities: Vec<_> = understood.map(|level| level.unwrap().map(|level| level.severity)).collect();
        let [error, warning, note] = [Severity::Error, Severity::Warning, Severity::Note].map(Some);
        assert_eq!(severities, [warning, warning, error, warning, note, None]);
    }
}
