//! Lets `gimli` read unwind tables from memory that may not exist.

use crate::memory::{Memory, MemoryWindow};
use core::cell::RefCell;
use core::fmt;
use gimli::{Error, LittleEndian, Reader, ReaderOffsetId, Result};

extern crate alloc;
use alloc::borrow::Cow;

/// Number of bytes of a table that are copied at once.
pub const PIECE: usize = 512;

/// A reader of a range of addresses. Offsets from the start of [`TableReader::over_all_memory`] are addresses.
#[derive(Clone)]
pub struct TableReader<'a, M> {
    bytes: &'a RefCell<MemoryWindow<PIECE, M>>,
    next: usize,
    end: usize,
}

impl<'a, M: Memory> TableReader<'a, M> {
    /// Returns a reader of all addresses.
    pub fn over_all_memory(bytes: &'a RefCell<MemoryWindow<PIECE, M>>) -> Self {
        TableReader { bytes, next: 0, end: usize::MAX }
    }

    fn unexpected_end<T>(&self) -> Result<T> {
        Err(Error::UnexpectedEof(self.offset_id()))
    }
}

impl<M> fmt::Debug for TableReader<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.next, self.end)
    }
}

impl<M: Memory> Reader for TableReader<'_, M> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.end - self.next
    }

    fn empty(&mut self) {
        self.end = self.next;
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        if length > self.len() {
            return self.unexpected_end();
        }
        self.end = self.next + length;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.next.wrapping_sub(base.next)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.next as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        (id.0 as usize).checked_sub(self.next)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut rest = self.clone();
        while rest.read_u8()? != byte {}
        Ok(rest.next - 1 - self.next)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        if length > self.len() {
            return self.unexpected_end();
        }
        self.next += length;
        Ok(())
    }

    fn split(&mut self, length: usize) -> Result<Self> {
        // No entry of a table is longer. A damaged length must not cause a long wait.
        const LONGEST: usize = 1 << 16;
        let mut first = self.clone();
        if length > LONGEST {
            return self.unexpected_end();
        }
        self.skip(length)?;
        first.end = self.next;
        Ok(first)
    }

    fn read_slice(&mut self, place: &mut [u8]) -> Result<()> {
        let start = self.next;
        self.skip(place.len())?;
        match self.bytes.borrow_mut().read_bytes(start, place.len()) {
            Some(bytes) => place.copy_from_slice(bytes),
            None => return self.unexpected_end(),
        }
        Ok(())
    }

    // Unwinding reads no texts and no slices, and must not allocate them.

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        Err(Error::Io)
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        Err(Error::Io)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Err(Error::Io)
    }
}
