//! Takes and releases memory of devices.
//!
//! Several handles and tables of shared pools of a process can use one block, which is released with the last of them. Memory
//! of this process with open descriptors, or with imports in other processes, stays until they are closed.

use super::answer::{Answer, fail_if};
use super::backing::Backing;
use super::channel::MEMORY_NAME;
use super::descriptors::{GRANULARITY, MemoryPart, ShareableKind};
use super::driver::{DeviceStore, Driver, ExportName, MemoryBlock, RetainedMemory, StorePosition, padded_size};
use super::holes::FreeRanges;
use super::limits;
use super::space::{GRANULE, LARGE};
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// Length of the file with the memory of a device, as a multiple of the size of that memory.
const PIECES: u64 = 8;
/// The most bytes of the file with the memory of a device.
const MOST_LENGTH: u64 = 16 << 40;

impl Driver {
    /// Returns the free and the total memory of a device, in bytes.
    pub(crate) fn memory_info(&mut self, device: usize) -> (u64, u64) {
        self.release_retained();
        let total = self.device(device).memory;
        let others = self.stores.job.as_ref().map_or(0, |job| job.used_by_others(self.visible[device]));
        (total.saturating_sub(self.stores.used[device].saturating_add(others)), total)
    }

    /// Takes memory of a device. Returns the place of the memory, and the number of bytes that were taken.
    pub(super) fn take_memory(&mut self, device: usize, size: u64) -> Answer<(StorePosition, u64)> {
        let taken = padded_size(size).ok_or(Code::OUT_OF_MEMORY)?;
        let align = if taken < LARGE { GRANULE } else { 4096 };
        Ok((self.take_aligned(device, taken, align)?, taken))
    }

    /// Takes exactly `size` bytes of a device, at an offset with this alignment.
    fn take_aligned(&mut self, device: usize, size: u64, align: u64) -> Answer<StorePosition> {
        self.release_retained();
        let total = self.device(device).memory;
        let store = match &mut self.stores.files[device] {
            Some(store) => store,
            none => {
                // The file is larger than the memory, because free memory of a real device need not be
                // contiguous. A process that exceeds the limit of file sizes is killed.
                let limit = limits::resource_limit(libc::RLIMIT_FSIZE) / GRANULE * GRANULE;
                let length = total.saturating_mul(PIECES).min(MOST_LENGTH).min(limit);
                let backing = Backing::create(MEMORY_NAME, length).ok_or(Code::OUT_OF_MEMORY)?;
                none.insert(DeviceStore { backing: Arc::new(backing), holes: FreeRanges::of_range(0, length) })
            }
        };
        let used = self.stores.used[device];
        fail_if(used.checked_add(size).is_none_or(|all| all > total), Code::OUT_OF_MEMORY)?;
        let offset = store.holes.take_range(size, align).ok_or(Code::OUT_OF_MEMORY)?;
        if let Some(job) = &self.stores.job
            && let Err(failure) = job.take_memory(self.visible[device], used, size, total)
        {
            store.holes.return_range(offset, size);
            return Err(failure);
        }
        self.stores.used[device] += size;
        Ok(StorePosition { backing: store.backing.clone(), offset })
    }

    /// Returns the ordinal and the file of the device whose memory is in a file; `None` if the file is
    /// another process's.
    fn own_memory_of_file(&self, file: &Backing) -> Option<(usize, Arc<Backing>)> {
        self.stores.files.iter().enumerate().find_map(|(device, store)| {
            let own = &store.as_ref()?.backing;
            (own.inode() == file.inode()).then(|| (device, own.clone()))
        })
    }

    /// Releases memory at once if no other process holds its first byte, or otherwise later.
    fn release_or_retain(&mut self, device: usize, offset: u64, size: u64) {
        if self.stores.is_held(device, offset) {
            self.stores.keep_retained(RetainedMemory { device, offset, size, name: None });
        } else {
            self.return_memory(device, offset, size);
        }
    }

    /// Takes retained memory into use again, because this process imported it.
    fn forget_retained(&mut self, device: usize, offset: u64) {
        self.stores.retained.retain(|retained| (retained.device, retained.offset) != (device, offset));
    }

