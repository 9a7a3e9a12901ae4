//! The objects in the state of a process: allocations, mappings, reservations, pools, and pointers.

use crate::table::{Entry, Id};

/// Origin of an object in a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ObjectOrigin {
    /// The process created the object.
    #[default]
    Made,
    /// Another process created and exported the object.
    Imported,
    /// A query returned the object: the default pool of a device, or an allocation whose creation was not seen.
    Found,
}

/// An allocation of virtual memory (cuMemCreate), or a multicast object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Size in bytes; 0 if unknown.
    pub bytes: u64,
    /// Bit mask of the handle types that the allocation was created with, if known.
    pub types: Option<i32>,
    /// The device that the allocation is on, as the process numbers it; `None` if unknown, or if it is on none.
    pub device: Option<i32>,
    /// Origin of the allocation in the process.
    pub origin: ObjectOrigin,
    /// Number of references that the process holds on the handle: creations, imports, and retains, minus releases.
    pub references: u32,
    /// True if `references` is exact.
    pub is_counted: bool,
    /// Number of mappings.
    pub mappings: u32,
    /// The devices of a multicast object; `None` for other allocations.
    pub multicast: Option<MulticastDevices>,
}

impl Allocation {
    /// Returns true if another process created the allocation.
    pub fn is_imported(&self) -> bool {
        self.origin == ObjectOrigin::Imported
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
    fn has_ended(&self) -> bool {
        self.references == 0 && self.mappings == 0
    }
}

/// The devices of a multicast object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MulticastDevices {
    /// Number of devices that the multicast object was created for; 0 if unknown.
    pub wanted: u32,
    /// Bit mask of the devices that this process added, by the process's device ordinals.
    pub added: u64,
}

impl MulticastDevices {
    /// Returns true if this process added the device.
    pub fn has_device(&self, device: i32) -> bool {
        u32::try_from(device).is_ok_and(|device| self.added.checked_shr(device).is_some_and(|bits| bits & 1 != 0))
    }

    /// Returns true if this process alone added as many devices as the multicast object was created for.
    pub fn has_all_devices(&self) -> bool {
        self.wanted != 0 && self.added.count_ones() >= self.wanted
    }
}

/// An address range at which an allocation is mapped. The name of the entry is the first address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Size in bytes.
    pub bytes: u64,
    /// The allocation; [`Id::NONE`] if unknown.
    pub allocation: Id,
    /// True if the process called `cuMemSetAccess` on the mapping, even if the call failed.
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
    pub origin: ObjectOrigin,
    /// Bit mask of the handle types that the pool was created with, if known.
    pub types: Option<i32>,
    /// The device that the pool is on, as the process numbers it; `None` if unknown, or if it is on none.
    pub device: Option<i32>,
    /// Number of imports of the pool that were not destroyed yet; 0 if it was not imported.
    pub imports: u32,
    /// True if the process exported the pool.
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
    fn has_ended(&self) -> bool {
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
