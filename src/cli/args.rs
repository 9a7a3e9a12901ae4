//! The command line: every option once, with its help. `docs/reference/commands` is made of it.
//!
//! What belongs here: names, shapes and help. What a value means is read where it is used.

mod check;
mod deny;
mod doctor;
mod export;
mod home;
mod inject;
mod p2p;
#[cfg(test)]
mod pages;
mod reduce;
mod release;
#[cfg(test)]
mod share;
#[cfg(test)]
mod shown;
mod sweep;
mod top;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

pub use check::{CheckArgs, Level};
pub use deny::DenyArgs;
pub use doctor::{DoctorArgs, DoctorFormat, ProbeSystemArgs};
pub use export::{ExportArgs, ExportFormat};
pub use home::{CleanArgs, LsArgs, LsFormat};
pub use inject::InjectArgs;
pub use p2p::P2pArgs;
pub use reduce::ReduceArgs;
pub use release::ReleaseArgs;
pub use sweep::{Codes, SweepArgs, SweepFormat, SweepStage};
pub use top::{Sort, TopArgs, TopFormat};

/// See what CUDA programs do with peer access and IPC memory
#[derive(Parser)]
#[command(name = "cupeer", version, max_term_width = 100)]
pub struct Cli {
    /// Colour what is for people: always, never, or auto, on terminals that have colours unless NO_COLOR is set
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
    /// Print cupeer's environment, for launchers that cannot wrap the program
    Env(EnvArgs),
    /// List what cupeer knows
    List(ListArgs),
    /// Explain a driver function, a result code, a rule or a key of fault plans
    Explain(ExplainArgs),
    /// Report what a record holds
    Report(ReportArgs),
    /// Show what the processes of this host share, open and call, now
    Top(TopArgs),
    /// List the records that are kept at home
    Ls(LsArgs),
    /// Remove the records that are kept at home
    Clean(CleanArgs),
    /// Pack a record into one file, to send to somebody
    Pack(PackArgs),
    /// Reduce records of a node to one small file, or such files of many nodes to one
    Reduce(ReduceArgs),
    /// Write a record as tables, for DuckDB, Spark, ClickHouse, pandas and polars
    Export(ExportArgs),
    /// Release calls held by a fault plan
    Release(ReleaseArgs),
    /// Fail each call in turn and report how the program copes
    Sweep(SweepArgs),
    /// Look for problems with the driver, the libraries, the machine or a program
    Doctor(DoctorArgs),
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

/// What happens to the calls of a program: the options that `run` and `env` share.
#[derive(Args, Default)]
pub struct Options {
    /// Record into DIR; all runs with the same DIR are one job. %p is the pid, %h the host, %q{VAR} a variable [default: a new record at home, which 'cupeer ls' lists]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What the record keeps: full, ring[:SIZE] (the last SIZE of each process and everything still open), auto[:RANKS] (full up to RANKS ranks, 256 without a number; above that ring:4M, a directory a host, and no file for a process that shares nothing), or off [default: auto]
    #[arg(long, value_name = "KEPT")]
    pub record: Option<String>,
    /// Let DIR's group take part in the record and read it
    #[arg(long, value_name = "WITH")]
    pub share: Option<Share>,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub inject: InjectArgs,
    #[command(flatten)]
    pub deny: DenyArgs,
    /// Write a line for each call, as text or as JSON
    #[arg(long, value_name = "FORMAT")]
    pub log: Option<LogFormat>,
    /// Append the log to FILE instead of stderr; %p is the pid, %h the host, %q{VAR} a variable
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Log only these functions: names, patterns, @groups, ^negations, separated by commas, or all [default: ^@lookup,^@lifetime,^@query,^@vmm,^@alloc,^@copy,@export,@open]
    #[arg(long, value_name = "SET")]
    pub trace: Option<String>,
    /// Log only calls that did not return CUDA_SUCCESS
    #[arg(long)]
    pub failed: bool,
    /// Take what the program tells NVTX as marks: each nvtxMark, and the begin and the end of each range
    #[arg(long)]
    pub nvtx: bool,
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Explain on stderr what is decided, and why
    #[arg(short, long)]
    pub verbose: bool,
}

/// Which driver a program gets, where it is not the one of the machine.
#[derive(Args, Clone, Default)]
pub struct DriverArgs {
    /// Run on the simulated driver: nvlink:N, pcie:N, none:N, or a TOML file [default: nvlink:2]
    #[arg(long, value_name = "TOPOLOGY", num_args = 0..=1, require_equals = true, conflicts_with = "driver")]
    pub sim: Option<Option<OsString>>,
    /// Run on this driver library instead of the machine's libcuda.so.1
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
}

/// The word of a value, as the command line has it.
pub fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The group of the directory.
    Group,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `12:34:56.789012 [pid/tid] cuFn(a=1, out=[2]) = CUDA_SUCCESS <1.2us> /lib/x.so+0x12`
    Text,
    /// An object a line: ts_ns pid tid seq function args result duration_ns caller injected
    Json,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// A table that fits the terminal.
    Text,
    /// An array of objects; of faults one object with two of them.
    Json,
    /// The page `docs/reference/rules.md`, `docs/reference/plans.md` or `docs/reference/variables.md`.
    #[value(hide = true)]
    Markdown,
}

