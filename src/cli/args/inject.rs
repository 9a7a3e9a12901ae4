//! The options of fault plans, which `run` and `env` share.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Default)]
pub struct InjectArgs {
    /// Make calls fail or wait, or end the process, as PLAN says. 'cuIpcOpenMemHandle*:error=MAP_FAILED' fails every opening; '@ipc:dev=0:when=3+:delay=5ms' delays calls about device 0, from the third of each function in each process on. May be repeated
    #[arg(long, value_name = "PLAN")]
    pub inject: Vec<String>,
    /// Read a plan from FILE: one rule per line, '# comment', 'include OTHER', 'plan NAME'. May be repeated
    #[arg(long, value_name = "FILE")]
    pub inject_file: Vec<PathBuf>,
    /// Change nothing, but record at which calls the plans would have acted
    #[arg(long)]
    pub dry_run: bool,
    /// Decide what plans leave to chance as every run with seed N does [default: random, printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
