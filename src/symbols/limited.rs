//! An ELF file of which only a limited amount is read, because its headers can claim any size, including one that a
//! sparse file has without using the disk.

use object::read::{ReadCache, ReadRef};
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

/// Largest number of bytes of headers, notes, and links to other files that are read.
pub const MOST_OF_HEADERS: u64 = 16 << 20;

/// Largest number of bytes of a symbol table that are read: ten million symbols.
pub const MOST_OF_SYMBOLS: u64 = 256 << 20;

/// File of which only a number of bytes can be read. Reading beyond the limit is an error.
pub struct Limited {
    data: ReadCache<File>,
    left: Cell<u64>,
}

impl Limited {
    /// With so many bytes to read.
    pub fn new(file: File, most: u64) -> Limited {
        Limited { data: ReadCache::new(file), left: Cell::new(most) }
    }

    /// Takes bytes that are about to be read from those that may be.
    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Limited {
    fn len(self) -> Result<u64, ()> {
        (&self.data).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // Before there is memory for it.
        self.take(size)?;
        (&self.data).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let bytes = (&self.data).read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}