#[derive(Args)]
#[command(
    after_help = "Ends as the program ends: with its exit status, or killed by the same signal. 125 means \
that cupeer failed, 126 that the program cannot be executed, 127 that it was not found. --error-exitcode \
and --error-on replace the program's status when a rule was broken, --unused-exitcode when a fault plan did not do \
what it should."
)]
pub struct RunArgs {
    #[command(flatten)]
    pub options: Options,
    /// Exit with status N, 1 to 255, when a process of this run broke a rule of severity warning or error, or one of --error-on, unless a signal killed the program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "exec")]
    pub error_exitcode: Option<u8>,
    /// What --error-exitcode counts [default: warning], also what only the report finds: rules, written as for --ignore, or error, warning or note for findings that are as severe or worse, or all; without --error-exitcode the status is 1
    #[arg(long, value_name = "RULES", conflicts_with = "exec")]
    pub error_on: Option<String>,
    /// Leave out of the summary, and of what --error-exitcode and --error-on count, the findings that FILE names; may be repeated. What is said at a call is chosen with --ignore
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    pub suppressions: Vec<PathBuf>,
    /// Exit with status N, 1 to 255, when a rule of the fault plans never fired, a denied pair of devices was never asked about or tried, or no context exceeded --peer-limit, unless a signal killed the program. A pair that an earlier one already denies does not count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "exec")]
    pub unused_exitcode: Option<u8>,
    /// Say only what is wrong: errors, deaths, and findings above note; no counts
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// At the end, put one small file in the place of what the processes of this host have recorded: see 'cupeer reduce'
    #[arg(long, conflicts_with = "exec")]
    pub reduce: bool,
    /// Become the program (same pid) instead of waiting for it; there is no summary at the end
    #[arg(long)]
    pub exec: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

#[derive(Args)]
#[command(after_help = "\
Without --out nothing is recorded, because there is no program to name a directory after.

  eval \"$(cupeer env --log text --format sh)\"
  eval \"docker run $(cupeer env --log text --format docker) IMAGE PROGRAM\"
  eval \"mpirun -np 2 $(cupeer env --log text --format mpirun) PROGRAM\"
  eval \"srun $(cupeer env --log text --format srun) PROGRAM\"
  ray job submit --runtime-env-json=\"$(cupeer env --log text --format ray)\" -- PROGRAM

k8s: the env list, volumes and volumeMounts of a pod; the libraries must be on the node.")]
pub struct EnvArgs {
    #[command(flatten)]
    pub options: Options,
    /// Print instead the settings with which NCCL, vLLM, llama.cpp, UCX and Open MPI avoid what 'cupeer doctor --p2p -o FILE' has found to be bad
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "Options")]
    pub p2p: Option<PathBuf>,
    /// What will read the environment
    #[arg(long, value_name = "FORMAT", required_unless_present = "p2p")]
    pub format: Option<EnvFormat>,
}

/// The reader for which `cupeer env` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum EnvFormat {
    /// Export lines for a POSIX shell, for `eval`.
    Sh,
    /// Arguments of `docker run`.
    Docker,
    /// YAML for a container of a pod.
    K8s,
    /// Arguments of Open MPI's `mpirun`.
    Mpirun,
    /// An argument of Slurm's `srun`.
    Srun,
    /// A JSON runtime environment of Ray.
    Ray,
}

