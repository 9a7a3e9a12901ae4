//! The document that `cupeer doctor --format json` prints and `-o` writes, and its reader. The file is untrusted:
//! reading it ends with a report or with one sentence.

use super::system::{Fact, Process};
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::output::{self, CommandFailure};
use cupeer_console::status;
use cupeer_record::plain::{self, SymbolicLinks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Value of [`Document::schema`]. The number stays the same when fields are added.
pub const SCHEMA: &str = "cupeer-doctor/1";
/// Maximum size of a report in bytes; a larger file is refused.
const LONGEST_REPORT: u64 = 16 << 20;

/// Results of `cupeer doctor`. Names of fields are stable; fields may be added. Example: `cupeer doctor --format json | jq -r
/// '.wrong[]'`
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default, JsonSchema)]
#[schemars(
    title = "cupeer doctor --format json",
    extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/doctor.schema.json")
)]
pub struct Document {
    /// Version of this format: `cupeer-doctor/1`.
    pub schema: String,
    /// Version of cupeer.
    pub cupeer: String,
    /// Components that `cupeer run` needs.
    pub parts: Vec<Part>,
    /// Functions that cupeer intercepts, as this driver provides them.
    pub functions: Vec<Function>,
    /// Facts about the machine and this process; empty for the simulated driver, which does not depend on the machine.
    pub facts: Vec<Fact>,
    /// Facts that decide whether this process can share with another one.
    pub process: Process,
    /// Sentences about problems that prevent `cupeer run` from working.
    pub wrong: Vec<String>,
    /// Sentences about possible problems.
    pub unclear: Vec<String>,
}

/// Component that `cupeer run` needs.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
pub struct Part {
    /// Name of the component.
    pub name: String,
    /// Path or version of the component, or the reason why it is missing.
    pub value: String,
}

/// Function of the driver.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// True if the library exports the function.
    pub exported: bool,
    /// Result of looking up the function with cuGetProcAddress.
    pub lookup: String,
}

impl Document {
    /// Returns a document without facts.
    pub fn new() -> Document {
        Document { schema: SCHEMA.to_owned(), cupeer: env!("CARGO_PKG_VERSION").to_owned(), ..Document::default() }
    }

    /// Adds a component.
    pub fn add_part(&mut self, name: &str, value: String) {
        self.parts.push(Part { name: name.to_owned(), value });
    }
}

/// Writes a document to a file.
pub fn write(document: &Document, path: &Path) -> Result<()> {
    let written = || output::write_file(path, format!("{}\n", serde_json::to_string_pretty(document)?).as_bytes());
    written().with_context(|| format!("--output '{}'", path.display()))
}

/// Reads a document from a file.
pub fn read(path: &Path) -> Result<Document> {
    let open = || parse(&plain::read(path, SymbolicLinks::Followed, LONGEST_REPORT)?);
    open().map_err(|error| {
        let sentence = format!("--between '{}': {error:#}", path.display());
        CommandFailure { sentence, excerpt: None, status: status::CUPEER_FAILED }.into()
    })
}

pub fn parse(bytes: &[u8]) -> Result<Document> {
    const ADVICE: &str = "'cupeer doctor -o FILE' writes one";
    ensure!(!bytes.is_empty(), "it is empty; {ADVICE}");
    let value: Value = serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
        true => {
            anyhow::anyhow!("it ends early, in line {}: it was cut, or is still being written", error.line())
        }
        false => anyhow::anyhow!("it is not JSON: {error}; {ADVICE}"),
    })?;
    match value.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) if other.starts_with("cupeer-doctor/") => {
            bail!("it is of the form {other:?}, and this cupeer reads {SCHEMA}: use one version of cupeer for both")
        }
        _ => bail!("it is no report of 'cupeer doctor'; {ADVICE}"),
    }
    serde_json::from_value(value).map_err(|error| anyhow::anyhow!("it is no whole report of 'cupeer doctor': {error}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::system::{ExaminedSystem, Verdict};
    use proptest::prelude::*;

    pub fn document() -> Document {
        let mut document = Document { process: ExaminedSystem::without_devices().process(), ..Document::new() };
        document.add_part("cupeer", "0.1.0".to_owned());
        document.functions.push(Function { name: "cuInit".into(), exported: true, lookup: "SUCCESS".into() });
        document.wrong.push("no driver".into());
        document.facts.push(Fact::bad("iommu", "on", "writes", "off").with_devices(&["0000:01:00.0"]));
        document
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        write(&document(), &path).unwrap();
        let read = read(&path).unwrap();
        assert_eq!(read, document());
        assert_eq!(read.facts[0].verdict, Verdict::Bad);
    }

    #[test]
    fn files_that_are_no_report_are_refused() {
        let whole = serde_json::to_string(&document()).unwrap();
        for (text, expected) in [
            ("", "it is empty; 'cupeer doctor -o FILE' writes one"),
            ("{\"schema\":", "it ends early, in line 1: it was cut, or is still being written"),
            (&whole[..whole.len() - 9], "it ends early, in line 1: it was cut, or is still being written"),
            ("\u{7f}ELF", "it is not JSON: expected value at line 1 column 1; 'cupeer doctor -o FILE' writes one"),
            ("[1]", "it is no report of 'cupeer doctor'; 'cupeer doctor -o FILE' writes one"),
            (
                &whole.replace(SCHEMA, "cupeer-doctor/7"),
                "it is of the form \"cupeer-doctor/7\", and this cupeer reads cupeer-doctor/1: use one version of cupeer for both",
            ),
            ("{\"schema\":\"cupeer-doctor/1\"}", "it is no whole report of 'cupeer doctor': missing field `cupeer`"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn page_of_the_schema_of_doctor_is_current() {
        let made = format!("{:#}\n", cupeer_views::schema::of::<Document>().to_value());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.schema.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/doctor.schema.json is stale: run scripts/docs");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
