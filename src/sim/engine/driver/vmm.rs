//! Allocations with handles, reserved addresses, and mappings with their access rights.

use super::super::backing::Backing;
use super::super::multicasts::{Binding, Multicast};
use super::stores::MemoryBlock;
use cupeer_spec::abi::{CUmemAccess_flags, CUmemAllocationFlags, CUmemLocation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// CU_MEM_LOCATION_TYPE_DEVICE.
pub(crate) const DEVICE: i32 = CUmemLocation::DEVICE;
/// CU_MEM_LOCATION_TYPE_HOST.
pub(crate) const HOST: i32 = 2;
/// CU_MEM_LOCATION_TYPE_HOST_NUMA.
pub(crate) const HOST_NUMA: i32 = 3;
/// From CU_MEM_LOCATION_TYPE_HOST to CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
pub(crate) const ALL_HOSTS: std::ops::RangeInclusive<i32> = 2..=4;
/// CU_MEM_ALLOCATION_TYPE_PINNED.
pub(crate) const PINNED: i32 = 1;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
pub(crate) const DESCRIPTOR: i32 = 1;
/// CU_MEM_HANDLE_TYPE_WIN32.
pub(crate) const WINDOWS: i32 = 2;
/// CU_MEM_HANDLE_TYPE_WIN32_KMT.
pub(crate) const WINDOWS_KMT: i32 = 4;
/// All handle types of Windows.
pub(crate) const ALL_WINDOWS: i32 = WINDOWS | WINDOWS_KMT;
/// CU_MEM_HANDLE_TYPE_FABRIC.
pub(crate) const FABRIC: i32 = 8;
/// The handle types of Linux.
pub(crate) const DEVICE_TYPES: i32 = DESCRIPTOR | FABRIC;

/// The memory for which a handle or a mapping stands.
#[derive(Clone, Debug)]
pub(crate) enum HandleTarget {
    Memory(MemoryBlock),
    /// A multicast object, which has no bytes of its own.
    Multicast(Arc<Multicast>),
}

/// Memory that this process has bound to a multicast object.
#[derive(Debug)]
pub(crate) struct BoundMemory {
    /// Index of the binding among all bindings of the object.
    pub index: u64,
    pub binding: Binding,
    pub block: MemoryBlock,
}

/// A handle of an allocation or a multicast object.
#[derive(Debug)]
pub(crate) struct AllocationHandle {
    pub behind: HandleTarget,
    /// Handle types by which the memory can be exported: bits of `CUmemAllocationHandleType`; 0 for imported
    /// memory.
    pub types: i32,
    pub is_imported: bool,
    pub(in crate::engine) flags: CUmemAllocationFlags,
    pub(in crate::engine) references: u32,
    /// Number of mappings of the memory through this handle.
    pub mappings: u32,
    /// Memory that this process bound through this handle, if the handle is of a multicast object.
    pub bound: Vec<BoundMemory>,
}

impl AllocationHandle {
    /// Returns a handle that must be released once.
    pub(crate) fn new(behind: HandleTarget, types: i32, flags: CUmemAllocationFlags) -> AllocationHandle {
        AllocationHandle { behind, types, is_imported: false, flags, references: 1, mappings: 0, bound: Vec::new() }
    }

    /// Returns a handle of memory that was imported.
    pub(crate) fn new_imported(behind: HandleTarget) -> AllocationHandle {
        AllocationHandle { is_imported: true, ..AllocationHandle::new(behind, 0, CUmemAllocationFlags::default()) }
    }

    /// Returns true if the handle keeps this memory alive: it is a handle of the memory, or of a multicast object to
    /// which the memory is bound.
    pub(crate) fn keeps_alive(&self, block: &MemoryBlock) -> bool {
        matches!(&self.behind, HandleTarget::Memory(own) if own.is_same_part(block))
            || self.bound.iter().any(|bound| bound.block.is_same_part(block))
    }
}

impl VmmState {
    /// Returns the number of calls of `cuMemRelease` after which all handles are released.
    pub(crate) fn count_references(&self) -> usize {
        self.handles.values().map(|handle| handle.references as usize).sum()
    }

    /// Returns the number of mappings through all handles.
    pub(crate) fn count_mappings(&self) -> usize {
        self.handles.values().map(|handle| handle.mappings as usize).sum()
    }
}

/// A mapping of memory by `cuMemMap`.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// The handle that was passed to `cuMemMap`.
    pub handle: u64,
    pub behind: HandleTarget,
    /// Rights of each device, by its ordinal. A device that is not in the list has none.
    pub rights: Vec<(usize, AccessRights)>,
}

impl Mapping {
    /// Returns the device that has the memory, by its index in the machine; `None` for a multicast object,
    /// whose memory is on several devices.
    pub(crate) fn memory_device(&self) -> Option<usize> {
        match &self.behind {
            HandleTarget::Memory(block) => Some(block.part.device),
            HandleTarget::Multicast(_) => None,
        }
    }
}

/// Access of a device to mapped memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AccessRights {
    Nothing = 0,
    Read = 1,
    ReadWrite = 3,
}

impl AccessRights {
    pub(crate) fn from_flags(flags: CUmemAccess_flags) -> Option<AccessRights> {
        [AccessRights::Nothing, AccessRights::Read, AccessRights::ReadWrite]
            .into_iter()
            .find(|rights| *rights as i32 == flags.0)
    }
}

/// Returns the rights of a device, by its ordinal, for a mapping.
pub(crate) fn rights_of(mapping: &Mapping, device: usize) -> AccessRights {
    let granted = mapping.rights.iter().find(|(known, _)| *known == device);
    granted.map_or(AccessRights::Nothing, |(_, rights)| *rights)
}

/// The handles and the address reservations of this process.
#[derive(Default, Debug)]
pub(crate) struct VmmState {
    pub(in crate::engine) handles: BTreeMap<u64, AllocationHandle>,
    /// The sizes of the reservations, by their start addresses.
    pub(in crate::engine) reservations: BTreeMap<u64, u64>,
    /// Files of other processes' device memory that this process uses.
    pub(in crate::engine) foreign: Vec<Arc<Backing>>,
}
