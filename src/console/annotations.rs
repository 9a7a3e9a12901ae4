//! Annotations of GitHub Actions: where its runner reads what we print, findings and deaths stand beside the job.

use cupeer_report::model::Report;
use cupeer_views::annotations;
use std::io::{self, Write};

/// Whether a runner of GitHub Actions reads what we print.
pub fn are_read() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Writes the annotations of a report, where somebody reads them.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    if are_read() {
        let root = std::env::var("GITHUB_WORKSPACE").unwrap_or_default();
        for line in annotations::lines(report, root.trim_end_matches('/')) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
