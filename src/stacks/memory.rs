//! Copies memory that may not exist, one piece at a time.

use core::ops::Range;

/// A source of the memory of one process.
pub trait Memory: Copy {
    /// Copies memory from an address into `buffer`. Returns the number of bytes that could be read.
    fn copy(self, address: usize, buffer: &mut [u8]) -> usize;
}

/// A copy of the last piece of memory that was read, so that reads near it need no other copy.
pub struct MemoryWindow<const N: usize, M> {
    start: usize,
    length: usize,
    copy: [u8; N],
    /// Address range in the calling process that is read in place, without a copy.
    there: Range<usize>,
    memory: M,
}

impl<const N: usize, M: Memory> MemoryWindow<N, M> {
    /// Creates an empty window for this memory.
    pub fn new(memory: M) -> Self {
        MemoryWindow { start: 0, length: 0, copy: [0; N], there: 0..0, memory }
    }

    /// Creates a window that reads the addresses `there` in the calling process in place.
    ///
    /// # Safety
    ///
    /// That memory is readable for as long as the window is used, and contains no value that Rust knows of.
    pub unsafe fn with_readable_range(memory: M, there: Range<usize>) -> Self {
        MemoryWindow { there, ..MemoryWindow::new(memory) }
    }

    /// Returns the memory that the window reads.
    pub fn memory(&self) -> M {
        self.memory
    }

    /// Returns `length` bytes at an address, at most `N`. Returns `None` if they cannot be read.
    #[inline]
    pub fn read_bytes(&mut self, address: usize, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length)?;
        if address >= self.there.start && end <= self.there.end {
            // SAFETY: whoever named that memory has promised that it is readable.
            return Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) });
        }
        if !self.is_cached(address, length) {
            self.load_at(address);
            if !self.is_cached(address, length) {
                return None;
            }
        }
        self.copy.get(address - self.start..)?.get(..length)
    }

    #[inline]
    fn is_cached(&self, address: usize, length: usize) -> bool {
        let end = address.wrapping_sub(self.start).checked_add(length);
        address >= self.start && end.is_some_and(|end| end <= self.length)
    }

    /// Copies the piece of memory at an address into the window.
    #[cold]
    #[inline(never)]
    pub fn load_at(&mut self, address: usize) {
        (self.start, self.length) = (address, self.memory.copy(address, &mut self.copy));
    }

    /// Returns consecutive words at an address. Returns `None` if they cannot be read.
    pub fn read_words<const COUNT: usize>(&mut self, address: usize) -> Option<[usize; COUNT]> {
        let bytes = self.read_bytes(address, 8 * COUNT)?.as_chunks().0;
        let mut words = [0; COUNT];
        words.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = usize::from_le_bytes(*bytes));
        Some(words)
    }
}
