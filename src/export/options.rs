//! Options of the exporter, and its results.

/// Replaces private names and texts before they are written to an export.
pub trait Redact: Sync {
    /// Returns the replacement for the name of a host.
    fn redact_host(&self, name: &str) -> String;
    /// Returns the replacement for the path of a file.
    fn redact_path(&self, path: &str) -> String;
    /// Returns the replacement for an argument of a program.
    fn redact_argument(&self, value: &str) -> String;
    /// Returns the replacement for the value of an environment variable.
    fn redact_variable(&self, name: &str, value: &str) -> String;
    /// Returns the replacement for the text of a rule of a fault plan.
    fn redact_rule(&self, text: &str) -> String;
    /// Returns the replacement for the description of a problem with a file of the recording.
    fn redact_problem(&self, text: &str) -> String;
}

/// Options of an export.
pub struct Options<'a> {
    /// Name of the job in the tables.
    pub job: &'a str,
    /// Replaces private names and texts.
    pub redact: &'a dyn Redact,
    /// Number of threads that write the tables.
    pub threads: usize,
    /// Function that receives the number of events written since its last call.
    pub report_progress: &'a (dyn Fn(u64) + Sync),
}

/// Size of a written table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WrittenSize {
    /// Number of rows in the table.
    pub rows: u64,
    /// Number of files of the table.
    pub files: u64,
    /// Size of the table's files in bytes.
    pub bytes: u64,
}

impl WrittenSize {
    pub(crate) fn add(&mut self, other: WrittenSize) {
        self.rows += other.rows;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}
