//! The memory of devices: a file for each device that this process uses, and its free parts. Allocations (`super::memory`) and
//! arrays have places in these files.

use super::super::backing::Backing;
use super::super::descriptors::MemoryPart;
use super::super::holes::FreeRanges;
use super::super::job_memory::JobMemory;
use super::super::space::{GRANULE, LARGE};
use std::sync::Arc;

/// Bytes that are written over freed memory.
static SPOIL: [u8; 1 << 16] = [0xa5; 1 << 16];
/// Number of bytes at the start of freed memory that are overwritten with [`SPOIL`]; the rest becomes zeros.
const SPOILED: u64 = 1 << 20;

/// The place of bytes in the file with a device's memory, of this process or of an exporter.
#[derive(Clone, Debug)]
pub(crate) struct StorePosition {
    pub backing: Arc<Backing>,
    pub offset: u64,
}

impl StorePosition {
    /// Overwrites freed memory, so that a program that reads it gets wrong data.
    pub(crate) fn overwrite_freed(&self, size: u64) {
        let at = |done| self.offset + done;
        for done in (0..size.min(SPOILED)).step_by(SPOIL.len()) {
            let length = (size - done).min(SPOIL.len() as u64);
            let _ = self.backing.write_from_address(at(done), SPOIL.as_ptr() as u64, length);
        }
        if size > SPOILED {
            self.backing.release_pages(at(SPOILED), size - SPOILED);
        }
    }
}

/// A part of a device's memory that handles of `cuMemCreate`, or the table of a shared pool, use. The memory
/// is of this process or imported.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBlock {
    pub backing: Arc<Backing>,
    /// The device, the offset, and the size of the part.
    pub part: MemoryPart,
    /// The ordinal of the device that has the memory, if this process created the memory; `None` for imported
    /// memory.
    pub(in crate::engine) own: Option<usize>,
}

impl MemoryBlock {
    /// Returns true if this process created the memory.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Returns true if both blocks are the same part of the same file.
    pub(crate) fn is_same_part(&self, other: &MemoryBlock) -> bool {
        Arc::ptr_eq(&self.backing, &other.backing) && self.part == other.part
    }
}

/// The file with a device's memory, and its free parts.
#[derive(Debug)]
pub(crate) struct DeviceStore {
    pub(in crate::engine) backing: Arc<Backing>,
    pub(in crate::engine) holes: FreeRanges,
}

/// Freed device memory that stays, because another process has it open.
#[derive(Debug)]
pub(crate) struct RetainedMemory {
    pub device: usize,
    pub offset: u64,
    pub size: u64,
    /// Table entry by which other processes can still open the memory. While a process has the memory open by
    /// a descriptor, it locks the first byte of the memory.
    pub name: Option<ExportName>,
}

/// An entry of a table by which other processes find an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExportName {
    /// Slot of an export by `cuIpcGetMemHandle`.
    Handle(u16),
    /// Slot of an export by `cuMemPoolExportPointer`, in the table of this pool.
    Pointer { pool: usize, slot: u16 },
}

/// The memory of all devices that this process sees, with the freed memory that must stay.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(in crate::engine) files: Vec<Option<DeviceStore>>,
    /// Number of bytes in use on each device, by its ordinal.
    pub(in crate::engine) used: Vec<u64>,
    pub(in crate::engine) retained: Vec<RetainedMemory>,
    /// The memory of each device that all processes of the job use; `None` outside a job.
    pub(in crate::engine) job: Option<JobMemory>,
}

impl Stores {
    pub(crate) fn new(devices: usize) -> Stores {
        Stores {
            files: (0..devices).map(|_| None).collect(),
            used: vec![0; devices],
            retained: Vec::new(),
            job: JobMemory::join(),
        }
    }

    /// Returns true if another open file has locked a byte of a device's memory.
    pub(crate) fn is_held(&self, device: usize, offset: u64) -> bool {
        self.files[device].as_ref().is_some_and(|store| store.backing.is_locked_elsewhere(offset))
    }

    /// Adds freed memory that must stay until other processes close it.
    pub(crate) fn keep_retained(&mut self, retained: RetainedMemory) {
        self.retained.push(retained);
    }

    /// Withdraws the entries of freed memory from the table of a pool that ends. `gone` is the index of the
    /// pool.
    pub(crate) fn forget_pointers(&mut self, gone: usize, mut withdraw: impl FnMut(u16)) {
        for retained in &mut self.retained {
            if let Some(ExportName::Pointer { pool, slot }) = retained.name
                && pool == gone
            {
                withdraw(slot);
                retained.name = None;
            }
        }
    }
}

/// Returns the number of bytes of device memory that an allocation of `size` bytes takes; `None` on overflow.
pub(crate) fn padded_size(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(if size < LARGE { GRANULE } else { 4096 })
}
