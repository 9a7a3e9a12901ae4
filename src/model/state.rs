//! The kinds of entries.

use crate::table::{Entry, Id};

/// The source of an entry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The process created it.
    #[default]
    Made,
    /// Another process has.
    Imported,
    /// It existed before: the default pool of a device, or an allocation whose creation was not seen.
    Found,
}

/// An allocation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Size in bytes; 0 if unknown.
    pub bytes: u64,
    /// The handle types that it was created with, if known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` if unknown, or it is on none.
    pub device: Option<i32>,
    /// Source.
    pub origin: Origin,
    /// Number of references to the handle that were not released.
    pub references: u32,
    /// True if `references` is exact.
    pub is_counted: bool,
    /// Number of mappings.
    pub mappings: u32,
    /// Devices, if it is a multicast object.
    pub team: Option<Team>,
}

impl Allocation {
    /// True if another process has made it.
    pub fn is_imported(&self) -> bool {
        self.origin == Origin::Imported
    }

    /// The size; of an import, that of its mapping. `None` if it is unknown.
    pub fn size(&self) -> Option<u64> {
        Some(self.bytes).filter(|bytes| *bytes != 0)
    }

    /// True if it can leave the process: it was imported, or has a handle type.
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
    /// Number of devices that it was created for; 0 if that is not known.
    pub wanted: u32,
    /// Devices that this process added, as it numbers them, a bit each.
    pub added: u64,
}

impl Team {
    /// Returns true if this process added the device.
    pub fn has(&self, device: i32) -> bool {
        u32::try_from(device)
            .is_ok_and(|device| self.added.checked_shr(device).is_some_and(|bits| bits & 1 != 0))
    }

    /// Returns true if this process added as many devices as it was created for.
    pub fn is_whole(&self) -> bool {
        self.wanted != 0 && self.added.count_ones() >= self.wanted
    }
}

/// Addresses at which an allocation is mapped. They begin at its name.
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

/// Addresses that are reserved. They begin at its name.
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

/// A pool.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Source.
    pub origin: Origin,
    /// Handle types that it was created with, if known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` if unknown, or it is on none.
    pub device: Option<i32>,
    /// Number of imports since it was last destroyed; 0 if it was not imported.
    pub imports: u32,
    /// True if the process exported it.
    pub is_exported: bool,
    /// True if it was destroyed, and is kept only as a tombstone.
    pub is_destroyed: bool,
}

impl Pool {
    /// True if the process created it in memory of the host.
    pub fn is_on_host(&self) -> bool {
        self.device.is_none() && self.types.is_some()
    }
}

impl Entry for Pool {
    fn is_past(&self) -> bool {
        self.is_destroyed
    }
}

/// Imported memory of an imported pool. Its address is its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// The pool; [`Id::NONE`] if unknown.
    pub pool: Id,
}

impl Entry for Pointer {}
