//! Virtual memory: the memory that processes allocated, imported, and mapped, and the memory that they keep alive.

use super::{
    Fingerprint, Proc, Uuid,
    word::{self, Word},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Virtual memory of all processes: physical memory and addresses, at the ends of the processes or now.
#[derive(Serialize, Deserialize, JsonSchema, Default)]
pub struct Allocations {
    /// Physical memory: one row per process and device.
    pub devices: Vec<DeviceMemory>,
    /// Addresses: one row per process.
    pub spaces: Vec<AddressSpace>,
    /// Memory that processes kept alive after its owner gave it up: memory that is still kept first, then the largest.
    pub kept: Vec<Kept>,
    /// Multicast objects, in the order of their creation.
    pub multicast: Vec<Multicast>,
    /// Single allocations of a process: those that are kept alive first, then the largest.
    pub largest: Vec<Allocation>,
    /// Number of allocations that `largest` omits.
    pub largest_more: u64,
}

impl Allocations {
    /// Keeps only the rows of these processes.
    pub fn retain(&mut self, chosen: impl Fn(&Proc) -> bool) {
        self.devices.retain(|row| chosen(&row.proc));
        self.spaces.retain(|row| chosen(&row.proc));
        self.kept.retain(|row| chosen(&row.proc) || chosen(&row.owner));
        let has = |row: &Multicast| {
            row.made_by.iter().chain(&row.held_by).any(&chosen) || row.devices.iter().any(|device| chosen(&device.proc))
        };
        self.multicast.retain(has);
        self.largest.retain(|row| chosen(&row.proc));
    }
}

/// Location of physical memory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// On a device.
    Device,
    /// In the memory of the host.
    Host,
    /// None: it is a multicast object, to which memory of several devices is bound.
    Multicast,
    /// Not in the recording.
    #[default]
    Unknown,
}

/// Physical memory of one process on one device: at the end of the process or, while it runs, now.
#[derive(Serialize, Deserialize, JsonSchema, Default)]
pub struct DeviceMemory {
    /// Process that has the memory.
    pub proc: Proc,
    /// Location of the memory.
    pub location: Where,
    /// Device of the memory; null if it is not on a known device.
    pub device: Option<Uuid>,
    /// Number of allocations that the process created there.
    pub made: u64,
    /// Number of these that the process still has, by a handle or a mapping.
    pub allocations: u64,
    /// Size in bytes of the allocations that the process created and still has.
    pub bytes: u64,
    /// Largest size in bytes of its own allocations at one time.
    pub most_bytes: u64,
    /// Number of known exports of its allocations.
    pub exported: u64,
    /// Number of these exports that no process in the recording imported.
    pub never_imported: u64,
    /// Number of imports of memory that other processes allocated there.
    pub imports: u64,
    /// Number of other processes' allocations that the process has.
    pub imported: u64,
    /// Size in bytes of other processes' allocations that the process has.
    pub imported_bytes: u64,
    /// Largest size in bytes of other processes' allocations that the process had at one time.
    pub imported_most_bytes: u64,
    /// Size in bytes of the mappings of this memory, its own and imported.
    pub mapped_bytes: u64,
}

/// Addresses that one process reserved and mapped: at the end of the process or, while it runs, now.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct AddressSpace {
    /// Process that has the addresses.
    pub proc: Proc,
    /// Number of address ranges that the process has reserved.
    pub reservations: u64,
    /// Size in bytes of the reserved address ranges.
    pub reserved_bytes: u64,
    /// Largest size in bytes of the address ranges that were reserved at one time.
    pub reserved_most_bytes: u64,
    /// Number of mappings that the process has.
    pub mappings: u64,
    /// Size in bytes of the mappings.
    pub mapped_bytes: u64,
    /// Largest size in bytes of the mappings at one time.
    pub mapped_most_bytes: u64,
    /// Size in bytes of reserved addresses where the process unmapped memory and mapped none again.
    #[serde(default)]
    pub unmapped_bytes: u64,
}

