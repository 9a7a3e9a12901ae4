//! Allocations: device memory, host memory, managed memory, and imports.

use super::super::backing::Backing;
use super::super::handle::ExportLocator;
use super::advice::Advice;
use super::pools::Pools;
use super::stores::StorePosition;
use super::vmm::Mapping;
use cupeer_spec::effect::Object;
use std::collections::BTreeMap;
use std::sync::Arc;

/// CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTREGISTER_PORTABLE.
pub(crate) const HOST_PORTABLE: u32 = 1;
/// CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTREGISTER_DEVICEMAP.
pub(crate) const HOST_DEVICE_MAP: u32 = 2;

/// Kind of an allocation.
#[derive(Clone, Debug)]
pub(crate) enum AllocationKind {
    /// Device memory of `cuMemAlloc`. With `low`, its address has 32 bits.
    Device { low: bool, export: Option<u16> },
    /// Device memory of a pool: allocated by `cuMemAllocAsync`, or imported by `cuMemPoolImportPointer`.
    Pool { pool: usize, shared: PoolSharing },
    /// Host memory of `cuMemHostAlloc`.
    Host { flags: u32 },
    /// Host memory of the program, registered by `cuMemHostRegister`.
    Registered { flags: u32 },
    /// Memory of `cuMemAllocManaged`.
    Managed(Advice),
    /// Memory of an allocation with a handle, mapped by `cuMemMap`.
    Mapped(Mapping),
    /// Memory of another process, opened by `cuIpcOpenMemHandle`.
    Import {
        locator: ExportLocator,
        channel: u64,
        references: u32,
        /// Index in the machine of the device that has the memory.
        home: usize,
    },
}

impl AllocationKind {
    /// Returns true if the memory is freed together with the context in which it was allocated.
    pub(crate) fn belongs_to_context(&self) -> bool {
        match self {
            AllocationKind::Device { .. } | AllocationKind::Import { .. } => Object::Memory.belongs_to_context(),
            AllocationKind::Pool { .. } => Object::Pointer.belongs_to_context(),
            AllocationKind::Mapped(_) => Object::Mapping.belongs_to_context(),
            AllocationKind::Host { flags } => flags & HOST_PORTABLE == 0,
            AllocationKind::Registered { .. } | AllocationKind::Managed(_) => true,
        }
    }
}

/// State of sharing of memory of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolSharing {
    No,
    /// The memory was exported, so other processes can open it. `slot` is its slot in the table of the pool.
    Exported {
        slot: u16,
    },
    /// The memory was imported. `token` is the token that the exporter gave it.
    Imported {
        token: u64,
    },
}

/// An allocation: memory of a device or of the host that the driver knows.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// Number of bytes that the program asked for.
    pub size: u64,
    pub kind: AllocationKind,
    /// Place of the bytes of device memory; `None` if the bytes are at the address itself, so that host code
    /// can access them.
    pub stored: Option<StorePosition>,
    /// The context to which the allocation belongs.
    pub context: u64,
    /// The ordinal of the device of this context.
    pub device: usize,
    /// Number of the allocation, unique in the process.
    pub id: u64,
    /// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
    pub sync_memops: bool,
}

impl Allocation {
    pub(crate) fn new(size: u64, kind: AllocationKind, context: u64, device: usize) -> Allocation {
        let sync_memops = !matches!(kind, AllocationKind::Host { .. } | AllocationKind::Registered { .. });
        Allocation { size, kind, stored: None, context, device, id: 0, sync_memops }
    }

    /// Sets the place of the bytes of device memory.
    pub(crate) fn with_store(self, stored: StorePosition) -> Allocation {
        Allocation { stored: Some(stored), ..self }
    }

    /// Adds `by` to the number of times that an import is open. Returns the new number.
    pub(crate) fn add_import_references(&mut self, by: i32) -> u32 {
        match &mut self.kind {
            AllocationKind::Import { references, .. } => {
                *references = references.saturating_add_signed(by);
                *references
            }
            _ => 0,
        }
    }

    /// Returns true for device memory that was not exported, so that no process can use it after it is freed.
    /// As recorded, importers can still use exported memory.
    pub(crate) fn is_unexported_device(&self) -> bool {
        matches!(
            self.kind,
            AllocationKind::Device { export: None, .. } | AllocationKind::Pool { shared: PoolSharing::No, .. }
        )
    }

