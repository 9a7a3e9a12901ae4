//! The user's own verdict on a result: `--compare`.

use super::processes::ProcessTree;
use anyhow::{Context, Result};
use cupeer_record::plain::{self, SymbolicLinks};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns true if the user's shell command, which reads the output of a run, exits with 0. Returns `None` if the sweep is
/// interrupted, which also ends the command.
pub fn is_output_right(command: &str, directory: &Path, stdout: &Path) -> Result<Option<bool>> {
    let output = plain::open(stdout, SymbolicLinks::Refused)
        .with_context(|| format!("failed to read '{}'", stdout.display()))?;
    let failed = || format!("failed to run --compare '{command}'");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).stdin(output).stdout(Stdio::null()).stderr(Stdio::null());
    let mut processes = ProcessTree::start(shell).with_context(failed)?;
    let status = processes.wait_for_command(Duration::MAX).with_context(failed)?;
    processes.kill_remaining(Duration::ZERO)?;
    Ok(status.map(|status| status.success()))
}
