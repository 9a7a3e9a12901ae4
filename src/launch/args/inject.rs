//! The options of fault plans, which `run` and `env` share.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Default)]
pub struct InjectArgs {
    /// Make calls fail, wait, or end the process, as in 'cuIpcOpenMemHandle*:error=MAP_FAILED' or '@ipc:dev=0:when=3+:delay=5ms' ('cupeer list faults'); repeatable
    #[arg(long, help_heading = "Faults", value_name = "PLAN")]
    pub inject: Vec<String>,
    /// Read a plan from FILE: one fault per line, '# comment', 'include OTHER', 'plan NAME'; repeatable
    #[arg(long, help_heading = "Faults", value_name = "FILE")]
    pub inject_file: Vec<PathBuf>,
    /// Let 'cupeer fault' arm and disarm fault plans in the processes while they are running
    #[arg(long, help_heading = "Faults")]
    pub allow_faults: bool,
    /// Change nothing, but record at which calls the plans would have fired
    #[arg(long, help_heading = "Faults")]
    pub dry_run: bool,
    /// Seed for random choices in fault plans [default: random, and printed]
    #[arg(long, help_heading = "Faults", value_name = "N")]
    pub seed: Option<u64>,
}
