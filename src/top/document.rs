//! The document that `cupeer top --once --format json` prints, and that the screen and the metrics show.

use cupeer_report::model::Exit;
use schemars::JsonSchema;
use serde::Serialize;

/// Value of [`Document::schema`]. Fields may be added without a new number.
pub const SCHEMA: &str = "cupeer-top/1";

/// Current sharing of memory, and driver calls, on this host. Names of fields are stable; fields may be added. Fields
/// whose names end in `_ns` contain nanoseconds. `proc` names a process, unique in its recording. Example: `cupeer top --once --format json | jq -r '.jobs[].name'`
#[derive(Serialize, Clone, Debug, Default, JsonSchema)]
#[schemars(
    title = "cupeer top --once --format json",
    extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/top.schema.json")
)]
pub struct Document {
    /// Version of this format: `cupeer-top/1`.
    pub schema: String,
    /// Version of cupeer.
    pub cupeer: String,
    /// Time of the sample, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Time in nanoseconds between the two samples that give the calls per second; null for a single sample.
    pub interval_ns: Option<u64>,
    /// Recordings that were sampled: the given ones, or else those in the default directory that are in progress.
    pub jobs: Vec<Job>,
    /// Devices whose memory is shared, or in use.
    pub devices: Vec<Device>,
    /// Processes of this host that have a recording or something open.
    pub processes: Vec<Process>,
    /// Sentences about data that is missing from all numbers.
    pub unseen: Vec<String>,
}

/// Recording of a job.
#[derive(Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Job {
    /// Name in the default directory, or the path.
    pub name: String,
    /// Directory of the recording.
    pub path: String,
    /// Number of its processes that run on this host, as far as that is known.
    pub running: usize,
    /// Number of processes that exited, or became another program.
    pub ended: usize,
    /// Number of processes that crashed, were killed, or called exit_group.
    pub died: usize,
    /// Time since which the job hangs, in nanoseconds since 1970, if `cupeer run --on-hang` found that; null otherwise.
    pub hung_since_ns: Option<u64>,
    /// Number of exports and opens that did not fit into its live table.
    pub refused: u64,
    /// Number of calls of its processes on this host.
    pub calls: u64,
    /// Number of these calls whose result was not CUDA_SUCCESS.
    pub failed: u64,
    /// True if both numbers cover all calls. A ring keeps only the last calls, and lost calls are not recorded.
    pub complete: bool,
}

/// Device whose memory is shared, or in use.
#[derive(Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Device {
    /// UUID of the device; null for memory whose device is not in any recording.
    pub uuid: Option<String>,
    /// Number that CUDA has for the device in a process without CUDA_VISIBLE_DEVICES; null if unknown.
    pub number: Option<u32>,
    /// Name of the device; empty if unknown.
    pub name: String,
    /// PCI address of the device; empty if unknown.
    pub pci: String,
    /// Number of objects on the device that running processes have exported and not freed.
    pub exports: u64,
    /// Size in bytes of the memory among these objects.
    pub shared_bytes: u64,
    /// Size in bytes of the memory that other processes have open: each allocation once, however many have it open.
    pub held_bytes: u64,
    /// Number of opens without a close by running processes.
    pub openings: u64,
    /// Processes that have something on the device open.
    pub holders: Vec<Who>,
    /// Size in bytes of its memory; null without NVML.
    pub total_bytes: Option<u64>,
    /// Size in bytes of the memory that is in use; null without NVML.
    pub used_bytes: Option<u64>,
    /// Memory by the process that allocated it, the most first.
    pub owners: Vec<Owner>,
    /// Processes outside of the recordings that have memory, from NVML.
    pub others: Vec<Other>,
    /// Size in bytes of the memory in use that neither owners nor other processes have; null without NVML.
    pub unaccounted_bytes: Option<u64>,
}

