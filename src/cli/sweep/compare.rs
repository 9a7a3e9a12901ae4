//! The user's own word on whether a result is right.

use super::interrupt;
use anyhow::{Context, Result};
use cupeer_record::plain::{self, Links};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The pause between two looks at the command.
const PAUSE: Duration = Duration::from_millis(2);

/// Whether a shell command, given the output of a run, ends with status 0. `None` where the sweep is interrupted, which
/// ends the command as well.
pub fn is_right(command: &str, directory: &Path, stdout: &Path) -> Result<Option<bool>> {
    let output = plain::open(stdout, Links::Refused)
        .with_context(|| format!("failed to read '{}'", stdout.display()))?;
    let failed = || format!("failed to run --compare '{command}'");
    let started = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .stdin(output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.with_context(failed)?;
    loop {
        let ended = child.try_wait().with_context(failed)?;
        if interrupt::is_set() {
            // Fails where it has ended.
            let _ = child.kill();
            child.wait().with_context(failed)?;
            return Ok(None);
        }
        if let Some(status) = ended {
            return Ok(Some(status.success()));
        }
        std::thread::sleep(PAUSE);
    }
}
