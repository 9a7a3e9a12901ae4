//! The kinds of entries.

use crate::table::{Entry, Id};

/// The source of an entry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The process has made it.
    #[default]
    Made,
    /// Another process has.
    Imported,
    /// It was there: the pool that a device always has, or an allocation whose creation was not seen.
    Found,
}

/// An allocation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Its size; 0 where that is not known.
    pub bytes: u64,
    /// The handle types that it was created with, where that is known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` where that is not known, or it is on none.
    pub device: Option<i32>,
    /// Its source.
    pub origin: Origin,
    /// How often its handle is to be released.
    pub references: u32,
    /// Whether that is known for sure.
    pub is_counted: bool,
    /// How often it is mapped.
    pub mappings: u32,
    /// Where it is a multicast object: its devices.
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
    /// How many it was made for; 0 where that is not known.
    pub wanted: u32,
    /// Those that this process has added, as it numbers them, a bit each.
    pub added: u64,
}

impl Team {
    /// Whether this process has added a device.
    pub fn has(&self, device: i32) -> bool {
        u32::try_from(device)
            .is_ok_and(|device| self.added.checked_shr(device).is_some_and(|bits| bits & 1 != 0))
    }

    /// Whether this process has added as many as it was made for.
    pub fn is_whole(&self) -> bool {
        self.wanted != 0 && self.added.count_ones() >= self.wanted
    }
}

/// Addresses at which an allocation is mapped. They begin at its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its size.
    pub bytes: u64,
    /// The allocation; [`Id::NONE`] where that is not known.
    pub of: Id,
    /// Whether somebody was to get access to it.
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
    /// Its size.
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
    /// Its source.
    pub origin: Origin,
    /// The handle types that it was made with, where that is known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` where that is not known, or it is on none.
    pub device: Option<i32>,
    /// How often it was imported, and not destroyed since; 0 of others.
    pub imports: u32,
    /// Whether the process has exported it.
    pub is_exported: bool,
    /// Whether it is destroyed, and only remembered.
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
    /// The pool; [`Id::NONE`] where that is not known.
    pub pool: Id,
}

impl Entry for Pointer {}