    /// Returns true if host code can access the memory.
    pub(crate) fn is_host_accessible(&self) -> bool {
        self.stored.is_none()
    }
}

/// All allocations of a process.
#[derive(Debug)]
pub(crate) struct AllocationTable {
    pub(in crate::engine) by_address: BTreeMap<u64, Allocation>,
    /// Number of bytes of pinned and managed memory.
    pub(in crate::engine) mapped: u64,
    pub pools: Pools,
    next_id: u64,
}

impl AllocationTable {
    pub(crate) fn new(devices: usize) -> AllocationTable {
        AllocationTable { by_address: BTreeMap::new(), mapped: 0, pools: Pools::new(devices), next_id: 1 }
    }

    /// Returns the allocation that contains an address, and its base address.
    pub(crate) fn allocation_at(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (base, allocation) = self.by_address.range(..=address).next_back()?;
        (address - base < allocation.size).then_some((*base, allocation))
    }

    /// Returns the allocation that contains an address, for changes, and its base address.
    pub(crate) fn allocation_at_mut(&mut self, address: u64) -> Option<(u64, &mut Allocation)> {
        let (base, allocation) = self.by_address.range_mut(..=address).next_back()?;
        (address - base < allocation.size).then_some((*base, allocation))
    }

    /// Returns the allocation with this base address.
    pub(crate) fn get_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.by_address.get_mut(&base)
    }

    /// Returns the allocations that overlap a range, each with its base address.
    pub(crate) fn allocations_in(&self, start: u64, size: u64) -> impl Iterator<Item = (u64, &Allocation)> {
        let first = self.allocation_at(start).map_or(start, |(base, _)| base);
        let end = start.saturating_add(size).max(first);
        self.by_address.range(first..end).map(|(base, allocation)| (*base, allocation))
    }

    /// Returns true if an allocation overlaps a range.
    pub(crate) fn has_allocation_in(&self, start: u64, size: u64) -> bool {
        self.allocations_in(start, size).next().is_some()
    }

    /// Adds an allocation, and gives it its number.
    pub(crate) fn insert(&mut self, base: u64, mut allocation: Allocation) {
        allocation.id = self.next_id;
        self.next_id += 1;
        self.by_address.insert(base, allocation);
    }

    /// Returns the number of pointers that were imported by `cuMemPoolImportPointer`.
    pub(crate) fn count_pool_imports(&self) -> usize {
        let is = |a: &&Allocation| matches!(a.kind, AllocationKind::Pool { shared: PoolSharing::Imported { .. }, .. });
        self.by_address.values().filter(is).count()
    }

    /// Returns true if a pointer to this offset of a file was imported.
    pub(crate) fn is_imported(&self, file: &Arc<Backing>, offset: u64) -> bool {
        self.by_address.values().any(|a| {
            let there = |s: &StorePosition| Arc::ptr_eq(&s.backing, file) && s.offset == offset;
            matches!(a.kind, AllocationKind::Pool { shared: PoolSharing::Imported { .. }, .. })
                && a.stored.as_ref().is_some_and(there)
        })
    }

    /// Returns the address of the memory of a pool that has this state of sharing.
    pub(crate) fn find_shared(&self, pool: usize, as_what: PoolSharing) -> Option<u64> {
        let is = |a: &Allocation| matches!(a.kind, AllocationKind::Pool { pool: of, shared } if (of, shared) == (pool, as_what));
        self.by_address.iter().find(|(_, a)| is(a)).map(|(base, _)| *base)
    }

    /// Returns the memory that a device imported from this export, and its address.
    pub(crate) fn find_import(&mut self, wanted: &ExportLocator, device: usize) -> Option<(u64, &mut Allocation)> {
        let open = |a: &Allocation| {
            a.device == device && matches!(&a.kind, AllocationKind::Import { locator, .. } if locator == wanted)
        };
        self.by_address.iter_mut().find(|(_, a)| open(a)).map(|(base, a)| (*base, a))
    }

    /// Returns the devices whose memory a device has imported, by their indices in the machine.
    pub(crate) fn devices_of_imports(&self, device: usize) -> impl Iterator<Item = usize> {
        self.by_address.values().filter(move |a| a.device == device).filter_map(|a| match a.kind {
            AllocationKind::Import { home, .. } => Some(home),
            _ => None,
        })
    }
}