#[derive(Args)]
pub struct ListArgs {
    /// What to list
    pub what: Topic,
    /// Print a table or JSON
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ListFormat,
    /// With functions: include those of the simulated driver that are not intercepted (they have no group)
    #[arg(long)]
    pub all: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The driver functions that are intercepted.
    Functions,
    /// The driver's result codes.
    Errors,
    /// The machines that the simulated driver can show.
    Topologies,
    /// The environment variables.
    Environment,
    /// The rules that are checked, and those that cannot be.
    Rules,
    /// The keys of fault plans, and what a plan can change in each function.
    Faults,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// A driver function, a rule, a key of fault plans, or a result code: a number, or its name with or without CUDA_ERROR_
    #[arg(allow_negative_numbers = true)]
    pub name: String,
}

#[derive(Args)]
#[command(after_help = "  cupeer report                                  # the newest of the records at home
  cupeer report app-12                           # the one that 'cupeer ls' lists so
  cupeer report DIR --leaks                      # what was never closed, by where it was opened
  cupeer report DIR --leaks --since-mark warm --until-mark done   # what grew between two marks
  cupeer report DIR --rank 3 --failed            # what failed on rank 3
  cupeer report DIR --format json | jq .handles
  cupeer report DIR --format html >report.html   # one page, for a browser
  cupeer report DIR --format trace >trace.json   # for ui.perfetto.dev
  cupeer report DIR --diff OTHER                 # what differs in OTHER
  cupeer report DIR --suggest-suppressions >known.toml   # for --suppressions known.toml")]
pub struct ReportArgs {
    /// The record: a directory, a file made by `cupeer pack`, or a name or number that `cupeer ls` lists [default: the newest of those]; of a large job, any number of files made by `cupeer reduce`
    pub dir: Vec<PathBuf>,
    /// Print text, JSON (docs/report.schema.json), a trace for ui.perfetto.dev, SARIF 2.1.0 for code scanning, JUnit's XML for CI servers, or a page (HTML)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ReportFormat,
    /// Show only this process: a pid, or its name in the JSON form
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
    /// Show only calls from TIME on: seconds since the record began, or a time like 2025-11-21T07:43:02Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Show only what had begun by TIME
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Show only calls from the first mark called NAME on (cupeer_mark); with --leaks, what was opened since
    #[arg(long, value_name = "NAME", conflicts_with = "since")]
    pub since_mark: Option<String>,
    /// Show only what had begun by the last mark called NAME; with --leaks, what was open then
    #[arg(long, value_name = "NAME", conflicts_with = "until")]
    pub until_mark: Option<String>,
    /// Show what was opened and never closed, by the call stack that opened it
    #[arg(long)]
    pub leaks: bool,
    /// Show all rows of long tables
    #[arg(long)]
    pub all: bool,
    /// Leave out the findings that FILE names, and say how many; JSON and SARIF have them with the entry; may be repeated
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,
    /// Print a file for --suppressions that names all findings above note
    #[arg(long, conflicts_with_all = ["leaks", "diff", "format", "all"])]
    pub suggest_suppressions: bool,
    /// Compare with another record: functions, failures, and the states of handles
    #[arg(long, value_name = "OTHER", conflicts_with = "leaks")]
    pub diff: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// Tables that fit the terminal.
    Text,
    /// One object.
    Json,
    /// Chrome's trace events.
    Trace,
    /// A log of SARIF 2.1.0.
    Sarif,
    /// JUnit's XML: a test case for each rule and each process.
    Junit,
    /// One page for a browser, which opens offline.
    Html,
}

#[derive(Args)]
#[command(after_help = "  cupeer pack DIR                       # DIR.cupeer.tar.gz, for `cupeer report`
  cupeer pack DIR --redact hosts,paths  # with numbers in place of names

Never included: the key of the fingerprints, and values of variables whose names sound like secrets.
Always included: pids, devices, names of files and functions, and the texts of calls and marks.")]
pub struct PackArgs {
    /// The directory of the record, its name in `cupeer ls`, or a packed record, to redact more of it
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write to FILE [default: DIR.cupeer.tar.gz, here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave these out, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Overwrite FILE if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Redact {
    /// The programs' arguments
    Arguments,
    /// The values of variables, except ranks and visible devices
    Environment,
    /// The names of the recorded hosts, which are numbered instead
    Hosts,
    /// Directories, which become a few digits each; names of files stay
    Paths,
    /// All of these
    All,
}
