//! Virtual memory: the memory that processes allocated, imported, and mapped, and the memory that they keep alive.

use super::{
    Fingerprint, Proc, Uuid,
    word::{self, Word},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The virtual memory of all processes: what they have of physical memory and of addresses, at their ends or now.
#[derive(Serialize, Deserialize, JsonSchema, Default)]
pub struct Allocations {
    /// Physical memory: a row for each process and device.
    pub devices: Vec<DeviceMemory>,
    /// Addresses: a row for each process.
    pub spaces: Vec<AddressSpace>,
    /// Memory that processes kept alive after its owner had given it up: what is still kept first, then the largest.
    pub kept: Vec<Kept>,
    /// Multicast objects, in the order in which they were made.
    pub multicast: Vec<Multicast>,
    /// Single allocations that a process has: those that are kept alive first, then the largest.
    pub largest: Vec<Allocation>,
    /// How many more there are.
    pub largest_more: u64,
}

impl Allocations {
    /// Keeps the rows of these processes.
    pub fn retain(&mut self, chosen: impl Fn(&Proc) -> bool) {
        self.devices.retain(|row| chosen(&row.proc));
        self.spaces.retain(|row| chosen(&row.proc));
        self.kept.retain(|row| chosen(&row.proc) || chosen(&row.owner));
        let has = |row: &Multicast| {
            row.made_by.iter().chain(&row.held_by).any(&chosen)
                || row.devices.iter().any(|device| chosen(&device.proc))
        };
        self.multicast.retain(has);
        self.largest.retain(|row| chosen(&row.proc));
    }
}

/// Where physical memory lies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// On a device.
    Device,
    /// In the memory of the host.
    Host,
    /// Nowhere: it is a multicast object, to which memory of several devices is bound.
    Multicast,
    /// The record does not say.
    Unknown,
}

/// What one process has of the physical memory of one device: at its end or, while it runs, now.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// The process.
    pub proc: Proc,
    /// Where the memory lies.
    pub location: Where,
    /// The device.
    pub device: Option<Uuid>,
    /// How many allocations the process made there.
    pub made: u64,
    /// How many of these it has: it has a handle or a mapping.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes that it had of its own at one time.
    pub most_bytes: u64,
    /// How many of its exports are known.
    pub exported: u64,
    /// How many of these no process of the record imported.
    pub never_imported: u64,
    /// How often the process imported memory that others had allocated there.
    pub imports: u64,
    /// How many allocations of others it has.
    pub imported: u64,
    /// Their bytes.
    pub imported_bytes: u64,
    /// The most bytes that it had of others at one time.
    pub imported_most_bytes: u64,
    /// The bytes at which such memory, its own or another's, is mapped.
    pub mapped_bytes: u64,
}

/// The addresses that one process has reserved and mapped: at its end or, while it runs, now.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct AddressSpace {
    /// The process.
    pub proc: Proc,
    /// How many reservations it has.
    pub reservations: u64,
    /// Their bytes.
    pub reserved_bytes: u64,
    /// The most bytes that it had reserved at one time.
    pub reserved_most_bytes: u64,
    /// How many mappings it has.
    pub mappings: u64,
    /// Their bytes.
    pub mapped_bytes: u64,
    /// The most bytes that it had mapped at one time.
    pub mapped_most_bytes: u64,
}

/// Memory that one process kept alive after another one had given it up.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The process that kept it.
    pub proc: Proc,
    /// The process that made it.
    pub owner: Proc,
    /// Where it lies.
    pub location: Where,
    /// The device.
    pub device: Option<Uuid>,
    /// How many allocations that are.
    pub allocations: u64,
    /// The most bytes of them that were kept at one time.
    pub bytes: u64,
    /// How their owner gave them up: it released and unmapped them, or ended.
    #[schemars(extend("enum" = ["release", "exit"]))]
    #[serde(deserialize_with = "word::read")]
    pub given_up_by: Word,
    /// When it gave up the first of them.
    pub given_up_ns: u64,
    /// Whether they are kept now, or were until their keeper ended, or until it gave them up.
    #[schemars(extend("enum" = ["now", "exit", "given up"]))]
    #[serde(deserialize_with = "word::read")]
    pub until: Word,
    /// When the last of them was no longer kept.
    pub until_ns: Option<u64>,
    /// How long one of them was kept at most, up to now.
    pub longest_ns: u64,
}

/// A multicast object, as all processes together have it: at their ends or, while they run, now.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Multicast {
    /// The process that made it, where that is known.
    pub made_by: Option<Proc>,
    /// When it was made, or first imported.
    pub since_ns: u64,
    /// The most memory that can be bound to it, of each device.
    pub bytes: Option<u64>,
    /// The types of handles that were asked for when it was made.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// How many devices it was made for.
    pub wanted_devices: Option<u32>,
    /// The devices that were added, and by whom.
    pub devices: Vec<TeamDevice>,
    /// The memory that is bound to it.
    pub bound: Vec<BoundMemory>,
    /// How often memory was bound.
    pub binds: u64,
    /// How often memory was unbound.
    pub unbinds: u64,
    /// The processes that have it: by a handle or a mapping.
    pub held_by: Vec<Proc>,
    /// The processes that have it mapped.
    pub mapped_by: Vec<Proc>,
    /// The processes in which a call that binds memory has not returned.
    pub waiting: Vec<Proc>,
}

/// A device of a multicast object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TeamDevice {
    /// The process that added it.
    pub proc: Proc,
    /// The device, where it is known.
    pub device: Option<Uuid>,
    /// When it was added.
    pub added_ns: u64,
}

/// Memory that is bound to a multicast object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct BoundMemory {
    /// The process that bound it.
    pub proc: Proc,
    /// The device, where it is known.
    pub device: Option<Uuid>,
    /// Where in the object.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
}

/// An allocation, as one process has it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    /// The process.
    pub proc: Proc,
    /// Its handle there, where the process has one.
    pub handle: Option<String>,
    /// Where it lies.
    pub location: Where,
    /// The device.
    pub device: Option<Uuid>,
    /// Its size.
    pub bytes: Option<u64>,
    /// The process that made it.
    pub owner: Option<Proc>,
    /// When this process made or imported it.
    pub since_ns: u64,
    /// The types of handles that were asked for when it was made; empty of an import.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// The references that the process has by its handle.
    pub references: u64,
    /// How often it was retained.
    pub retained: u64,
    /// How often it was released.
    pub released: u64,
    /// What it was exported as: the last few.
    pub exports: Vec<Fingerprint>,
    /// What it was imported as, where that is known.
    pub imported_as: Option<Fingerprint>,
    /// Where it is mapped: the first few addresses.
    pub mappings: Vec<Mapping>,
    /// How often it is mapped.
    pub mapped: u64,
    /// Whether its owner has given it up, and this process keeps it alive.
    pub kept: bool,
}

/// Where an allocation is mapped.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Mapping {
    /// The first address.
    pub address: String,
    /// The size.
    pub bytes: u64,
    /// The devices that have access.
    pub access: Vec<Access>,
}

/// What a device may do with a mapping.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// The device.
    pub device: Uuid,
    /// What it may do.
    pub flags: String,
}
