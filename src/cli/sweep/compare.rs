//! The user's own word on whether a result is right.

use anyhow::{Context, Result};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a shell command, given the output of a run, ends with status 0.
pub fn is_right(command: &str, directory: &Path, stdout: &Path) -> Result<bool> {
    let output = File::open(stdout).with_context(|| format!("failed to read '{}'", stdout.display()))?;
    let ended = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .stdin(output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(ended.with_context(|| format!("failed to run --compare '{command}'"))?.success())
}
