//! Columns that identify the process of a row, in all tables.

use crate::cells::{Group, Type, column};
use crate::options::Redact;
use cupeer_record::{Job, Process};
use cupeer_report::model::Uuid;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use std::collections::HashMap;

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub holds: Type,
    /// True if values may be null.
    pub is_optional: bool,
    /// True if values rise from row to row.
    pub is_monotonic: bool,
    /// Description for users.
    pub about: &'static str,
}

/// A column that names the process, or the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Job,
    Host,
    Boot,
    Proc,
    Pid,
    Start,
    Rank,
}

/// All key columns, in order.
pub const KEYS: [Key; 7] = [Key::Job, Key::Host, Key::Boot, Key::Proc, Key::Pid, Key::Start, Key::Rank];

impl Key {
    /// The column, where all rows have a process or only some.
    pub fn column(self, is_known: bool) -> Column {
        let (name, holds, about) = match self {
            Key::Job => {
                ("job", Type::Text, "Name of the job: the value of `--job`, or the name of the recording.")
            }
            Key::Host => {
                ("host", Type::Text, "Host of the process; empty if the recording does not contain it.")
            }
            Key::Boot => ("boot", Type::Text, "Boot id of the host. Times of one boot are in order."),
            Key::Proc => ("proc", Type::Text, "Process, as in the report; unique in the job."),
            Key::Pid => ("pid", Type::Int, "Pid of the process, in its own pid namespace."),
            Key::Start => ("start_ns", Type::Long, "Start of the recording of the process."),
            Key::Rank => ("rank", Type::Int, "Rank of the process in the job; null if it has none."),
        };
        let is_optional = self == Key::Rank || self != Key::Job && !is_known;
        Column { name, holds, is_optional, is_monotonic: false, about }
    }

    /// Writes its column, for rows of these processes.
    pub fn write(
        self,
        keys: &[Keys],
        rows: &[u32],
        is_optional: bool,
        group: &mut Group,
    ) -> parquet::errors::Result<()> {
        let text = |get: fn(&Keys) -> &str, group: &mut Group| {
            let mut known: HashMap<u32, Option<ByteArray>> = HashMap::new();
            let value = |row: &u32| {
                let text = || keys.get(*row as usize).map(|keys| ByteArray::from(get(keys)));
                known.entry(*row).or_insert_with(text).clone()
            };
            column::<ByteArrayType>(&rows.iter().map(value).collect::<Vec<_>>(), None, is_optional, group)
        };
        let of = |row: &u32| keys.get(*row as usize);
        let int = |get: fn(&Keys) -> Option<i32>, group: &mut Group| {
            let values: Vec<Option<i32>> = rows.iter().map(|row| of(row).and_then(get)).collect();
            column::<Int32Type>(&values, None, is_optional, group)
        };
        match self {
            // A row about no process is still of this job.
            Key::Job => {
                let job = keys.first().map(|keys| ByteArray::from(&*keys.job));
                column::<ByteArrayType>(&vec![job; rows.len()], None, is_optional, group)
            }
            Key::Host => text(|keys| &keys.host, group),
            Key::Boot => text(|keys| &keys.boot, group),
            Key::Proc => text(|keys| &keys.proc, group),
            Key::Pid => int(|keys| Some(keys.pid), group),
            Key::Rank => int(|keys| keys.rank, group),
            Key::Start => {
                let values: Vec<Option<i64>> = rows.iter().map(|row| Some(of(row)?.start_ns)).collect();
                column::<Int64Type>(&values, None, is_optional, group)
            }
        }
    }
}

/// Values that identify one process.
pub struct Keys {
    pub job: String,
    pub host: String,
    pub boot: String,
    pub proc: String,
    pub pid: i32,
    pub start_ns: i64,
    pub rank: Option<i32>,
}

impl Keys {
    /// Returns the values of a process of a job.
    pub fn of(job: &Job, name: &str, process: &Process, redact: &dyn Redact) -> Keys {
        Keys {
            job: name.to_owned(),
            host: redact.host(process.host()),
            boot: Uuid(process.header.boot_id).to_string().split_off(4),
            proc: process.proc.clone(),
            pid: process.header.pid as i32,
            start_ns: moment(job.clock(process).realtime(process.header.first.ticks)),
            rank: process.rank().map(|rank| rank as i32),
        }
    }

    /// Returns the name of a host's directory. Engines read a value from it, and some treat other characters
    /// specially. A column has the host itself.
    pub fn node(&self) -> String {
        node(&self.host)
    }
}

/// The longest name of a directory.
const LONGEST: usize = 100;

/// Returns the directory name of a host.
pub fn node(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = host.chars().take(LONGEST).map(plain).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Converts a time to nanoseconds since 1970, limited to the range of tables: up to the year 2262.
pub fn moment(ns: u64) -> i64 {
    ns.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::node;

    #[test]
    fn directories_have_plain_names() {
        assert_eq!(node("gpu-01.example.com"), "gpu-01.example.com");
        assert_eq!(node("a=b/../c'\n\u{e9}"), "a_b_.._c___");
        assert_eq!(node(""), "unknown");
        assert_eq!(node(&"x".repeat(300)).len(), 100);
    }
}
