//! Scans the headers of all blocks of a process's file, in order.

use crate::source::OpenSource;
use cupeer_spec::record::{self, BLOCK, BLOCK_MAGIC, BlockHeader, ChunkTrailer, SLOTS, TRAILER_MAGIC, block};
use std::io;

/// Half of the bytes of one read: the trailer of a block, or the header of the next one.
const HALF: usize = 64;

/// Block with a valid header.
pub(crate) struct ScannedBlock {
    pub number: u32,
    pub header: BlockHeader,
}

/// Passes valid blocks from number `first` on to `each`. Returns the number of the first block that is not
/// valid; valid blocks may follow it. Not valid: a torn chunk, and a block that was not written (yet).
pub(crate) fn scan_blocks(file: &OpenSource, first: u32, mut each: impl FnMut(ScannedBlock)) -> io::Result<u32> {
    let end = u32::try_from(file.size()?.div_ceil(BLOCK as u64)).unwrap_or(u32::MAX);
    let mut unsettled = None;
    let mut number = first.max(1);
    let mut bytes = [0; 2 * HALF];
    file.read(&mut bytes[HALF..], start(number))?;
    while number < end {
        let header = record::read_plain(&bytes[HALF..]).filter(|header: &BlockHeader| header.magic == BLOCK_MAGIC);
        let Some(header) = header else {
            unsettled.get_or_insert(number);
            let data = file.next_data(start(number) + HALF as u64) / BLOCK as u64;
            number = u32::try_from(data).unwrap_or(end).max(number + 1);
            bytes.fill(0);
            file.read(&mut bytes[HALF..], start(number))?;
            continue;
        };
        // The trailer of a block is next to the header of the next block: read both at once.
        bytes.fill(0);
        file.read(&mut bytes, start(number + 1) - HALF as u64)?;
        if header.kind == block::CHUNK && !is_trailer_of(record::read_plain(&bytes), &header) {
            unsettled.get_or_insert(number);
        } else {
            each(ScannedBlock { number, header });
        }
        number += 1;
    }
    Ok(unsettled.unwrap_or(end))
}

/// Returns true if a trailer matches its header.
fn is_trailer_of(trailer: Option<ChunkTrailer>, header: &BlockHeader) -> bool {
    trailer.is_some_and(|trailer| {
        trailer.magic == TRAILER_MAGIC
            && (trailer.stream, trailer.base, trailer.used) == (header.stream, header.base, header.used)
            && header.used as usize <= SLOTS
    })
}

/// Returns the offset in the file of a block, by its number.
pub(crate) fn start(number: u32) -> u64 {
    u64::from(number) * BLOCK as u64
}
