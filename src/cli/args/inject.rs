//! The options of fault plans, which `run` and `env` share.

use clap::Args;
use std::path::PathBuf;

/// What fails on purpose.
#[derive(Args, Default)]
pub struct InjectArgs {
    /// Let calls fail, wait or end as PLAN says. 'cuIpcOpenMemHandle*:error=MAP_FAILED' fails every opening; '@ipc:dev=0:when=3+:delay=5ms' lets calls about device 0 wait from the third of each function on. May stand several times
    #[arg(long, value_name = "PLAN")]
    pub inject: Vec<String>,
    /// The same with the plan in FILE: a rule a line, '# comment', 'include OTHER', 'plan NAME'. May stand several times
    #[arg(long, value_name = "FILE")]
    pub inject_file: Vec<PathBuf>,
    /// Change nothing, and record at which calls the plans would have done something
    #[arg(long)]
    pub dry_run: bool,
    /// Decide what plans leave to chance as another run with this seed did [default: drawn, and said]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
