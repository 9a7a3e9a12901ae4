//! The unwind information of an object: its sorted table of functions (.eh_frame_hdr), and the entries that it refers
//! to (.eh_frame). Only the part of the format that compilers and linkers for this processor emit is supported.

use super::row::{Function, Row};
use crate::memory::{Cursor, Memory, PIECE, Window};
use core::ops::Range;

/// Unwind tables of one object.
pub struct Tables<M> {
    /// Address of the sorted table.
    start: usize,
    /// Bytes of the tables that were read last.
    pub bytes: Window<PIECE, M>,
}

/// Pointer encoding of the sorted table: signed, 4 bytes, relative to the start of the table.
const SORTED: u8 = 0x3b;
const OMITTED: u8 = 0xff;

impl<M: Memory> Tables<M> {
    /// Creates the tables that begin at an address.
    pub fn at(start: usize, memory: M) -> Self {
        Tables { start, bytes: Window::new(memory) }
    }

    /// Returns the unwind row of the function at an address.
    pub fn row(&mut self, address: usize) -> Option<Row> {
        let entry = self.search(address)?;
        let function = self.function(entry)?;
        if address.wrapping_sub(function.start) >= function.length {
            return None;
        }
        Row::of(&function, &mut self.bytes, address)
    }

    /// Returns the addresses of the function that contains an address.
    pub fn range(&mut self, address: usize) -> Option<Range<usize>> {
        let entry = self.search(address)?;
        let function = self.function(entry)?;
        Some(function.start..function.start.checked_add(function.length)?)
            .filter(|range| range.contains(&address))
    }

    /// The entry of the last function that begins at or before an address.
    pub fn search(&mut self, address: usize) -> Option<usize> {
        const HEADER: usize = 32;
        let start = self.start;
        let mut header = Cursor::new(&mut self.bytes, start, HEADER)?;
        let [version, frames, count, sorted] = header.array()?;
        if version != 1 || sorted != SORTED || count == OMITTED {
            return None;
        }
        header.pointer(frames, start)?;
        let count = header.pointer(count, start)?;
        let table = header.at;
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            if high - low <= PIECE / 8 {
                // The rest at once.
                self.bytes.bytes(table.wrapping_add(8 * low), 8 * (high - low))?;
            }
            let middle = low + (high - low) / 2;
            let (begin, _) = self.pair(table, middle)?;
            (low, high) = if begin <= address { (middle, high) } else { (low, middle) };
        }
        let (begin, entry) = self.pair(table, low)?;
        (low < count && begin <= address).then_some(entry)
    }

    /// Returns the start of a function, and the address of its entry.
    fn pair(&mut self, table: usize, index: usize) -> Option<(usize, usize)> {
        let bytes = self.bytes.bytes(table.wrapping_add(index.wrapping_mul(8)), 8)?;
        let [begin, entry] = *bytes.as_chunks::<4>().0 else { return None };
        let relative = |bytes| self.start.wrapping_add_signed(i32::from_le_bytes(bytes) as isize);
        Some((relative(begin), relative(entry)))
    }

    /// Reads the entry of a function (FDE).
    fn function(&mut self, entry: usize) -> Option<Function> {
        let mut fde = self.entry(entry)?;
        let at = fde.at;
        let common = at.checked_sub(fde.u32()? as usize)?;
        let (at, end) = (fde.at, fde.end);
        let mut function = self.common(common, at.wrapping_sub(4))?;
        let mut fde = Cursor::new(&mut self.bytes, at, end.checked_sub(at)?)?;
        function.start = fde.pointer(function.encoding, 0)?;
        function.length = fde.pointer(function.encoding & 0x0f, 0)?;
        if function.is_augmented {
            let length = fde.unsigned()? as usize;
            fde.skip(length)?;
        }
        function.own = (fde.at, fde.end - fde.at);
        Some(function)
    }

    /// An entry, behind its length.
    fn entry(&mut self, at: usize) -> Option<Cursor<'_, M>> {
        const LONGEST: usize = 1 << 16;
        let length = Cursor::new(&mut self.bytes, at, 4)?.u32()? as usize;
        if length == 0 || length > LONGEST {
            return None;
        }
        Cursor::new(&mut self.bytes, at.checked_add(4)?, length)
    }

    /// Reads the entry that functions share (CIE).
    fn common(&mut self, at: usize, asked_by: usize) -> Option<Function> {
        if at == asked_by {
            return None;
        }
        let mut cie = self.entry(at)?;
        let [0, 0, 0, 0, version] = cie.array()? else { return None };
        if version != 1 && version != 3 {
            return None;
        }
        let mut augmentation = [0; 8];
        for place in 0.. {
            match cie.byte()? {
                0 => break,
                letter => *augmentation.get_mut(place)? = letter,
            }
        }
        let code_step = cie.unsigned()? as usize;
        let data_step = cie.signed()?;
        let returns = if version == 1 { u64::from(cie.byte()?) } else { cie.unsigned()? };
        if returns != super::processor::RETURN as u64 {
            return None;
        }
        let is_augmented = augmentation[0] == b'z';
        let (mut encoding, mut is_signal) = (0, false);
        if is_augmented {
            let length = cie.unsigned()? as usize;
            let rest = cie.at.checked_add(length)?;
            for letter in augmentation[1..].iter().take_while(|letter| **letter != 0) {
                match letter {
                    b'R' => encoding = cie.byte()?,
                    b'S' => is_signal = true,
                    b'L' => _ = cie.byte()?,
                    b'P' => {
                        let how = cie.byte()?;
                        cie.pointer(how, 0)?;
                    }
                    _ => break,
                }
            }
            if rest > cie.end {
                return None;
            }
            cie.at = rest;
        } else if augmentation[0] != 0 {
            return None;
        }
        let common = (cie.at, cie.end - cie.at);
        Some(Function {
            start: 0,
            length: 0,
            encoding,
            is_augmented,
            is_signal,
            code_step,
            data_step,
            common,
            own: (0, 0),
        })
    }
}
