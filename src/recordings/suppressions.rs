//! Reads the files of the option `--suppressions`. The module `cupeer_report::suppress` defines the meaning of their entries.

use anyhow::{Context, Result, anyhow, bail};
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_report::suppress::Suppressions;
use cupeer_rules::ErrorChoice;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest size of a suppression file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads suppression files. Fails at the first line that is not a valid entry.
pub fn read_suppressions(files: &[PathBuf]) -> Result<Suppressions> {
    let mut all = Suppressions::default();
    for file in files {
        let shown = file.display().to_string();
        let text = read_contents(file).with_context(|| format!("--suppressions '{shown}'"))?;
        if let Err(mistake) = all.add(&shown, &text) {
            bail!("{shown}:{}:{}: {}", mistake.line, mistake.column, mistake.message);
        }
    }
    Ok(all)
}

fn read_contents(path: &Path) -> Result<String> {
    let bytes = plain::read(path, SymbolicLinks::Followed, LARGEST).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => anyhow!("{error}; suppressions are a regular file"),
        ErrorKind::InvalidData => anyhow!("{error}; these are no suppressions"),
        _ => error.into(),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n');
        anyhow!("line {} is not UTF-8; these are no suppressions", line.count() + 1)
    })
}

/// Reads the value of `--error-on`.
pub fn parse_error_on(text: &str) -> Result<ErrorChoice> {
    ErrorChoice::parse(text).map_err(|error| anyhow!("--error-on '{text}', {error}"))
}
