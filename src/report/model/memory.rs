//! Memory of devices by owner: at calls that failed because none was left, at the end, and over time.

use super::{
    Place, Proc, Uuid,
    word::{self, Word},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory of a device by owner and place, when a call failed because too little was left, or at the end of the recording. The rows,
/// `other_processes`, `unaccounted`, and `free` add up to `total`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Device that has the memory.
    pub device: Uuid,
    /// Time when the failed call returned; null at the end of the recording.
    pub at_ns: Option<u64>,
    /// Process whose call failed; null at the end of the recording.
    pub proc: Option<Proc>,
    /// Number of the failed call, unique in its thread's stream; null at the end of the recording.
    pub seq: Option<u64>,
    /// Function of the failed call; null at the end of the recording.
    pub function: Option<String>,
    /// Bytes that the failed call asked for; null if it has no size.
    pub wanted: Option<u64>,
    /// Bytes of the device; null if unknown.
    pub total: Option<u64>,
    /// Free bytes of the device after the failed call; null if unknown.
    pub free: Option<u64>,
    /// Memory of the recorded processes, the largest first.
    pub rows: Vec<MemoryRow>,
    /// Memory of processes that are not in the recording, from NVML.
    pub other_processes: Vec<OtherProcess>,
    /// Bytes in use that have no row: contexts, the driver, fragmentation, and processes that NVML did not list; null if unknown.
    pub unaccounted: Option<u64>,
}

/// Memory of one process on a device, from one place and in one state.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct MemoryRow {
    /// Process that allocated the memory.
    pub proc: Proc,
    /// Place that allocated the memory; null if unknown.
    pub caller: Option<Place>,
    /// Call stack of the allocation, the caller first; empty if unknown.
    pub frames: Vec<Place>,
    /// Kind of the memory: cuMemAlloc, cuMemCreate, a pool, or small allocations of any kind, which are counted without their places.
    #[schemars(extend("enum" = ["memory", "virtual", "pool", "small"]))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// Bytes.
    pub bytes: u64,
    /// Number of allocations; 0 if unknown.
    pub count: u64,
    /// State of the memory.
    #[schemars(extend("enum" = ["in use", "freed, kept by importers", "freed, perhaps kept by its pool", "exported, never imported", "unmapped"]))]
    #[serde(deserialize_with = "word::read")]
    pub state: Word,
    /// Processes that keep the memory, if its owner freed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Proc>,
}

/// Process outside of the recording that has memory on a device.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct OtherProcess {
    /// Pid on the host.
    pub pid: u32,
    /// Name of its program; empty if unknown.
    pub name: String,
    /// Bytes that NVML reports for it.
    pub bytes: u64,
}

/// Memory of a device over time, of the recorded processes.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct MemoryOverTime {
    /// Device that has the memory.
    pub device: Uuid,
    /// Times of the values, at most 500; each value holds until the next time.
    pub times_ns: Vec<u64>,
    /// Memory by process, kind, and state.
    pub series: Vec<MemorySeries>,
    /// Calls that failed because the device had too little memory left.
    pub failures: Vec<MemoryFailure>,
}

/// Memory of one process, kind, and state over time.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct MemorySeries {
    /// Process that allocated the memory.
    pub proc: Proc,
    /// Kind of the memory.
    #[schemars(extend("enum" = ["memory", "virtual", "pool"]))]
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// State of the memory.
    #[schemars(extend("enum" = ["in use", "unmapped", "freed, kept by importers"]))]
    #[serde(deserialize_with = "word::read")]
    pub state: Word,
    /// Bytes at each of the times.
    pub bytes: Vec<u64>,
}

/// Call that failed because a device had too little memory left.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct MemoryFailure {
    /// Time when the call returned.
    pub at_ns: u64,
    /// Process that made the call.
    pub proc: Proc,
    /// Number of the call, unique in its thread's stream.
    pub seq: u64,
}
