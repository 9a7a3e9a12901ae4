//! Memory that a process only counts: small allocations, and those of pools if there are many.

use crate::process::Process;
use crate::source::OpenSource;
use cupeer_spec::record::counted::{self, CountedRow, WORDS};
use std::ops::Range;

/// Memory of a process that is only counted, at the time of reading.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CountedMemory {
    /// Rows by return address and device, in ascending order.
    pub rows: Vec<CountedRow>,
    /// Number of allocations for which there was no space, so that no row has them.
    pub unfollowed: u64,
    /// Bytes of the allocations that have no row. Their frees are not subtracted.
    pub unfollowed_bytes: u64,
}

impl CountedMemory {
    fn read(file: &OpenSource, at: &Range<u64>) -> Option<CountedMemory> {
        // Largest size in bytes of the table that a process writes.
        let most = 8 * WORDS as u64 + 128;
        let mut bytes = vec![0; at.end.saturating_sub(at.start).min(most) as usize];
        let had = file.read(&mut bytes, at.start).ok()?;
        let (rows, [unfollowed, unfollowed_bytes]) = counted::read_table(&bytes[..had]);
        let mut rows: Vec<CountedRow> = rows.collect();
        rows.sort_unstable();
        Some(CountedMemory { rows, unfollowed, unfollowed_bytes })
    }
}

impl Process {
    /// Returns the memory that the process only counts, as of now. Large allocations are recorded as calls,
    /// and not included.
    pub fn counted_memory(&self) -> CountedMemory {
        let read = |at| CountedMemory::read(&self.source.open().ok()?, at);
        self.counted_at.as_ref().and_then(read).unwrap_or_default()
    }
}