/// Memory that one process kept alive after its owner gave it up.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Process that kept the memory.
    pub proc: Proc,
    /// Process that created the memory.
    pub owner: Proc,
    /// Location of the memory.
    pub location: Where,
    /// Device of the memory; null if it is not on a known device.
    pub device: Option<Uuid>,
    /// Number of allocations that were kept.
    pub allocations: u64,
    /// Largest size in bytes of these allocations that was kept at one time.
    pub bytes: u64,
    /// Act by which the owner gave the memory up: it released and unmapped it, or it exited.
    #[schemars(extend("enum" = ["release", "exit"]))]
    #[serde(deserialize_with = "word::read")]
    pub given_up_by: Word,
    /// Time when the owner gave up the first of these allocations.
    pub given_up_ns: u64,
    /// End of the keeping: the memory is still kept, the keeper exited, or the keeper gave it up.
    #[schemars(extend("enum" = ["now", "exit", "given up"]))]
    #[serde(deserialize_with = "word::read")]
    pub until: Word,
    /// Time when the last of these allocations was no longer kept.
    pub until_ns: Option<u64>,
    /// Longest time in nanoseconds that one of these allocations was kept, up to now.
    pub longest_ns: u64,
}

/// Multicast object, as all processes together have it: at their ends or, while they run, now.
#[derive(Serialize, Deserialize, JsonSchema, Default)]
pub struct Multicast {
    /// Process that created the multicast object; null if unknown.
    pub made_by: Option<Proc>,
    /// Time when the multicast object was created, or first imported.
    pub since_ns: u64,
    /// Largest size in bytes of the memory of each device that can be bound to the multicast object.
    pub bytes: Option<u64>,
    /// Handle types that the multicast object was created with.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// Number of devices that the multicast object was created for.
    pub wanted_devices: Option<u32>,
    /// Devices that were added, and the processes that added them.
    pub devices: Vec<TeamDevice>,
    /// Memory that is bound to the multicast object.
    pub bound: Vec<BoundMemory>,
    /// Number of times that memory was bound.
    pub binds: u64,
    /// Number of times that memory was unbound.
    pub unbinds: u64,
    /// Processes that have the multicast object, by a handle or a mapping.
    pub held_by: Vec<Proc>,
    /// Processes that have the multicast object mapped.
    pub mapped_by: Vec<Proc>,
    /// Processes in which a call that binds memory has not returned.
    pub waiting: Vec<Proc>,
}

/// Device that was added to a multicast object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TeamDevice {
    /// Process that added the device.
    pub proc: Proc,
    /// Device; null if unknown.
    pub device: Option<Uuid>,
    /// Time when the device was added.
    pub added_ns: u64,
}

/// Memory that is bound to a multicast object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct BoundMemory {
    /// Process that bound the memory.
    pub proc: Proc,
    /// Device of the memory; null if unknown.
    pub device: Option<Uuid>,
    /// Offset in bytes in the multicast object.
    pub offset: u64,
    /// Size of the memory in bytes.
    pub bytes: u64,
}

/// Allocation, as one process has it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    /// Process that has the allocation.
    pub proc: Proc,
    /// Handle of the allocation in the process; null if it has none.
    pub handle: Option<String>,
    /// Location of the memory.
    pub location: Where,
    /// Device of the memory; null if it is not on a known device.
    pub device: Option<Uuid>,
    /// Size of the allocation in bytes.
    pub bytes: Option<u64>,
    /// Process that created the allocation.
    pub owner: Option<Proc>,
    /// Time when this process created or imported the allocation.
    pub since_ns: u64,
    /// Handle types that the allocation was created with; empty for an import.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// Number of references that the process has by its handle.
    pub references: u64,
    /// Number of times that the process retained the allocation.
    pub retained: u64,
    /// Number of times that the process released the allocation.
    pub released: u64,
    /// Handles that the allocation was exported as: the last few.
    pub exports: Vec<Fingerprint>,
    /// Handle that the allocation was imported as; null if unknown.
    pub imported_as: Option<Fingerprint>,
    /// Mappings of the allocation: the first few addresses.
    pub mappings: Vec<Mapping>,
    /// Number of mappings of the allocation.
    pub mapped: u64,
    /// True if its owner gave the allocation up and this process keeps it alive.
    pub kept: bool,
}

/// Address range that an allocation is mapped at.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Mapping {
    /// First address of the mapping.
    pub address: String,
    /// Size of the mapping in bytes.
    pub bytes: u64,
    /// Devices that may access the mapping.
    pub access: Vec<Access>,
}

/// Access of a device to a mapping.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// Device that may access the mapping.
    pub device: Uuid,
    /// Kind of access.
    pub flags: String,
}