/// Process that allocated memory of a device.
#[derive(Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Owner {
    /// Process.
    pub who: Who,
    /// Size in bytes of its memory: allocations in its recording, or what NVML reports if that is more, as with contexts.
    pub bytes: u64,
    /// Size in bytes of the allocations in its recording.
    pub recorded_bytes: u64,
    /// Number of these allocations.
    pub count: u64,
    /// Size in bytes of the memory that it freed and importers keep.
    pub kept_bytes: u64,
    /// Processes that keep memory that it freed.
    pub kept_by: Vec<Who>,
    /// Place that allocated the most; null if unknown.
    pub place: Option<String>,
    /// Size in bytes of the memory from that place.
    pub place_bytes: u64,
}

/// Process outside of the recordings that has memory of a device.
#[derive(Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Other {
    /// Pid on the host.
    pub pid: u32,
    /// Name of its program; empty if the process cannot be seen, as from a container.
    pub program: String,
    /// Size in bytes of its memory; null if NVML does not tell.
    pub bytes: Option<u64>,
}

/// Identity of a process.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub struct Who {
    /// Name of its job.
    pub job: String,
    /// Rank in the job; null if it has none.
    pub rank: Option<u32>,
    /// Pid in its own pid namespace.
    pub pid: u32,
    /// Name of the process, unique in its recording.
    pub proc: String,
}

/// Process of this host.
#[derive(Serialize, Clone, Debug, Default, JsonSchema)]
pub struct Process {
    #[serde(flatten)]
    pub who: Who,
    /// Path of its program; empty if unknown.
    pub program: String,
    /// End of the process, or that it is running. A process that has ended holds nothing, whatever it left open.
    pub exit: Exit,
    /// Number of objects that it has exported and not freed.
    pub exports: u64,
    /// Size in bytes of the memory among these objects.
    pub shared_bytes: u64,
    /// Size in bytes of its memory that other processes have open: each allocation once.
    pub held_bytes: u64,
    /// Other processes that have its objects open.
    pub held_by: Vec<Hold>,
    /// Size in bytes of other processes' memory that it has open: each allocation once.
    pub holds_bytes: u64,
    /// Other processes whose objects it has open.
    pub holds: Vec<Hold>,
    /// Number of opens without a close.
    pub openings: u64,
    /// Number of peers to which it has enabled access.
    pub peers: u64,
    /// Number of calls so far; null if its record cannot be read.
    pub calls: Option<u64>,
    /// Number of these calls whose result was not CUDA_SUCCESS.
    pub failed: Option<u64>,
    /// True if both numbers cover all calls. A ring keeps only the last calls, and lost calls are not recorded.
    pub complete: bool,
    /// Calls per second between the two samples; null for a single sample.
    pub calls_per_second: Option<f64>,
    /// Calls that have not returned, the oldest first.
    pub unreturned: Vec<Unreturned>,
    /// Activity of the process when `cupeer run --on-hang` found that its job hangs; null if the job does not hang.
    pub hung: Option<String>,
    /// Number of calls that could not be recorded.
    pub lost: u64,
}

/// Objects of one process that another one has open.
#[derive(Serialize, Clone, Debug, PartialEq, JsonSchema)]
pub struct Hold {
    /// Other process: the one that has the objects open, or that exported them; null if the live table does not have
    /// it, as for another host.
    pub who: Option<Who>,
    /// Number of opens without a close.
    pub openings: u64,
    /// Size in bytes of the memory: each allocation once.
    pub bytes: u64,
}

/// Call that has not returned.
#[derive(Serialize, Clone, Debug, PartialEq, JsonSchema)]
pub struct Unreturned {
    /// Name of the function.
    pub function: String,
    /// Thread id of the thread that made the call.
    pub tid: u32,
    /// Time in nanoseconds since the call began; null if this processor's clock cannot be read.
    pub age_ns: Option<u64>,
}

impl Process {
    /// Returns the call that has not returned for the longest time.
    pub fn oldest_unreturned(&self) -> Option<&Unreturned> {
        self.unreturned.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_schema_of_top_is_current() {
        let made = format!("{:#}\n", cupeer_views::schema::of::<Document>().to_value());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.schema.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/top.schema.json is stale: run scripts/docs");
    }
}
