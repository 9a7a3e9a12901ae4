//! What `cupeer top --once --format json` prints, and what the screen and the metrics are made of.

use cupeer_report::model::Exit;
use serde::Serialize;

/// What the reader takes. Fields may be added without another number.
pub const SCHEMA: &str = "cupeer-top/1";

/// What the processes of this host share, open and call, now. Names stay; more may be added. Fields whose names end in _ns
/// hold nanoseconds. `proc` names a process, unique in its record.
#[derive(Serialize, Clone, Debug, Default)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(
        title = "cupeer top --once --format json",
        extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/top.schema.json")
    )
)]
pub struct Document {
    /// `cupeer-top/1`.
    pub schema: String,
    /// The version of cupeer.
    pub cupeer: String,
    /// When it was looked, since 1970.
    pub time_ns: u64,
    /// The time between the two looks that calls a second come from; null where there was one.
    pub interval_ns: Option<u64>,
    /// The records that were looked at: without names, those at home that are in progress.
    pub jobs: Vec<Job>,
    /// The devices whose memory is shared.
    pub devices: Vec<Device>,
    /// The processes of this host that have a record, or something open.
    pub processes: Vec<Process>,
    /// What is not seen, a sentence each: numbers do not count it.
    pub unseen: Vec<String>,
}

/// A record that is looked at.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Job {
    /// Its name at home, or its path.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// How many of its processes run on this host, as far as that is known.
    pub running: usize,
    /// How many have ended well: they returned, or became another program.
    pub ended: usize,
    /// Number of processes that crashed, were killed, or called exit_group.
    pub died: usize,
    /// Exports and openings for which there was no room in its live table.
    pub refused: u64,
    /// Calls of its processes on this host.
    pub calls: u64,
    /// Those that returned something else than CUDA_SUCCESS.
    pub failed: u64,
    /// Whether these two have all: a ring keeps only the last calls, and what was lost is in no record.
    pub complete: bool,
}

/// A device whose memory is shared.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Its UUID; null for the memory of which no record says where it lies.
    pub uuid: Option<String>,
    /// Its name; empty where no record says it.
    pub name: String,
    /// Its PCI address; empty where no record says it.
    pub pci: String,
    /// What running processes have exported of it and not freed.
    pub exports: u64,
    /// The memory among these.
    pub shared_bytes: u64,
    /// The memory among what is held: each piece once, however many hold it.
    pub held_bytes: u64,
    /// How often running processes have opened something of it and not closed it.
    pub openings: u64,
    /// Who holds something of it.
    pub holders: Vec<Who>,
}

/// A process, as others name it.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Who {
    /// The name of its job.
    pub job: String,
    /// Its rank in the job; null where it has none.
    pub rank: Option<u32>,
    /// Its pid, as it knows itself.
    pub pid: u32,
    /// The name of its record.
    pub proc: String,
}

/// A process.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    #[serde(flatten)]
    pub who: Who,
    /// The path of its program; empty where no record says it.
    pub program: String,
    /// Whether it runs, and how it ended. What has ended holds nothing any more, whatever it has left open.
    pub exit: Exit,
    /// What it has exported and not freed.
    pub exports: u64,
    /// The memory among these.
    pub shared_bytes: u64,
    /// What others hold of its memory: each piece once.
    pub held_bytes: u64,
    /// Who holds something of it, by process.
    pub held_by: Vec<Hold>,
    /// The memory that it holds of others: each piece once.
    pub holds_bytes: u64,
    /// Whose it holds, by process.
    pub holds: Vec<Hold>,
    /// How often it has opened something and not closed it.
    pub openings: u64,
    /// Peers to which it has access switched on.
    pub peers: u64,
    /// Its calls so far; null where its record cannot be read.
    pub calls: Option<u64>,
    /// Those that returned something else than CUDA_SUCCESS.
    pub failed: Option<u64>,
    /// Whether these two have all: a ring keeps only the last calls, and what was lost is in no record.
    pub complete: bool,
    /// Its calls a second between the two looks; null where it was looked at once.
    pub calls_per_second: Option<f64>,
    /// Calls that have not returned, the oldest first.
    pub unreturned: Vec<Unreturned>,
    /// Calls that its record could not keep.
    pub lost: u64,
}

/// What one process holds of another.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hold {
    /// The other process; null where the live table does not say whose it is, as of another host.
    pub who: Option<Who>,
    /// How often it was opened and not closed.
    pub openings: u64,
    /// The memory: each piece once.
    pub bytes: u64,
}

/// A call that has not returned.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unreturned {
    /// Its function.
    pub function: String,
    /// The thread.
    pub tid: u32,
    /// For how long; null where this processor's clock cannot be read.
    pub age_ns: Option<u64>,
}

impl Process {
    /// The call that has not returned for the longest time.
    pub fn oldest(&self) -> Option<&Unreturned> {
        self.unreturned.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_schema_of_top_is_current() {
        let made = format!("{:#}\n", cupeer_report::schema::of::<Document>().to_value());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/top.schema.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/top.schema.json is stale: run scripts/docs");
    }
}
