//! The table of a shared pool: what of its memory is exported.
//!
//! It lies in the device's memory, where the pool's descriptors point, so that who has a descriptor needs nothing else.
//! The exporter writes it. An importer holds the first byte of an allocation and then reads its entry; the exporter that
//! wants the memory of what it has freed takes the entry out first and then asks whether anybody holds the byte. So
//! either the importer finds it gone, or the exporter finds it in use and leaves its memory alone.

use super::super::answer::Answer;
use super::super::tickets::GRANULARITY;
use super::stores::Block;
use cupeer_spec::results::Result as Code;

/// What an entry is in the file.
type Words = [u64; 4];
const ENTRY: u64 = size_of::<Words>() as u64;
/// How many pointers can be exported at a time.
const MOST: u16 = u16::MAX;
const _: () = assert!(MOST as u64 * ENTRY <= GRANULARITY);

/// An allocation of a pool that is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// What its export data has to carry: 0 where nothing is exported.
    pub token: u64,
    /// Where it lies in the file, and how long it is.
    pub offset: u64,
    pub size: u64,
}

/// A table: of an own pool, or of another process's.
#[derive(Debug)]
pub(crate) struct Table {
    pub block: Block,
    /// Entries that were used and are free again.
    free: Vec<u16>,
    /// The first entry that was never used.
    fresh: u16,
}

impl Table {
    pub(crate) fn new(block: Block) -> Table {
        Table { block, free: Vec::new(), fresh: 0 }
    }

    /// Adds an entry: its place.
    pub(crate) fn add(&mut self, entry: Entry) -> Answer<u16> {
        let (slot, is_fresh) = match self.free.pop() {
            Some(slot) => (slot, 0),
            None if self.fresh < MOST => (self.fresh, 1),
            None => return Err(Code::OUT_OF_MEMORY.into()),
        };
        self.write(slot, entry)?;
        self.fresh += is_fresh;
        Ok(slot)
    }

    /// Takes one out.
    pub(crate) fn take(&mut self, slot: u16) {
        // Where that cannot be written, nobody can read it either: the program has closed the file.
        if self.write(slot, Entry { token: 0, offset: 0, size: 0 }).is_ok() {
            self.free.push(slot);
        }
    }

    /// Reads an entry.
    pub(crate) fn read(&self, slot: u16) -> Answer<Entry> {
        let (file, mut words) = (&self.block.backing, Words::default());
        file.check()?;
        file.fill_words(self.place(slot), &mut words)?;
        let [token, offset, size, _] = words;
        Ok(Entry { token, offset, size })
    }

    fn write(&self, slot: u16, entry: Entry) -> Answer {
        let (file, words) = (&self.block.backing, [entry.token, entry.offset, entry.size, 0]);
        file.check()?;
        file.write(self.place(slot), words.as_ptr() as u64, ENTRY)
    }

    fn place(&self, slot: u16) -> u64 {
        self.block.ticket.offset + u64::from(slot) * ENTRY
    }
}
