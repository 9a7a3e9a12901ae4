//! Memory that is only counted: a table in a process's file, which its threads change in place at every small
//! allocation and free.
//!
//! The table is the body of an entry [`COUNTED`](super::meta::COUNTED), in words of 8 bytes. The first word
//! has the offset of the rest in the body: [`UNFOLLOWED`] words, [`ROWS`] rows of [`ROW`] words, and
//! [`CELLS`] arrays with a word per row. A row belongs to a return address and a device. It has its [`row_key`],
//! the live allocations as packed by [`pack_live`], the most bytes that were alive before a free, and the number
//! of allocations that threads without an array made. Add the row's word in each array to that number for the
//! number of all allocations.

/// Number of words before the rows: the number of allocations that are in no row, the number of their bytes,
/// and zeros.
pub const UNFOLLOWED: usize = 8;
/// Number of rows.
pub const ROWS: usize = 64;
/// Number of words of a row.
pub const ROW: usize = 4;
/// Number of threads that have an array of their own.
pub const CELLS: usize = 16;
/// Number of words of the whole table.
pub const WORDS: usize = UNFOLLOWED + ROWS * (ROW + CELLS);

/// Indexes of the words in a row.
pub mod row {
    /// Word with the [`super::row_key`] of the row; 0 in an unused row.
    pub const KEY: usize = 0;
    /// Word with the live allocations, as packed by [`super::pack_live`].
    pub const LIVE: usize = 1;
    /// Word with the largest number of live bytes before a free.
    pub const PEAK: usize = 2;
    /// Word with the number of allocations that threads without an array made.
    pub const MADE: usize = 3;
}

/// Number of low bits in which live allocations are counted. The bits above them hold their bytes.
pub const COUNT_BITS: u32 = 24;
/// First number of bytes that does not fit in a row.
pub const BYTES_END: u64 = 1 << (u64::BITS - COUNT_BITS);

/// Returns the key of a row: of a return address (0 in the row for all other addresses) and the device, if
/// known.
pub const fn row_key(caller: u64, device: Option<i32>) -> u64 {
    let device = match device {
        Some(device) if device >= 0 && device < 0xfffe => device as u64 + 2,
        _ => 1,
    };
    caller & ((1 << 48) - 1) | device << 48
}

/// Returns the return address and the device in a row's key.
pub const fn parse_row_key(key: u64) -> (u64, Option<i32>) {
    let device = (key >> 48) as i32 - 2;
    (key & ((1 << 48) - 1), if device >= 0 { Some(device) } else { None })
}

/// Returns the word for live allocations: their number of bytes, and their number.
pub const fn pack_live(bytes: u64, count: u64) -> u64 {
    bytes << COUNT_BITS | count
}

/// Returns the number of bytes and the number of allocations in a word from [`pack_live`].
pub const fn unpack_live(live: u64) -> (u64, u64) {
    (live >> COUNT_BITS, live & ((1 << COUNT_BITS) - 1))
}

/// Memory that calls at one return address allocated on one device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CountedRow {
    /// Return address of the calls; 0 for the calls at all addresses that have no row.
    pub address: u64,
    /// Ordinal of the device in the process; `None` if unknown.
    pub device: Option<i32>,
    /// Number of bytes in live allocations.
    pub live_bytes: u64,
    /// Number of live allocations.
    pub live: u64,
    /// Largest number of live bytes at any time.
    pub peak_bytes: u64,
    /// Number of allocations that were ever made.
    pub made: u64,
}

/// Returns the rows of a table, and the number and the bytes of the allocations that are in no row. Every sequence of
/// bytes is a valid table.
pub fn read_table(body: &[u8]) -> (impl Iterator<Item = CountedRow> + '_, [u64; 2]) {
    let begin = body.first_chunk().map_or(usize::MAX, |bytes| u64::from_le_bytes(*bytes) as usize);
    let words = body.get(begin..).unwrap_or_default().as_chunks::<8>().0;
    let word = move |at: usize| words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let rows = (0..ROWS).filter_map(move |index| {
        let at = |part| word(UNFOLLOWED + index * ROW + part);
        let cells = (0..CELLS).map(|cell| word(UNFOLLOWED + ROWS * ROW + cell * ROWS + index));
        let made = cells.fold(at(row::MADE), u64::saturating_add);
        let ((address, device), (live_bytes, live)) = (parse_row_key(at(row::KEY)), unpack_live(at(row::LIVE)));
        let peak_bytes = at(row::PEAK).max(live_bytes);
        (at(row::KEY) != 0).then_some(CountedRow { address, device, live_bytes, live, peak_bytes, made })
    });
    (rows, [word(0), word(1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_and_no_bytes_are_trusted() {
        let mut words = vec![0u64; 2 + WORDS];
        words[0] = 16;
        words[2..4].copy_from_slice(&[3, 4096]);
        let at = 2 + UNFOLLOWED + 5 * ROW;
        words[at..at + ROW].copy_from_slice(&[row_key(0x7f00_1234, Some(0)), pack_live(1000, 2), 999, 7]);
        for cell in 0..CELLS {
            words[2 + UNFOLLOWED + ROWS * ROW + cell * ROWS + 5] = 10;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (rows, unfollowed) = read_table(&bytes);
        let row = CountedRow {
            address: 0x7f00_1234,
            device: Some(0),
            live_bytes: 1000,
            live: 2,
            peak_bytes: 1000,
            made: 167,
        };
        assert_eq!((rows.collect::<Vec<_>>(), unfollowed), (vec![row], [3, 4096]));
        for device in [None, Some(0), Some(7), Some(0xfffd)] {
            assert_eq!(parse_row_key(row_key(u64::MAX, device)), ((1 << 48) - 1, device));
            assert_ne!(row_key(0, device), 0);
        }
        for end in 0..bytes.len() {
            assert!(read_table(&bytes[..end]).0.count() <= 1);
        }
        for begin in [1, 8, bytes.len() as u64, u64::MAX] {
            let bytes = [&begin.to_le_bytes(), &bytes[8..]].concat();
            assert!(read_table(&bytes).0.count() <= ROWS);
        }
    }
}
