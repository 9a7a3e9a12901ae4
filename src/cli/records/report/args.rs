//! The command line of `cupeer report`.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};
use cupeer_export::trace::TraceForm;
use cupeer_views::FORMS;
use cupeer_views::form::ReportForm;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::LazyLock;

#[derive(Args)]
#[command(after_help = "\
Examples:
  cupeer report                                  # the newest recording
  cupeer report app-12                           # a recording that 'cupeer ls' lists
  cupeer report DIR --leaks                      # what was never closed, by the place that opened it
  cupeer report DIR --leaks --since-mark warm --until-mark done   # what grew between two marks
  cupeer report DIR --rank 3 --failed            # what failed on rank 3
  cupeer report DIR --format json | jq .handles
  cupeer report DIR --format html -o report.html # one file, for a browser
  cupeer report DIR --format trace -o trace.json # for ui.perfetto.dev
  cupeer report DIR --diff OTHER                 # how OTHER differs
  cupeer report DIR --suggest-suppressions >known.toml   # for --suppressions known.toml")]
pub struct ReportArgs {
    /// Recording: a directory, a file of 'cupeer pack', or a name or number that 'cupeer ls' lists [default: the newest one]; or any number of files of 'cupeer reduce'
    pub dir: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: FormChoice,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Show only this process: a pid, or its name in JSON; or those that have a variable, as NAME=VALUE
    #[arg(long, value_name = "PROCESS")]
    pub process: Option<String>,
    /// Show only these ranks: numbers and ranges, separated by commas
    #[arg(long, value_name = "RANKS")]
    pub rank: Option<String>,
    /// Show only calls of these functions: names, patterns, @groups, ^negations, separated by commas
    #[arg(long, value_name = "SET")]
    pub function: Option<String>,
    /// Show only calls that did not return CUDA_SUCCESS
    #[arg(long)]
    pub failed: bool,
    /// Show only calls from TIME on: seconds since the recording began, or 2025-11-21T07:43:02Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Show only calls that began by TIME
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Show only calls from the first mark called NAME (cupeer_mark) on; with --leaks, what was opened since
    #[arg(long, value_name = "NAME", conflicts_with = "since")]
    pub since_mark: Option<String>,
    /// Show only calls that began by the last mark called NAME; with --leaks, what was open then
    #[arg(long, value_name = "NAME", conflicts_with = "until")]
    pub until_mark: Option<String>,
    /// Show what was opened and never closed, by the call stack that opened it
    #[arg(long)]
    pub leaks: bool,
    /// Show all rows of long tables
    #[arg(long)]
    pub all: bool,
    /// Leave out the lines of source at the places of findings
    #[arg(long)]
    pub no_source: bool,
    /// Leave out the findings listed in FILE, and print their number; JSON and SARIF keep them, with the entry; repeatable
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,
    /// Findings that count as errors: as for 'cupeer run'; exit with status 1 if there is one [default: what the run was given, without the status]
    #[arg(long, value_name = "RULES", conflicts_with_all = ["diff", "suggest_suppressions"])]
    pub error_on: Option<String>,
    /// Print a file for --suppressions that lists all errors and warnings
    #[arg(long, conflicts_with_all = ["leaks", "diff", "format", "all"])]
    pub suggest_suppressions: bool,
    /// Compare with another recording: functions, failures, and states of handles
    #[arg(long, value_name = "OTHER", conflicts_with = "leaks")]
    pub diff: Option<PathBuf>,
}

/// A form of the report by its name. One of the forms is the trace, which shows the recording itself.
#[derive(Clone, Copy)]
pub struct FormChoice(&'static dyn ReportForm);

impl ValueEnum for FormChoice {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<FormChoice>> =
            LazyLock::new(|| FORMS.iter().copied().chain([&TraceForm as &dyn ReportForm]).map(FormChoice).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = self.properties();
        Some(PossibleValue::new(about.name).help(about.help))
    }
}

impl Deref for FormChoice {
    type Target = dyn ReportForm;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}
