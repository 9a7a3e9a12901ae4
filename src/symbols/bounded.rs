//! Sections of a file, read up to a limit.
//!
//! Debugging information can refer to the same data any number of times, nest without end, and have any
//! number of units at one address: a file of a megabyte can describe a terabyte of lines. [`ReadLimits`] limits the
//! bytes that are read, and with them time, memory, and stack.

use super::mapped::Bytes;
use gimli::{EndianReader, Error, LittleEndian, Reader as _, ReaderOffsetId, Result, SectionId};
use std::borrow::Cow;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of times that all of a file's debugging information may be read: once for its units, once for their
/// functions, once for the functions that are inlined in these, and one time in reserve.
const READINGS: u64 = 4;
/// Number of bytes that may be read in addition, so that small files have enough.
const MORE: u64 = 16 << 20;
/// Number of bytes that may be read in addition for each looked-up address: the names of its functions.
const PER_ADDRESS: u64 = 16 << 10;
/// Largest number of bytes of stack for the recursion over functions that are inlined in one another.
const MOST_STACK: usize = 512 << 10;
/// Size in bytes of the longest line program of a unit. Each byte takes 24 bytes of memory.
const LONGEST_PROGRAM: usize = 64 << 20;
/// Size in bytes of the longest header of a line program. Each byte takes hundreds of bytes of memory.
const LONGEST_HEADER: usize = 16 << 20;

/// Limits on one file: the bytes that may still be read, and the stack that may be used.
#[derive(Debug)]
pub struct ReadLimits {
    most: u64,
    left: AtomicU64,
    /// The address of the stack at which a lookup began; 0 before the first one.
    stack: AtomicUsize,
}

impl ReadLimits {
    /// Returns the limits of a file with so many bytes of debugging information.
    pub fn for_size(bytes: u64) -> Arc<ReadLimits> {
        let most = bytes.saturating_mul(READINGS).saturating_add(MORE);
        Arc::new(ReadLimits { most, left: AtomicU64::new(most), stack: AtomicUsize::new(0) })
    }

    /// Stores the address of the stack at the begin of a lookup, and adds the bytes that the lookup may read.
    pub fn begin_lookup(&self) {
        let here = 0_u8;
        self.stack.store(ptr::from_ref(&here).addr(), Relaxed);
        let left = self.left.load(Relaxed).saturating_add(PER_ADDRESS);
        self.left.store(left.min(self.most), Relaxed);
    }

    /// Subtracts bytes from the limit before they are read. If several threads subtract at the same time,
    /// some bytes may not be counted.
    fn charge(&self, bytes: usize, at: ReaderOffsetId) -> Result<()> {
        let depth = self.stack.load(Relaxed).saturating_sub(ptr::from_ref(&bytes).addr());
        let left = self.left.load(Relaxed).checked_sub(bytes as u64 + 1);
        self.left.store(left.unwrap_or(0), Relaxed);
        let is_allowed = left.is_some() && depth <= MOST_STACK;
        if is_allowed { Ok(()) } else { Err(Error::UnexpectedEof(at)) }
    }
}

/// Reader of a section, or of a part of it, that observes the limits.
#[derive(Clone, Debug)]
pub struct LimitedReader {
    bytes: EndianReader<LittleEndian, Bytes>,
    limits: Arc<ReadLimits>,
    is_lines: bool,
}

impl LimitedReader {
    /// Returns a reader of the bytes in a range that the file has.
    pub fn new(id: SectionId, bytes: Bytes, range: Range<usize>, limits: &Arc<ReadLimits>) -> LimitedReader {
        let bytes = EndianReader::new(bytes, LittleEndian).range(range);
        LimitedReader { bytes, limits: limits.clone(), is_lines: id == SectionId::DebugLine }
    }

    fn charge(&self, bytes: usize) -> Result<()> {
        self.limits.charge(bytes, self.offset_id())
    }
}

impl gimli::Reader for LimitedReader {
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

    fn offset_from(&self, base: &LimitedReader) -> usize {
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
        self.charge(found)?;
        Ok(found)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.charge(0)?;
        self.bytes.skip(length)
    }

    fn split(&mut self, length: usize) -> Result<LimitedReader> {
        if self.is_lines && length > LONGEST_PROGRAM {
            return Err(Error::UnexpectedEof(self.offset_id()));
        }
        self.charge(0)?;
        Ok(LimitedReader { bytes: self.bytes.split(length)?, ..self.clone() })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.charge(self.len())?;
        self.bytes.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.charge(self.len())?;
        self.bytes.to_string()
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.charge(self.len())?;
        self.bytes.to_string_lossy()
    }

    fn read_slice(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.charge(bytes.len())?;
        self.bytes.read_slice(bytes)
    }
}
