//! Columns that identify the process of a row, in all tables.

use crate::cells::{Cell, Value};
use crate::options::Redact;
use cupeer_record::{Job, Process};
use cupeer_report::model::Uuid;
use parquet::basic::Type;

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column as readers of the file see it.
    pub column_type: Type,
    /// True if values may be null.
    pub is_optional: bool,
    /// Description of the column for users.
    pub about: &'static str,
}

/// Number of key columns.
pub const COUNT: usize = 7;

/// The key columns, in order: name, type, and description.
const KEYS: [(&str, Type, &str); COUNT] = [
    ("job", <&str>::TYPE, "Name of the job: the value of `--job`, or the name of the recording."),
    ("host", <&str>::TYPE, "Host of the process; empty if the recording does not contain it."),
    ("boot", <&str>::TYPE, "Boot id of the host. Times of one boot are in order."),
    ("proc", <&str>::TYPE, "Process, as in the report; unique in the job."),
    ("pid", i32::TYPE, "Pid of the process, in its own pid namespace."),
    ("start_ns", i64::TYPE, "Start of the recording of the process."),
    ("rank", i32::TYPE, "Rank of the process in the job; null if it has none."),
];

/// Returns the key columns of a table in which all rows, or only some of them, have a process.
pub fn columns(all_have_process: bool) -> impl Iterator<Item = Column> {
    KEYS.into_iter().map(move |(name, holds, about)| {
        let is_optional = name == "rank" || name != "job" && !all_have_process;
        Column { name, column_type: holds, is_optional, about }
    })
}

/// Returns the values of the key columns in a row about the process with this index. If no process has the
/// index, the row is about no process: only the job is not null.
pub fn key_cells(all: &[ProcessKeys], process: usize) -> [Cell<'_>; COUNT] {
    // A row about no process still belongs to this job.
    let job = all.first().map_or("", |keys| &keys.job);
    let process = all.get(process);
    [
        Cell::Text(Some(job)),
        Cell::Text(process.map(|keys| &*keys.host)),
        Cell::Text(process.map(|keys| &*keys.boot)),
        Cell::Text(process.map(|keys| &*keys.proc)),
        Cell::Int(process.map(|keys| keys.pid)),
        Cell::Long(process.map(|keys| keys.start_ns)),
        Cell::Int(process.and_then(|keys| keys.rank)),
    ]
}

/// Values that identify one process.
pub struct ProcessKeys {
    pub job: String,
    pub host: String,
    pub boot: String,
    pub proc: String,
    pub pid: i32,
    pub start_ns: i64,
    pub rank: Option<i32>,
}

impl ProcessKeys {
    /// Returns the values of a process of a job.
    pub fn of(job: &Job, name: &str, process: &Process, redact: &dyn Redact) -> ProcessKeys {
        ProcessKeys {
            job: name.to_owned(),
            host: redact.redact_host(process.host()),
            boot: Uuid(process.header.boot_id).to_string().split_off(4),
            proc: process.proc.clone(),
            pid: process.header.pid as i32,
            start_ns: table_time(job.clock(process).realtime(process.header.first.ticks)),
            rank: process.rank().map(|rank| rank as i32),
        }
    }
}

/// Largest number of characters in the name of a directory.
const LONGEST: usize = 100;

/// Returns the name of the directory for a host. Query engines read a value from the name of a directory, and
/// some treat certain characters specially: these are replaced. A column has the unchanged host name.
pub fn node_directory(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = host.chars().take(LONGEST).map(plain).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Converts a time to nanoseconds since 1970, limited to the range of tables: up to the year 2262.
pub fn table_time(ns: u64) -> i64 {
    ns.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::node_directory;

    #[test]
    fn directories_have_plain_names() {
        assert_eq!(node_directory("gpu-01.example.com"), "gpu-01.example.com");
        assert_eq!(node_directory("a=b/../c'\n\u{e9}"), "a_b_.._c___");
        assert_eq!(node_directory(""), "unknown");
        assert_eq!(node_directory(&"x".repeat(300)).len(), 100);
    }
}
