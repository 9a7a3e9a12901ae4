//! Copies memory that may not exist, in pieces.

use core::ops::Range;

/// The memory of a process.
pub trait Memory: Copy {
    /// Copies memory from an address. Returns the number of bytes that could be read.
    fn copy(self, address: usize, place: &mut [u8]) -> usize;
}

/// Copy of the piece that was read last.
pub struct Window<const N: usize, M> {
    start: usize,
    length: usize,
    copy: [u8; N],
    /// Addresses of this process that can be read in place.
    there: Range<usize>,
    memory: M,
}

impl<const N: usize, M: Memory> Window<N, M> {
    /// An empty one.
    pub fn new(memory: M) -> Self {
        Window { start: 0, length: 0, copy: [0; N], there: 0..0, memory }
    }

    /// Creates a window that reads some memory of this process in place.
    ///
    /// # Safety
    ///
    /// That memory is readable for as long as the window is used, and contains no value that Rust knows of.
    pub unsafe fn beside(memory: M, there: Range<usize>) -> Self {
        Window { there, ..Window::new(memory) }
    }

    /// Returns the memory that the window reads.
    pub fn memory(&self) -> M {
        self.memory
    }

    /// The bytes at an address, at most `N`.
    #[inline]
    pub fn bytes(&mut self, address: usize, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length)?;
        if address >= self.there.start && end <= self.there.end {
            // SAFETY: whoever named that memory has promised that it is readable.
            return Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) });
        }
        if !self.holds(address, length) {
            self.fill(address);
            if !self.holds(address, length) {
                return None;
            }
        }
        self.copy.get(address - self.start..)?.get(..length)
    }

    #[inline]
    fn holds(&self, address: usize, length: usize) -> bool {
        let end = address.wrapping_sub(self.start).checked_add(length);
        address >= self.start && end.is_some_and(|end| end <= self.length)
    }

    /// Copies memory from an address.
    #[cold]
    #[inline(never)]
    pub fn fill(&mut self, address: usize) {
        (self.start, self.length) = (address, self.memory.copy(address, &mut self.copy));
    }

    /// Returns some words at an address.
    pub fn words<const COUNT: usize>(&mut self, address: usize) -> Option<[usize; COUNT]> {
        let bytes = self.bytes(address, 8 * COUNT)?.as_chunks().0;
        let mut words = [0; COUNT];
        words.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = usize::from_le_bytes(*bytes));
        Some(words)
    }
}

/// Bytes of a table that are read at once.
pub const PIECE: usize = 512;

/// Reads on from an address, up to an end.
pub struct Cursor<'a, M> {
    bytes: &'a mut Window<PIECE, M>,
    /// The next byte.
    pub at: usize,
    /// The end.
    pub end: usize,
}

impl<'a, M: Memory> Cursor<'a, M> {
    /// Returns a reader of `length` bytes from an address.
    pub fn new(bytes: &'a mut Window<PIECE, M>, at: usize, length: usize) -> Option<Self> {
        Some(Cursor { bytes, at, end: at.checked_add(length)? })
    }

    /// The next bytes.
    pub fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let next = self.at.checked_add(COUNT).filter(|next| *next <= self.end)?;
        let array = *self.bytes.bytes(self.at, COUNT)?.first_chunk()?;
        self.at = next;
        Some(array)
    }

    /// The next number.
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// The next number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Skips some bytes.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|next| *next <= self.end)?;
        Some(())
    }

    /// A number in groups of seven bits, and how many bits that were.
    fn leb(&mut self) -> Option<(u64, u32, bool)> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                return Some((value, shift, byte & 0x40 != 0));
            }
        }
    }

    /// The next number in groups of seven bits.
    pub fn unsigned(&mut self) -> Option<u64> {
        self.leb().map(|(value, ..)| value)
    }

    /// The next number in groups of seven bits.
    pub fn signed(&mut self) -> Option<i64> {
        let (value, bits, is_negative) = self.leb()?;
        let sign = if is_negative { u64::MAX.checked_shl(bits).unwrap_or(0) } else { 0 };
        Some((value | sign) as i64)
    }

    /// Reads a pointer in one of the encodings of .eh_frame. `data` is the base of data-relative pointers.
    pub fn pointer(&mut self, encoding: u8, data: usize) -> Option<usize> {
        const SIGNED_2: u8 = 0x0a;
        const SIGNED_4: u8 = 0x0b;
        let base = match encoding & 0x70 {
            0x00 => 0,
            0x10 => self.at,
            0x30 => data,
            _ => return None,
        };
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64()? as usize,
            0x01 => self.unsigned()? as usize,
            0x02 => usize::from(self.u16()?),
            0x03 => self.u32()? as usize,
            0x09 => self.signed()? as usize,
            SIGNED_2 => self.u16()? as i16 as usize,
            SIGNED_4 => self.u32()? as i32 as usize,
            _ => return None,
        };
        Some(base.wrapping_add(value))
    }
}
