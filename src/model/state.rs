//! The objects in the state of a process: allocations, mappings, reservations, pools, and pointers.

use crate::table::{Entry, Id};

/// Origin of an object in a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The process created it.
    #[default]
    Made,
    /// Another process created and exported it.
    Imported,
    /// A query returned it: the default pool of a device, or an allocation whose creation was not seen.
    Found,
}

/// An allocation of virtual memory (cuMemCreate), or a multicast object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Size in bytes; 0 if unknown.
    pub bytes: u64,
    /// The handle types that it was created with, if known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` if unknown, or it is on none.
    pub device: Option<i32>,
    /// Origin of the allocation in the process.
    pub origin: Origin,
    /// Number of references that the process holds on the handle: creations, imports, and retains, minus releases.
    pub references: u32,
    /// True if `references` is exact.
    pub is_counted: bool,
    /// Number of mappings.
    pub mappings: u32,
    /// The devices of a multicast object; `None` for other allocations.
    pub team: Option<Team>,
}

impl Allocation {
    /// Returns true if another process created the allocation.
    pub fn is_imported(&self) -> bool {
        self.origin == Origin::Imported
    }

    /// Returns the size in bytes, which is the size of the mapping for an imported allocation; `None` if unknown.
    pub fn size(&self) -> Option<u64> {
        Some(self.bytes).filter(|bytes| *bytes != 0)
    }

    /// Returns true if the allocation can be exported: it was imported, or was created with a handle type.
    pub fn is_shareable(&self) -> bool {
        self.is_imported() || self.types.is_some_and(|types| types != 0)
    }
}

impl Entry for Allocation {
    fn is_past(&self) -> bool {
        self.references == 0 && self.mappings == 0
    }
}

/// The devices of a multicast object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Team {
    /// Number of devices that the multicast object was created for; 0 if unknown.
    pub wanted: u32,
    /// Bit mask of the devices that this process added, by the process's device ordinals.
    pub added: u64,
}

impl Team {
    /// Returns true if this process added the device.
    pub fn has(&self, device: i32) -> bool {
        u32::try_from(device)
            .is_ok_and(|device| self.added.checked_shr(device).is_some_and(|bits| bits & 1 != 0))
    }

    /// Returns true if this process alone added as many devices as the multicast object was created for.
    pub fn is_whole(&self) -> bool {
        self.wanted != 0 && self.added.count_ones() >= self.wanted
    }
}

/// An address range at which an allocation is mapped. The name of the entry is the first address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Size in bytes.
    pub bytes: u64,
    /// The allocation; [`Id::NONE`] if unknown.
    pub of: Id,
    /// True if the process called `cuMemSetAccess` on it, even if the call failed.
    pub is_granted: bool,
}

impl Entry for Mapping {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A reserved address range. The name of the entry is the first address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Size in bytes.
    pub bytes: u64,
}

impl Entry for Reservation {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A memory pool.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Origin of the pool in the process.
    pub origin: Origin,
    /// Handle types that it was created with, if known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` if unknown, or it is on none.
    pub device: Option<i32>,
    /// Number of imports since it was last destroyed; 0 if it was not imported.
    pub imports: u32,
    /// True if the process exported it.
    pub is_exported: bool,
    /// True if the pool was destroyed; the entry stays until its slot or its handle is needed.
    pub is_destroyed: bool,
}

impl Pool {
    /// Returns true if the process created the pool in host memory.
    pub fn is_on_host(&self) -> bool {
        self.device.is_none() && self.types.is_some()
    }
}

impl Entry for Pool {
    fn is_past(&self) -> bool {
        self.is_destroyed
    }
}

/// Memory of an imported pool that was imported by cuMemPoolImportPointer. The name of the entry is the address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// The pool; [`Id::NONE`] if unknown.
    pub pool: Id,
}

impl Entry for Pointer {}
