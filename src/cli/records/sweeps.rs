//! The directory of a sweep: which one is it, and the names and the journal in it.

use anyhow::{Context, Result, bail};
use cupeer_record::plain::{self, Links};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::TryLockError;
use std::io::Read as _;
use std::path::Path;

/// The journal.
pub const FILE: &str = "sweep.jsonl";
/// What it begins with.
const BEGIN: &[u8] = b"{\"sweep\":";
/// The most bytes of a journal.
pub const MOST_BYTES: u64 = 1 << 30;

/// What a run of a sweep leaves in its directory.
pub const RECORD: &str = "record";
pub const STDOUT: &str = "stdout";
pub const STDERR: &str = "stderr";

/// A line of the journal: the plan, the calls, or a run that is done.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line<P, C, D> {
    Sweep {
        cupeer: String,
        plan: Box<P>,
    },
    /// The second: written once the calls are counted.
    Places(C),
    Done(Box<D>),
}

/// What a journal has.
pub struct Read<P, C, D> {
    pub plan: P,
    pub places: Option<C>,
    pub done: Vec<D>,
}

/// Reads a journal; how many of its bytes are whole lines.
pub fn parse<P: DeserializeOwned, C: DeserializeOwned, D: DeserializeOwned>(
    bytes: &[u8],
) -> Result<(Read<P, C, D>, usize)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = |(number, line): (usize, &[u8])| {
        serde_json::from_slice::<Line<P, C, D>>(line)
            .with_context(|| format!("line {} does not belong to a sweep", number + 1))
    };
    let own = env!("CARGO_PKG_VERSION");
    let plan = match lines.next().map(|line| read((0, line))).transpose()? {
        Some(Line::Sweep { cupeer, plan }) if cupeer == own => *plan,
        Some(Line::Sweep { cupeer, .. }) => bail!("it is from cupeer {cupeer}, but this is cupeer {own}"),
        _ => bail!("it does not begin with a plan"),
    };
    let mut kept = Read { plan, places: None, done: Vec::new() };
    for line in (1..).zip(lines).map(read) {
        match line? {
            Line::Sweep { .. } => bail!("it begins twice"),
            Line::Places(places) => kept.places = Some(places),
            Line::Done(done) => kept.done.push(*done),
        }
    }
    Ok((kept, whole))
}

/// Whether a directory is that of a sweep.
pub fn is_sweep(directory: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    let file = plain::open(&directory.join(FILE), Links::Refused);
    file.and_then(|mut file| file.read_exact(&mut begin)).is_ok_and(|()| begin == BEGIN)
}

/// Whether a sweep in a directory is going on.
pub fn is_in_progress(directory: &Path) -> bool {
    let file = plain::open(&directory.join(FILE), Links::Refused);
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// What `cupeer ls` shows of a plan.
#[derive(Deserialize)]
struct Program {
    program: Vec<String>,
}

/// The program of a sweep, and how many of its runs are done.
pub fn progress(directory: &Path) -> Result<(Vec<String>, usize)> {
    let bytes = plain::read(&directory.join(FILE), Links::Refused, MOST_BYTES)?;
    let (read, _) = parse::<Program, IgnoredAny, IgnoredAny>(&bytes)?;
    Ok((read.plan.program, read.done.len()))
}

/// `1 run`, `2 runs`.
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
