//! The unwind tables of an object: its sorted table of functions (.eh_frame_hdr), and the entries that it refers to
//! (.eh_frame), which `gimli` interprets with storage on this stack.

use super::processor::{RETURN, VENDOR};
use super::reader::{PIECE, TableReader};
use super::row::UnwindRow;
use crate::memory::{Memory, MemoryWindow};
use core::cell::RefCell;
use core::ops::Range;
use gimli::{BaseAddresses, EhFrame, EhFrameOffset, FrameDescriptionEntry, UnwindContext, UnwindSection};

/// Unwind tables of one object.
pub struct UnwindTables<M> {
    /// Address of the sorted table.
    start: usize,
    /// Copy of the bytes of the tables that were read last.
    bytes: RefCell<MemoryWindow<PIECE, M>>,
}

impl<M: Memory> UnwindTables<M> {
    /// Creates the tables that begin at an address.
    pub fn at(start: usize, memory: M) -> Self {
        UnwindTables { start, bytes: RefCell::new(MemoryWindow::new(memory)) }
    }

    /// Returns the unwind row of the function at an address.
    pub fn find_row(&self, address: usize) -> Option<UnwindRow> {
        let function = self.find_function(address)?;
        if usize::from(function.cie().return_address_register().0) != RETURN {
            return None;
        }
        let mut context = UnwindContext::new_in();
        let (section, bases) = (self.whole_memory_section(), BaseAddresses::default().set_eh_frame(0));
        let rules = function.unwind_info_for_address(&section, &bases, &mut context, address as u64).ok()?;
        Some(UnwindRow { rules: rules.clone(), is_signal: function.is_signal_trampoline() })
    }

    /// Returns the address range of the function that contains an address.
    pub fn function_range(&self, address: usize) -> Option<Range<usize>> {
        let function = self.find_function(address)?;
        Some(function.initial_address() as usize..function.end_address() as usize)
    }

    /// Returns all memory as one section, in which offsets are addresses.
    pub fn whole_memory_section(&self) -> EhFrame<TableReader<'_, M>> {
        let mut section = EhFrame::from(TableReader::over_all_memory(&self.bytes));
        section.set_address_size(8);
        section.set_vendor(VENDOR);
        section
    }

    fn find_function(&self, address: usize) -> Option<FrameDescriptionEntry<TableReader<'_, M>>> {
        let bases = BaseAddresses::default().set_eh_frame(0);
        let entry = EhFrameOffset(self.search_entry(address)?);
        let function = self.whole_memory_section().fde_from_offset(&bases, entry, EhFrame::cie_from_offset).ok()?;
        function.contains(address as u64).then_some(function)
    }

    /// Returns the address of the entry of the last function that begins at or before an address.
    pub fn search_entry(&self, address: usize) -> Option<usize> {
        /// The header that linkers write: version 1, the address of .eh_frame and the number of functions in 4 bytes
        /// each, and a table of pairs of 4 bytes, relative to its start.
        const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        const TABLE: usize = 12;
        let mut bytes = self.bytes.borrow_mut();
        let [header, _, count] = *bytes.read_bytes(self.start, TABLE)?.as_chunks().0 else { return None };
        if header != HEADER {
            return None;
        }
        let relative = |distance: [u8; 4]| self.start.wrapping_add_signed(i32::from_le_bytes(distance) as isize);
        let mut pair = |index: usize, count: usize| {
            let place = self.start.wrapping_add(TABLE + 8 * index);
            let [begin, entry, ..] = *bytes.read_bytes(place, 8 * count)?.as_chunks().0 else { return None };
            Some((relative(begin), relative(entry)))
        };
        let (mut low, mut high) = (0, u32::from_le_bytes(count) as usize);
        while high - low > 1 {
            if high - low <= PIECE / 8 {
                // This copies the rest of the table at once.
                pair(low, high - low)?;
            }
            let middle = low + (high - low) / 2;
            (low, high) = if pair(middle, 1)?.0 <= address { (middle, high) } else { (low, middle) };
        }
        let (begin, entry) = pair(low, 1)?;
        (low < high && begin <= address).then_some(entry)
    }
}
