//! The report as JSON, as `docs/report.schema.json` says.

use crate::output::Json;
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind::BrokenPipe, Write};
use std::process::ExitCode;

/// Prints a report, or a comparison of two, piece by piece: it may be large.
pub fn print(report: &impl Serialize) -> Result<ExitCode> {
    let mut stdout = Json(BufWriter::new(io::stdout().lock()));
    let written = serde_json::to_writer_pretty(&mut stdout, report).map_err(io::Error::from);
    match written.and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()) {
        // A reader that went away is no failure; a full disk is.
        Err(error) if error.kind() != BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
