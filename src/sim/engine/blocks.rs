//! The memory behind handles, and behind the tables of shared pools: a part of the file of a device's memory, this process's or another's.
//!
//! What several of them mean in a process is there once, and given back with the last of them. Own memory
//! for which there are descriptors, or which other processes have imported, stays where it is until they are
//! gone.

use super::answer::Answer;
use super::backing::Backing;
use super::driver::{Block, Driver, Stored};
use super::tickets::{GRANULARITY, Thing, Ticket};
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

impl Driver {
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
