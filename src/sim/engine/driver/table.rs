//! The table of a shared pool: the allocations that are exported.
//!
//! It is in the device's memory, at the place that the pool's descriptors stand for, so a descriptor suffices to import. The
//! exporter writes it. An importer holds the first byte of an allocation, and then reads its entry. The exporter that reuses
//! freed memory removes the entry first, and then checks if another process holds the byte. So either the importer finds the
//! entry gone, or the exporter finds the memory in use and keeps it.

use super::super::answer::Answer;
use super::super::descriptors::GRANULARITY;
use super::stores::MemoryBlock;
use cupeer_spec::results::Result as Code;

/// The 64-bit words of an entry in the file.
type Words = [u64; 4];
/// Number of bytes of an entry in the file.
const ENTRY: u64 = size_of::<Words>() as u64;
/// Number of entries: the most exported pointers of a pool at a time.
const MOST: u16 = u16::MAX;
const _: () = assert!(MOST as u64 * ENTRY <= GRANULARITY);

/// An entry of the table: an exported pointer of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PointerEntry {
    /// Number that the export data of this pointer contains; 0 if the entry is free.
    pub token: u64,
    /// Offset of the allocation in the file with the device's memory.
    pub offset: u64,
    /// Size of the allocation in bytes.
    pub size: u64,
}

/// The table of exported pointers of a pool, of this process or imported.
#[derive(Debug)]
pub(crate) struct PointerTable {
    pub block: MemoryBlock,
    /// Slots of withdrawn entries, which can be used again.
    free: Vec<u16>,
    /// The lowest slot that was never used.
    fresh: u16,
}

impl PointerTable {
    pub(crate) fn new(block: MemoryBlock) -> PointerTable {
        PointerTable { block, free: Vec::new(), fresh: 0 }
    }

    /// Adds an entry. Returns its slot.
    pub(crate) fn add(&mut self, entry: PointerEntry) -> Answer<u16> {
        let (slot, is_fresh) = match self.free.pop() {
            Some(slot) => (slot, 0),
            None if self.fresh < MOST => (self.fresh, 1),
            None => return Err(Code::OUT_OF_MEMORY.into()),
        };
        self.write(slot, entry)?;
        self.fresh += is_fresh;
        Ok(slot)
    }

    /// Withdraws the entry in a slot.
    pub(crate) fn withdraw(&mut self, slot: u16) {
        // If the write fails, the program closed the file, so no process can read the entry.
        if self.write(slot, PointerEntry { token: 0, offset: 0, size: 0 }).is_ok() {
            self.free.push(slot);
        }
    }

    /// Reads the entry in a slot.
    pub(crate) fn read(&self, slot: u16) -> Answer<PointerEntry> {
        self.block.backing.check_still_open()?;
        let [token, offset, size, _]: Words = self.block.backing.read_words(self.entry_offset(slot))?;
        Ok(PointerEntry { token, offset, size })
    }

    fn write(&self, slot: u16, entry: PointerEntry) -> Answer {
        self.block.backing.check_still_open()?;
        self.block.backing.write_words(self.entry_offset(slot), &[entry.token, entry.offset, entry.size, 0])
    }

    fn entry_offset(&self, slot: u16) -> u64 {
        self.block.part.offset + u64::from(slot) * ENTRY
    }
}
