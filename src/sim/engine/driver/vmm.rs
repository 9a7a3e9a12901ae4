//! Allocations that have handles, addresses that are reserved, and what is mapped there for whom.

use super::super::backing::Backing;
use super::super::teams::{Binding, Team};
use super::stores::Block;
use cupeer_spec::abi::{CUmemAccess_flags, CUmemAllocationFlags, CUmemLocation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `CU_MEM_LOCATION_TYPE_*`.
pub(crate) const DEVICE: i32 = CUmemLocation::DEVICE;
pub(crate) const HOST: i32 = 2;
pub(crate) const HOST_NUMA: i32 = 3;
/// From CU_MEM_LOCATION_TYPE_HOST to CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
pub(crate) const ALL_HOSTS: std::ops::RangeInclusive<i32> = 2..=4;
/// CU_MEM_ALLOCATION_TYPE_PINNED.
pub(crate) const PINNED: i32 = 1;
/// `CU_MEM_HANDLE_TYPE_*`.
pub(crate) const DESCRIPTOR: i32 = 1;
pub(crate) const WINDOWS: i32 = 2;
pub(crate) const WINDOWS_KMT: i32 = 4;
pub(crate) const ALL_WINDOWS: i32 = WINDOWS | WINDOWS_KMT;
pub(crate) const FABRIC: i32 = 8;
/// Those of Linux.
pub(crate) const DEVICE_TYPES: i32 = DESCRIPTOR | FABRIC;

/// What a handle or a mapping stands for.
#[derive(Clone, Debug)]
pub(crate) enum Behind {
    Memory(Block),
    /// A multicast object.
    Team(Arc<Team>),
}

/// Memory that this process has bound to a multicast object.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Its place among the object's bindings.
    pub index: u64,
    pub binding: Binding,
    pub block: Block,
}

/// An allocation as the program knows it.
#[derive(Debug)]
pub(crate) struct Handle {
    pub behind: Behind,
    /// As what it may leave the process: nothing for an import.
    pub types: i32,
    pub is_imported: bool,
    pub(in crate::engine) flags: CUmemAllocationFlags,
    pub(in crate::engine) references: u32,
    /// How many mappings were made with it.
    pub mappings: u32,
    /// What this process has bound to it, where it is a multicast object.
    pub bound: Vec<Bound>,
}

impl Handle {
    /// A handle that has to be released once.
    pub(crate) fn new(behind: Behind, types: i32, flags: CUmemAllocationFlags) -> Handle {
        Handle { behind, types, is_imported: false, flags, references: 1, mappings: 0, bound: Vec::new() }
    }

    /// The same for an allocation of another process.
    pub(crate) fn imported(behind: Behind) -> Handle {
        Handle { is_imported: true, ..Handle::new(behind, 0, CUmemAllocationFlags::default()) }
    }

    /// Whether it keeps memory.
    pub(crate) fn keeps(&self, block: &Block) -> bool {
        matches!(&self.behind, Behind::Memory(own) if own.is(block))
            || self.bound.iter().any(|bound| bound.block.is(block))
    }
}

impl Vmm {
    /// How many releases are outstanding.
    pub(crate) fn allocations(&self) -> usize {
        self.handles.values().map(|handle| handle.references as usize).sum()
    }

    /// How many mappings there are.
    pub(crate) fn mappings(&self) -> usize {
        self.handles.values().map(|handle| handle.mappings as usize).sum()
    }
}

/// What is mapped somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// The handle that it was mapped with.
    pub handle: u64,
    pub behind: Behind,
    /// What devices may do, by their ordinals; the others may do nothing.
    pub rights: Vec<(usize, Rights)>,
}

impl Mapping {
    /// The index in the machine of the device where it lies: a multicast object lies on several.
    pub(crate) fn home(&self) -> Option<usize> {
        match &self.behind {
            Behind::Memory(block) => Some(block.ticket.device),
            Behind::Team(_) => None,
        }
    }
}

/// What a device may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rights {
    Nothing = 0,
    Read = 1,
    ReadWrite = 3,
}

impl Rights {
    pub(crate) fn of(flags: CUmemAccess_flags) -> Option<Rights> {
        [Rights::Nothing, Rights::Read, Rights::ReadWrite]
            .into_iter()
            .find(|rights| *rights as i32 == flags.0)
    }
}

/// What a device may do with what is mapped.
pub(crate) fn may_access(mapping: &Mapping, device: usize) -> Rights {
    let granted = mapping.rights.iter().find(|(known, _)| *known == device);
    granted.map_or(Rights::Nothing, |(_, rights)| *rights)
}

/// What a process has of it, but for what is mapped.
#[derive(Default, Debug)]
pub(crate) struct Vmm {
    pub(in crate::engine) handles: BTreeMap<u64, Handle>,
    /// The sizes of the reservations, by their start.
    pub(in crate::engine) reservations: BTreeMap<u64, u64>,
    /// The memory of other processes' devices of which something is imported.
    pub(in crate::engine) foreign: Vec<Arc<Backing>>,
}