    /// Gives memory back to a device, so that it is free again.
    pub(super) fn return_memory(&mut self, device: usize, offset: u64, size: u64) {
        self.stores.used[device] -= size;
        if let Some(job) = &self.stores.job {
            // If the write fails, other processes find less free memory than there is.
            let _ = job.set_used(self.visible[device], self.stores.used[device]);
        }
        if let Some(store) = &mut self.stores.files[device] {
            if size >= LARGE {
                store.backing.release_pages(offset, size);
            }
            store.holes.return_range(offset, size);
        }
    }

    /// Releases the retained memory that no other process has open.
    fn release_retained(&mut self) {
        for mut retained in std::mem::take(&mut self.stores.retained) {
            let mut is_open = self.is_open_elsewhere(&retained);
            if let Some(ExportName::Pointer { pool, slot }) = retained.name
                && !is_open
            {
                // After this, no process can import the memory, but a process may have imported it just
                // before.
                self.memory.pools.withdraw_pointer(pool, slot);
                retained.name = None;
                is_open = self.is_open_elsewhere(&retained);
            }
            if is_open {
                self.stores.keep_retained(retained);
                continue;
            }
            if let Some(ExportName::Handle(slot)) = retained.name {
                self.exports.recycle_slot(slot);
            }
            self.return_memory(retained.device, retained.offset, retained.size);
        }
    }

    fn is_open_elsewhere(&self, retained: &RetainedMemory) -> bool {
        if let Some(ExportName::Handle(slot)) = retained.name {
            return self.exports.is_held(slot);
        }
        self.stores.is_held(retained.device, retained.offset) || self.has_own_import(retained.device, retained.offset)
    }

    /// Returns true if this process imported its own memory. The locks of a process are not visible to the
    /// process itself, so they cannot tell.
    fn has_own_import(&self, device: usize, offset: u64) -> bool {
        let Some(store) = &self.stores.files[device] else { return false };
        self.memory.pools.has_own_imports() && self.memory.is_imported(&store.backing, offset)
    }

    /// Takes zeroed memory of a device for an allocation of `cuMemCreate` or for the table of a pool.
    pub(crate) fn create_block(&mut self, thing: ShareableKind, device: usize, size: u64) -> Answer<MemoryBlock> {
        let StorePosition { backing, offset } = self.take_aligned(device, size, GRANULARITY)?;
        backing.release_pages(offset, size);
        let part = MemoryPart { thing, device: self.visible[device], offset, size };
        Ok(MemoryBlock { backing, part, own: Some(device) })
    }

    /// Imports the memory for which a descriptor stands.
    pub(crate) fn import_block(&mut self, part: MemoryPart, file: Backing) -> Answer<MemoryBlock> {
        if let Some((device, backing)) = self.own_memory_of_file(&file) {
            let block = MemoryBlock { backing, part, own: Some(device) };
            if !self.is_block_used(&block) {
                self.forget_retained(device, part.offset);
            }
            return Ok(block);
        }
        let known = self.vmm.foreign.iter().find(|known| known.inode() == file.inode()).cloned();
        let backing = known.unwrap_or_else(|| {
            self.vmm.foreign.push(Arc::new(file));
            self.vmm.foreign[self.vmm.foreign.len() - 1].clone()
        });
        let block = MemoryBlock { backing, part, own: None };
        fail_if(!self.is_block_used(&block) && !block.backing.lock_shared(part.offset), Code::OPERATING_SYSTEM)?;
        Ok(block)
    }

    fn is_block_used(&self, block: &MemoryBlock) -> bool {
        self.vmm.handles.values().any(|handle| handle.keeps_alive(block))
            || self.memory.pools.table_blocks().any(|table| table.is_same_part(block))
    }

    /// Releases a block if no handle and no pool uses it.
    pub(crate) fn release_block(&mut self, block: MemoryBlock) {
        if self.is_block_used(&block) {
            return;
        }
        let MemoryPart { offset, size, .. } = block.part;
        match block.own {
            Some(device) => self.release_or_retain(device, offset, size),
            None => {
                block.backing.unlock(offset);
                drop(block);
                self.vmm.foreign.retain(|backing| Arc::strong_count(backing) > 1);
            }
        }
    }
}
