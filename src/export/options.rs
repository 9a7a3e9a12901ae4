//! Options of the exporter, and its results.

/// Replacements for private names.
pub trait Redact: Sync {
    /// The name of a host.
    fn host(&self, name: &str) -> String;
    /// The path of a file.
    fn path(&self, path: &str) -> String;
    /// A program's argument.
    fn argument(&self, value: &str) -> String;
    /// The value of a variable.
    fn variable(&self, name: &str, value: &str) -> String;
    /// A rule of a fault plan.
    fn rule(&self, text: &str) -> String;
    /// Returns the replacement of a problem with a file of the recording.
    fn problem(&self, text: &str) -> String;
}

/// Options of an export.
pub struct Options<'a> {
    /// Name of the job in the tables.
    pub job: &'a str,
    /// Redaction.
    pub redact: &'a dyn Redact,
    /// Number of threads.
    pub threads: usize,
    /// Receives the number of events that were written since the last report.
    pub went_on: &'a (dyn Fn(u64) + Sync),
}

/// Size of a written table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Number of rows.
    pub rows: u64,
    /// Number of files.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Written {
    pub(crate) fn add(&mut self, other: Written) {
        self.rows += other.rows;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}
