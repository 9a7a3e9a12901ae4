//! Annotations of GitHub Actions: if its runner reads the output, findings and abnormal ends appear beside the job.

use cupeer_report::model::Report;
use cupeer_views::annotations;
use std::io::{self, Write};

/// Returns true if a runner of GitHub Actions reads the output.
pub fn has_annotation_reader() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Writes the annotations of a report if a runner reads them.
pub fn write_annotations(report: &Report, mut out: impl Write) -> io::Result<()> {
    if has_annotation_reader() {
        let root = std::env::var("GITHUB_WORKSPACE").unwrap_or_default();
        for line in annotations::format_annotations(report, root.trim_end_matches('/')) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
