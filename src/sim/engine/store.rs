//! Takes and releases memory of devices.
//!
//! Several handles and tables of shared pools of a process can use one block, which is released with the last of them. Memory
//! of this process with open descriptors, or with imports in other processes, stays until they are closed.

use super::answer::{Answer, fail_if};
use super::backing::Backing;
use super::channel::MEMORY_NAME;
use super::descriptors::{GRANULARITY, MemoryPart, Shareable};
use super::driver::{Block, Driver, Name, Retained, Store, Stored, padded};
use super::holes::Holes;
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

    /// Takes memory of a device. Returns its place, and the number of bytes that were taken.
    pub(super) fn take_store(&mut self, device: usize, size: u64) -> Answer<(Stored, u64)> {
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        let align = if taken < LARGE { GRANULE } else { 4096 };
        Ok((self.take_aligned(device, taken, align)?, taken))
    }

    /// Takes exactly `size` bytes of a device, at an offset with this alignment.
    fn take_aligned(&mut self, device: usize, size: u64, align: u64) -> Answer<Stored> {
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
                none.insert(Store { backing: Arc::new(backing), holes: Holes::of(0, length) })
            }
        };
        let used = self.stores.used[device];
        fail_if(used.checked_add(size).is_none_or(|all| all > total), Code::OUT_OF_MEMORY)?;
        let offset = store.holes.take(size, align).ok_or(Code::OUT_OF_MEMORY)?;
        if let Some(job) = &self.stores.job
            && let Err(failure) = job.take(self.visible[device], used, size, total)
        {
            store.holes.give(offset, size);
            return Err(failure);
        }
        self.stores.used[device] += size;
        Ok(Stored { backing: store.backing.clone(), offset })
    }

    /// Returns the ordinal and the file of the device whose memory is in a file; `None` if the file is
    /// another process's.
    fn own_memory(&self, file: &Backing) -> Option<(usize, Arc<Backing>)> {
        self.stores.files.iter().enumerate().find_map(|(device, store)| {
            let own = &store.as_ref()?.backing;
            (own.inode() == file.inode()).then(|| (device, own.clone()))
        })
    }

    /// Releases memory at once if no other process holds its first byte, or otherwise later.
    fn retire(&mut self, device: usize, offset: u64, size: u64) {
        if self.stores.is_held(device, offset) {
            self.stores.keep(Retained { device, offset, size, name: None });
        } else {
            self.give_store(device, offset, size);
        }
    }

    /// Takes retained memory into use again, because this process imported it.
    fn revive(&mut self, device: usize, offset: u64) {
        self.stores.retained.retain(|retained| (retained.device, retained.offset) != (device, offset));
    }

    /// Returns memory to a device.
    pub(super) fn give_store(&mut self, device: usize, offset: u64, size: u64) {
        self.stores.used[device] -= size;
        if let Some(job) = &self.stores.job {
            // If the write fails, other processes find less free memory than there is.
            let _ = job.set_used(self.visible[device], self.stores.used[device]);
        }
        if let Some(store) = &mut self.stores.files[device] {
            if size >= LARGE {
                store.backing.punch(offset, size);
            }
            store.holes.give(offset, size);
        }
    }

    /// Releases the retained memory that no other process has open.
    fn release_retained(&mut self) {
        for mut retained in std::mem::take(&mut self.stores.retained) {
            let mut is_open = self.is_open(&retained);
            if let Some(Name::Pointer { pool, slot }) = retained.name
                && !is_open
            {
                // After this, no process can import the memory, but a process may have imported it just
                // before.
                self.memory.pools.withdraw(pool, slot);
                retained.name = None;
                is_open = self.is_open(&retained);
            }
            if is_open {
                self.stores.keep(retained);
                continue;
            }
            if let Some(Name::Handle(slot)) = retained.name {
                self.exports.recycle(slot);
            }
            self.give_store(retained.device, retained.offset, retained.size);
        }
    }

    fn is_open(&self, retained: &Retained) -> bool {
        if let Some(Name::Handle(slot)) = retained.name {
            return self.exports.is_held(slot);
        }
        self.stores.is_held(retained.device, retained.offset)
            || self.has_own_import(retained.device, retained.offset)
    }

    /// Returns true if this process imported its own memory. The locks of a process are not visible to the
    /// process itself, so they cannot tell.
    fn has_own_import(&self, device: usize, offset: u64) -> bool {
        let Some(store) = &self.stores.files[device] else { return false };
        self.memory.pools.has_own_imports() && self.memory.is_imported(&store.backing, offset)
    }

    /// Takes zeroed memory of a device for an allocation of `cuMemCreate` or for the table of a pool.
    pub(crate) fn create_block(&mut self, thing: Shareable, device: usize, size: u64) -> Answer<Block> {
        let Stored { backing, offset } = self.take_aligned(device, size, GRANULARITY)?;
        backing.punch(offset, size);
        let part = MemoryPart { thing, device: self.visible[device], offset, size };
        Ok(Block { backing, part, own: Some(device) })
    }

    /// Imports the memory for which a descriptor stands.
    pub(crate) fn import_block(&mut self, part: MemoryPart, file: Backing) -> Answer<Block> {
        if let Some((device, backing)) = self.own_memory(&file) {
            let block = Block { backing, part, own: Some(device) };
            if !self.has_block(&block) {
                self.revive(device, part.offset);
            }
            return Ok(block);
        }
        let known = self.vmm.foreign.iter().find(|known| known.inode() == file.inode()).cloned();
        let backing = known.unwrap_or_else(|| {
            self.vmm.foreign.push(Arc::new(file));
            self.vmm.foreign[self.vmm.foreign.len() - 1].clone()
        });
        let block = Block { backing, part, own: None };
        fail_if(!self.has_block(&block) && !block.backing.hold(part.offset), Code::OPERATING_SYSTEM)?;
        Ok(block)
    }

    fn has_block(&self, block: &Block) -> bool {
        self.vmm.handles.values().any(|handle| handle.keeps(block))
            || self.memory.pools.tables().any(|table| table.is(block))
    }

    /// Releases a block if no handle and no pool uses it.
    pub(crate) fn drop_block(&mut self, block: Block) {
        if self.has_block(&block) {
            return;
        }
        let MemoryPart { offset, size, .. } = block.part;
        match block.own {
            Some(device) => self.retire(device, offset, size),
            None => {
                block.backing.let_go(offset);
                drop(block);
                self.vmm.foreign.retain(|backing| Arc::strong_count(backing) > 1);
            }
        }
    }
}
