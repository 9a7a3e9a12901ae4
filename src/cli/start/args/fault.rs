//! The command line of `cupeer fault`.

use super::ListFormat;
use clap::{ArgGroup, Args};
use cupeer_console::args::duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(
    group(ArgGroup::new("action").required(true).multiple(true).args(["inject", "inject_file", "release", "list"])),
    after_help = "\
The job must allow it: start it with 'cupeer run --allow-faults'. Plans reach all of its processes on this host that belong to you, and \
those that start later. Processes that have called the driver before take a plan at their next call of it.

Exit status: 0 if the plans are armed or disarmed, 1 if there is none to disarm, 125 if cupeer failed or the job does not allow it.

Examples:
  cupeer run -o r --allow-faults --sim -- target/demo-share &
  cupeer fault r --inject 'cuIpcOpenMemHandle*:error=MAP_FAILED'    # every further open fails
  cupeer fault r --list           # which plans there are, and how often they fired
  cupeer fault r --release 1      # disarms plan 1, and releases the calls that it holds
  cupeer fault r --release --inject '@ipc:rank=2:delay=5ms'         # replaces all plans"
)]
pub struct FaultArgs {
    /// Recording of the job: a directory, or a name that 'cupeer ls' lists
    #[arg(value_name = "RECORD")]
    pub directory: PathBuf,
    /// Arm a plan, as in 'cuIpcOpenMemHandle*:error=MAP_FAILED' ('cupeer list faults'); repeatable
    #[arg(long, value_name = "PLAN")]
    pub inject: Vec<String>,
    /// Arm a plan from FILE: one fault per line, '# comment', 'include OTHER', 'plan NAME'; repeatable
    #[arg(long, value_name = "FILE")]
    pub inject_file: Vec<PathBuf>,
    /// Seed for random choices in the plans [default: random, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Disarm the plans that 'cupeer fault' armed, and release the calls that they hold; or only WHICH: its number, name, or label
    #[arg(long, value_name = "WHICH", num_args = 0..=1)]
    pub release: Option<Option<String>>,
    /// List all plans of the job, with the number of calls that matched and at which they fired
    #[arg(long, conflicts_with_all = ["inject", "inject_file", "release", "wait"])]
    pub list: bool,
    /// Form of the list: text or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        requires = "list",
        hide_possible_values = true
    )]
    pub format: ListFormat,
    /// Wait up to TIME until all processes have the plans
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub wait: Duration,
}
