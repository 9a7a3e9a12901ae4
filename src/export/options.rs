//! What the exporter is asked for, and what it says it wrote.

/// What is said in place of names that are not for everybody.
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
    /// What is said of a record's files.
    fn problem(&self, text: &str) -> String;
}

/// How to export.
pub struct Options<'a> {
    /// What the job is called in the tables.
    pub job: &'a str,
    /// What is left out.
    pub redact: &'a dyn Redact,
    /// How many threads there may be.
    pub threads: usize,
    /// Is told how many more events have been written.
    pub went_on: &'a (dyn Fn(u64) + Sync),
}

/// What was written of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// How many rows.
    pub rows: u64,
    /// In how many files.
    pub files: u64,
    /// Of how many bytes.
    pub bytes: u64,
}
