//! The command line: every option once, with its help. `docs/reference/commands` is made of it.
//!
//! It has names, forms, and help. The code that uses a value reads its meaning.

mod export;
mod fault;
mod home;
mod reduce;
mod release;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use cupeer_doctor::args::{DoctorArgs, ProbeSystemArgs};
use cupeer_export::trace::TraceForm;
use cupeer_launch::args::Options;
use cupeer_run::args::RunArgs;
use cupeer_sweep::args::SweepArgs;
use cupeer_top::args::TopArgs;
use cupeer_views::FORMS;
use cupeer_views::form::Form;
use cupeer_why::args::WhyArgs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::LazyLock;

pub use export::{ExportArgs, ExportFormat};
pub use fault::FaultArgs;
pub use home::{CleanArgs, LsArgs, LsFormat};
pub use reduce::ReduceArgs;
pub use release::ReleaseArgs;

/// Debug CUDA programs that share GPU memory between processes or devices
#[derive(Parser)]
#[command(name = "cupeer", version, max_term_width = 100)]
pub struct Cli {
    /// Colorize output: always, never, or auto. auto colors only terminals and honors NO_COLOR
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        hide_possible_values = true,
        display_order = 998
    )]
    pub color: clap::ColorChoice,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program under cupeer
    Run(RunArgs),
    /// Print the environment of 'cupeer run', for launchers that cannot wrap the program
    Env(EnvArgs),
    /// List the functions, rules, results, faults, topologies, or variables that cupeer knows
    List(ListArgs),
    /// Explain a driver function, a result code, a rule, or a key of fault plans
    Explain(ExplainArgs),
    /// Report what the processes of a recording did, and the problems
    Report(ReportArgs),
    /// Show live GPU memory sharing and driver calls on this host
    Top(TopArgs),
    /// Explain what each process of a job waits for: its stack, its peer, and the handles that nobody opened
    Why(WhyArgs),
    /// List the recordings in the default directory
    Ls(LsArgs),
    /// Delete the recordings in the default directory
    Clean(CleanArgs),
    /// Pack a recording into one file, to send to somebody
    Pack(PackArgs),
    /// Condense a node's recordings into one small file, or merge such files
    Reduce(ReduceArgs),
    /// Write a recording as tables, for DuckDB, Spark, ClickHouse, pandas, and polars
    Export(ExportArgs),
    /// Arm, disarm, and list fault plans of a running job
    Fault(FaultArgs),
    /// Release calls held by a fault plan
    Release(ReleaseArgs),
    /// Fail each call in turn and report how the program handles it
    Sweep(SweepArgs),
    /// Check the driver, the libraries, the machine, a program, or the links between devices
    Doctor(DoctorArgs),
    /// Print the script with which a shell completes commands, options, recordings, rules, and functions
    Completions(CompletionsArgs),
    /// Examine the driver in this process, for `doctor`
    #[command(hide = true)]
    ProbeDriver,
    /// Hold devices in this process, for `doctor --p2p`
    #[command(hide = true, name = "probe-p2p")]
    ProbeP2p,
    /// Ask NVIDIA's libraries and the kernel in this process, for `doctor`
    #[command(hide = true)]
    ProbeSystem(ProbeSystemArgs),
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// A table that fits the terminal.
    Text,
    /// An array of objects; of faults one object with two of them.
    Json,
    /// The page `docs/reference/plans.md` or `docs/reference/variables.md`.
    #[value(hide = true)]
    Markdown,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  eval \"$(cupeer env --log text --format sh)\"
  eval \"docker run $(cupeer env --log text --format docker) IMAGE PROGRAM\"
  eval \"mpirun -np 2 $(cupeer env --log text --format mpirun) PROGRAM\"
  eval \"srun $(cupeer env --log text --format srun) PROGRAM\"
  ray job submit --runtime-env-json=\"$(cupeer env --log text --format ray)\" -- PROGRAM

k8s prints the env list, volumes, and volumeMounts of a pod; the libraries must be on the node.")]
pub struct EnvArgs {
    #[command(flatten)]
    pub options: Options,
    /// Print settings with which NCCL, vLLM, llama.cpp, UCX, and Open MPI avoid the links that 'cupeer doctor --p2p -o FILE' found to be bad
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "Options")]
    pub p2p: Option<PathBuf>,
    /// Program that will read the environment
    #[arg(long, value_name = "FORMAT", required_unless_present = "p2p")]
    pub format: Option<EnvFormat>,
}

/// The reader for which `cupeer env` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum EnvFormat {
    /// Export lines for a POSIX shell, for eval
    Sh,
    /// Arguments of docker run
    Docker,
    /// YAML for a container of a pod
    K8s,
    /// Arguments of Open MPI's mpirun
    Mpirun,
    /// Argument of Slurm's srun
    Srun,
    /// JSON runtime environment of Ray
    Ray,
}

#[derive(Args)]
pub struct ListArgs {
    /// Topic
    pub what: Topic,
    /// Print a table or JSON
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ListFormat,
    /// With functions: include functions of the simulated driver that cupeer does not intercept (they have no group)
    #[arg(long)]
    pub all: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Driver functions that cupeer intercepts
    Functions,
    /// Result codes of the driver
    #[value(alias = "results")]
    Errors,
    /// Machines that the simulated driver can simulate
    Topologies,
    /// Environment variables
    #[value(alias = "variables")]
    Environment,
    /// Rules that cupeer checks, and those that it cannot check
    Rules,
    /// Keys of fault plans, and what a plan can change in each function
    Faults,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(cupeer completions bash)    # in ~/.bashrc
  source <(cupeer completions zsh)     # in ~/.zshrc, behind compinit
  cupeer completions fish >~/.config/fish/completions/cupeer.fish")]
pub struct CompletionsArgs {
    /// Shell that reads the script
    pub shell: Shell,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// Driver function, rule, key of fault plans, or result code (a number, or a name with or without CUDA_ERROR_)
    #[arg(allow_negative_numbers = true)]
    pub name: String,
}

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
    pub format: ReportForm,
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

/// A form of the report, by its name; or the trace, which is one of the recording.
#[derive(Clone, Copy)]
pub struct ReportForm(&'static dyn Form);

impl ValueEnum for ReportForm {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<ReportForm>> = LazyLock::new(|| {
            FORMS.iter().copied().chain([&TraceForm as &dyn Form]).map(ReportForm).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = self.about();
        Some(PossibleValue::new(about.name).help(about.help))
    }
}

impl Deref for ReportForm {
    type Target = dyn Form;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

#[derive(Args)]
#[command(after_help = "\
Never included: the key of the fingerprints, and values of variables whose names suggest secrets.
Always included: pids, devices, names of files and functions, and the texts of calls and marks.

Examples:
  cupeer pack DIR                       # DIR.cupeer.tar.gz, for 'cupeer report'
  cupeer pack DIR --redact hosts,paths  # with numbers in place of names")]
pub struct PackArgs {
    /// Recording: a directory, a name that 'cupeer ls' lists, or a packed file, to redact more of it
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write to FILE [default: DIR.cupeer.tar.gz in the working directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Data to leave out, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Overwrite FILE if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Redact {
    /// Program arguments
    Arguments,
    /// Values of variables, except ranks and visible devices
    Environment,
    /// Names of hosts, which numbers replace
    Hosts,
    /// Directories, which digits replace; names of files stay
    Paths,
    /// All of these
    All,
}

#[cfg(test)]
mod tests {
    mod pages;
    mod shown;
}
