//! Taking memory of devices, and giving it back.
//!
//! What several handles and tables of shared pools mean in a process, a block, is there once, and given back with the last
//! of them. Own memory for which there are descriptors, or which other processes have imported, stays where it is until
//! they are gone.

use super::answer::{Answer, fail};
use super::backing::Backing;
use super::channel::MEMORY_NAME;
use super::driver::{Block, Driver, Ghost, Name, Store, Stored, padded};
use super::holes::Holes;
use super::space::{GRANULE, LARGE};
use super::tickets::{GRANULARITY, Thing, Ticket};
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// The file of a device's memory is so many times as long as the device has memory, and at most so long.
const PIECES: u64 = 8;
const MOST_LENGTH: u64 = 16 << 40;

impl Driver {
    /// The bytes that are free on a device, and those that it has.
    pub(crate) fn memory_info(&mut self, device: usize) -> (u64, u64) {
        self.lay_ghosts();
        let total = self.device(device).memory;
        let others = self.stores.room.as_ref().map_or(0, |room| room.used_by_others(self.visible[device]));
        (total.saturating_sub(self.stores.used[device].saturating_add(others)), total)
    }

    /// Takes memory of a device: where it lies, and how much it is.
    pub(super) fn take_store(&mut self, device: usize, size: u64) -> Answer<(Stored, u64)> {
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        let align = if taken < LARGE { GRANULE } else { 4096 };
        Ok((self.take_aligned(device, taken, align)?, taken))
    }

    /// The same of just this size, at a multiple of something.
    fn take_aligned(&mut self, device: usize, size: u64, align: u64) -> Answer<Stored> {
        self.lay_ghosts();
        let total = self.device(device).memory;
        let store = match &mut self.stores.files[device] {
            Some(store) => store,
            none => {
                // Memory of a device has pages: what is free need not be in one piece.
                let length = total.saturating_mul(PIECES).min(MOST_LENGTH).min(file_size_limit());
                let backing = Backing::create(MEMORY_NAME, length).ok_or(Code::OUT_OF_MEMORY)?;
                none.insert(Store { backing: Arc::new(backing), holes: Holes::of(0, length) })
            }
        };
        let used = self.stores.used[device];
        if used.checked_add(size).is_none_or(|all| all > total) {
            return fail(Code::OUT_OF_MEMORY);
        }
        let offset = store.holes.take(size, align).ok_or(Code::OUT_OF_MEMORY)?;
        if let Some(room) = &self.stores.room
            && let Err(failure) = room.take(self.visible[device], used, size, total)
        {
            store.holes.give(offset, size);
            return Err(failure);
        }
        self.stores.used[device] += size;
        Ok(Stored { backing: store.backing.clone(), offset })
    }

    /// The ordinal of the device whose memory a file is, where it is this process's own.
    fn own_memory(&self, file: &Backing) -> Option<(usize, Arc<Backing>)> {
        self.stores.files.iter().enumerate().find_map(|(device, store)| {
            let own = &store.as_ref()?.backing;
            (own.inode() == file.inode()).then(|| (device, own.clone()))
        })
    }

    /// Gives memory back whose first byte others may hold: once nobody does.
    fn retire(&mut self, device: usize, offset: u64, size: u64) {
        if self.stores.is_held(device, offset) {
            self.stores.keep(Ghost { device, offset, size, name: None });
        } else {
            self.give_store(device, offset, size);
        }
    }

    /// Takes memory again that was given back and is held.
    fn revive(&mut self, device: usize, offset: u64) {
        self.stores.ghosts.retain(|ghost| (ghost.device, ghost.offset) != (device, offset));
    }

    /// Gives memory of a device back.
    pub(super) fn give_store(&mut self, device: usize, offset: u64, size: u64) {
        self.stores.used[device] -= size;
        if let Some(room) = &self.stores.room {
            // Where the file cannot be written, the others find less room than there is.
            let _ = room.note(self.visible[device], self.stores.used[device]);
        }
        if let Some(store) = &mut self.stores.files[device] {
            if size >= LARGE {
                store.backing.punch(offset, size);
            }
            store.holes.give(offset, size);
        }
    }

    /// Gives back what was freed here and is no longer open elsewhere.
    fn lay_ghosts(&mut self) {
        for mut ghost in std::mem::take(&mut self.stores.ghosts) {
            let mut is_open = self.is_open(&ghost);
            if let Some(Name::Pointer { pool, slot }) = ghost.name
                && !is_open
            {
                // Nobody can import it any more, but somebody may have done so just now.
                self.memory.pools.withdraw(pool, slot);
                ghost.name = None;
                is_open = self.is_open(&ghost);
            }
            if is_open {
                self.stores.keep(ghost);
                continue;
            }
            if let Some(Name::Handle(slot)) = ghost.name {
                self.exports.recycle(slot);
            }
            self.give_store(ghost.device, ghost.offset, ghost.size);
        }
    }

    fn is_open(&self, ghost: &Ghost) -> bool {
        if let Some(Name::Handle(slot)) = ghost.name {
            return self.exports.is_held(slot);
        }
        self.stores.is_held(ghost.device, ghost.offset) || self.has_own_import(ghost.device, ghost.offset)
    }

    /// Whether this process has imported its own memory: what it holds itself, no lock tells it.
    fn has_own_import(&self, device: usize, offset: u64) -> bool {
        let Some(store) = &self.stores.files[device] else { return false };
        self.memory.pools.has_own_imports() && self.memory.is_imported(&store.backing, offset)
    }

    /// New memory, zeroed.
    pub(crate) fn create_block(&mut self, thing: Thing, device: usize, size: u64) -> Answer<Block> {
        let Stored { backing, offset } = self.take_aligned(device, size, GRANULARITY)?;
        backing.punch(offset, size);
        let ticket = Ticket { thing, device: self.visible[device], offset, size };
        Ok(Block { backing, ticket, own: Some(device) })
    }

    /// The memory that a descriptor means, as its file.
    pub(crate) fn import_block(&mut self, ticket: Ticket, file: Backing) -> Answer<Block> {
        if let Some((device, backing)) = self.own_memory(&file) {
            let block = Block { backing, ticket, own: Some(device) };
            if !self.has_block(&block) {
                self.revive(device, ticket.offset);
            }
            return Ok(block);
        }
        let known = self.vmm.foreign.iter().find(|known| known.inode() == file.inode()).cloned();
        let backing = known.unwrap_or_else(|| {
            self.vmm.foreign.push(Arc::new(file));
            self.vmm.foreign[self.vmm.foreign.len() - 1].clone()
        });
        let block = Block { backing, ticket, own: None };
        if !self.has_block(&block) && !block.backing.hold(ticket.offset) {
            return Err(Code::OPERATING_SYSTEM.into());
        }
        Ok(block)
    }

    fn has_block(&self, block: &Block) -> bool {
        self.vmm.handles.values().any(|handle| handle.keeps(block))
            || self.memory.pools.tables().any(|table| table.is(block))
    }

    /// Gives memory back, once no handle and no pool means it.
    pub(crate) fn drop_block(&mut self, block: Block) {
        if self.has_block(&block) {
            return;
        }
        let Ticket { offset, size, .. } = block.ticket;
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

/// How long a file may be: a process that exceeds it is killed, so that nobody may try.
fn file_size_limit() -> u64 {
    // SAFETY: all-zero is a value of this plain structure.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` is a structure of the kind that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur / GRANULE * GRANULE
}
