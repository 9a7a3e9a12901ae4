//! The reduced file: compressed JSON that any tool can read. It begins with the name and version of its schema.
//!
//! The file is untrusted, and is checked before it is used: no content makes us request more memory than its text has,
//! or look for a process that it does not contain.

use super::JobPart;
use anyhow::{Context, Result, anyhow, ensure};
use cupeer_record::plain::{self, SymbolicLinks};
use flate2::Compression;
use flate2::read::{GzDecoder, MultiGzDecoder};
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Suffix of the name of a reduced file.
pub const SUFFIX: &str = ".cupeer.json.gz";
/// Name and version of the schema, the only version that is read.
const SCHEMA: &str = "cupeer-reduced/1";
/// First bytes of the text of a reduced file of any version.
const FIRST_BYTES: &[u8; 26] = br#"{"schema":"cupeer-reduced/"#;
/// Largest number of decompressed bytes per byte of the file: a file with more is refused. Real files have some
/// dozens.
const MOST_RATIO: u64 = 400;
/// Number of decompressed bytes that even a small file may have.
const LEAST_ROOM: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
struct ReducedFile<T> {
    schema: String,
    /// The version of cupeer that wrote the file.
    made_by: String,
    part: T,
}

/// The first fields of a file, which all versions have.
#[derive(Deserialize)]
struct FileHead {
    schema: String,
    #[serde(default)]
    made_by: String,
}

/// Returns true if a file has the name of a reduced file.
pub fn has_reduced_name(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes())
}

/// Returns true if a file begins as a reduced file.
pub fn begins_as_reduced(path: &Path) -> bool {
    let begins = || {
        let mut begin = [0; FIRST_BYTES.len()];
        let mut text = GzDecoder::new(plain::open(path, SymbolicLinks::Followed).ok()?);
        text.read_exact(&mut begin).ok()?;
        Some(begin == *FIRST_BYTES)
    };
    begins() == Some(true)
}

/// Returns true if a file is a reduced file, by its name or by its first bytes.
pub fn is_reduced_file(path: &Path) -> bool {
    path.is_file() && (has_reduced_name(path) || begins_as_reduced(path))
}

impl JobPart {
    /// Writes the file.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let file = ReducedFile { schema: SCHEMA.into(), made_by: env!("CARGO_PKG_VERSION").into(), part: self };
        let mut out = BufWriter::with_capacity(1 << 16, GzEncoder::new(out, Compression::default()));
        serde_json::to_writer(&mut out, &file)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a reduced file, or is damaged.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use cupeer_facts::part::JobPart;
    /// use cupeer_report::suppress::Suppressions;
    ///
    /// let part = JobPart::read(std::path::Path::new("node-1.cupeer.json.gz"))?;
    /// let filter = part.filter(Suppressions::default());
    /// println!("{} findings", part.report(&filter).findings.len());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn read(path: &Path) -> Result<JobPart> {
        let failed = || path.display().to_string();
        let file = plain::open(path, SymbolicLinks::Followed).with_context(failed)?;
        let size = file.metadata().with_context(failed)?.len();
        let room = size.saturating_mul(MOST_RATIO).max(LEAST_ROOM);
        let mut reduced = Self::from_reader(BufReader::new(file), room).with_context(failed)?;
        reduced.record.path = path.display().to_string();
        Ok(reduced)
    }

    /// Reads the contents of a file, which may have at most `room` decompressed bytes.
    fn from_reader(file: impl Read, room: u64) -> Result<JobPart> {
        let mut text = Vec::new();
        // The decoder reads all gzip members: concatenated files are refused later as invalid JSON.
        let read = MultiGzDecoder::new(file).take(room + 1).read_to_end(&mut text);
        read.map_err(|error| anyhow!("it is damaged, cut off, or no reduced file: {error}"))?;
        ensure!(text.len() as u64 <= room, "it has far more text than a file of this size can have");
        Self::from_text(&text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// The text is not that of a reduced file, or is damaged.
    pub fn from_text(text: &[u8]) -> Result<JobPart> {
        let file: ReducedFile<JobPart> = match serde_json::from_slice(text) {
            Ok(file) => file,
            Err(error) => return Err(refusal_error(text, &error)),
        };
        ensure!(file.schema == SCHEMA, "{}", foreign_schema_message(&file.schema, &file.made_by));
        let part = file.part;
        ensure!(
            part.is_consistent(),
            "it is damaged: it names processes that it does not have, or ends before it begins"
        );
        Ok(part)
    }

    fn is_consistent(&self) -> bool {
        let processes = self.processes.len();
        self.keys.len() == processes
            && self.record.began_ns <= self.record.ended_ns
            && self.functions.iter().all(|sum| sum.by_process.len() <= processes)
            && self.found.is_consistent(processes)
    }
}

/// Returns the reason why a text is not a reduced file of this version.
fn refusal_error(text: &[u8], error: &serde_json::Error) -> anyhow::Error {
    match serde_json::from_slice::<FileHead>(text) {
        Ok(head) if head.schema != SCHEMA => anyhow!(foreign_schema_message(&head.schema, &head.made_by)),
        _ => anyhow!("it is damaged, or no reduced file: {error}"),
    }
}

fn foreign_schema_message(schema: &str, made_by: &str) -> String {
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
    format!("it is of form '{}', made by cupeer {}; this one reads {SCHEMA}", clean(schema), clean(made_by))
}
