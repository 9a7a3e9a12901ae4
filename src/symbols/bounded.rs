//! Sections of a file, read up to a limit.
//!
//! Debugging information can refer to the same data any number of times, nest without end, and have any
//! number of units at one address: a file of a megabyte can describe a terabyte of lines. [`Limits`] limits
//! the bytes that are read, and with them time, memory, and stack.

use super::mapped::Bytes;
use gimli::{EndianReader, Error, LittleEndian, Reader as _, ReaderOffsetId, Result, SectionId};
use std::borrow::Cow;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of times that all of a file may be read: once for its units, once for their functions, once for the functions
/// that are inlined in these, and once more.
const READINGS: u64 = 4;
/// Bytes that may be read beyond that, for small files.
const MORE: u64 = 16 << 20;
/// Bytes that each address adds: its names.
const PER_ADDRESS: u64 = 16 << 10;
/// The most stack that functions that are inlined in one another take.
const MOST_STACK: usize = 512 << 10;
/// The longest line program of a unit, and its longest header. A byte of the program takes 24 bytes of
/// memory, one of the header hundreds.
const LONGEST_PROGRAM: usize = 64 << 20;
const LONGEST_HEADER: usize = 16 << 20;

/// Bytes of a file that may still be read, and the stack that may be used.
#[derive(Debug)]
pub struct Limits {
    most: u64,
    left: AtomicU64,
    /// The address of the stack at which a lookup began; 0 before the first one.
    stack: AtomicUsize,
}

impl Limits {
    /// Returns the limits of a file with so many bytes of debugging information.
    pub fn of(bytes: u64) -> Arc<Limits> {
        let most = bytes.saturating_mul(READINGS).saturating_add(MORE);
        Arc::new(Limits { most, left: AtomicU64::new(most), stack: AtomicUsize::new(0) })
    }

    /// Begins to look up an address.
    pub fn begin(&self) {
        let here = 0_u8;
        self.stack.store(ptr::from_ref(&here).addr(), Relaxed);
        let left = self.left.load(Relaxed).saturating_add(PER_ADDRESS);
        self.left.store(left.min(self.most), Relaxed);
    }

    /// Counts bytes before they are read, against the limit. Threads that count at the same time may lose
    /// some.
    fn take(&self, bytes: usize, at: ReaderOffsetId) -> Result<()> {
        let depth = self.stack.load(Relaxed).saturating_sub(ptr::from_ref(&bytes).addr());
        let left = self.left.load(Relaxed).checked_sub(bytes as u64 + 1);
        self.left.store(left.unwrap_or(0), Relaxed);
        let is_allowed = left.is_some() && depth <= MOST_STACK;
        if is_allowed { Ok(()) } else { Err(Error::UnexpectedEof(at)) }
    }
}

/// A section, or a part of it.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: EndianReader<LittleEndian, Bytes>,
    limits: Arc<Limits>,
    is_lines: bool,
}

impl Reader {
    /// Returns a reader of the bytes in a range that the file has.
    pub fn new(id: SectionId, bytes: Bytes, range: Range<usize>, limits: &Arc<Limits>) -> Reader {
        let bytes = EndianReader::new(bytes, LittleEndian).range(range);
        Reader { bytes, limits: limits.clone(), is_lines: id == SectionId::DebugLine }
    }

    fn take(&self, bytes: usize) -> Result<()> {
        self.limits.take(bytes, self.offset_id())
    }
}

impl gimli::Reader for Reader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        self.bytes.endian()
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn empty(&mut self) {
        self.bytes.empty();
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        if self.is_lines && length > LONGEST_HEADER {
            return Err(Error::UnexpectedEof(self.offset_id()));
        }
        self.bytes.truncate(length)
    }

    fn offset_from(&self, base: &Reader) -> usize {
        self.bytes.offset_from(&base.bytes)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = self.bytes.find(byte)?;
        self.take(found)?;
        Ok(found)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.take(0)?;
        self.bytes.skip(length)
    }

    fn split(&mut self, length: usize) -> Result<Reader> {
        if self.is_lines && length > LONGEST_PROGRAM {
            return Err(Error::UnexpectedEof(self.offset_id()));
        }
        self.take(0)?;
        Ok(Reader { bytes: self.bytes.split(length)?, ..self.clone() })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.take(self.len())?;
        self.bytes.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.take(self.len())?;
        self.bytes.to_string()
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.take(self.len())?;
        self.bytes.to_string_lossy()
    }

    fn read_slice(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.take(bytes.len())?;
        self.bytes.read_slice(bytes)
    }
}
