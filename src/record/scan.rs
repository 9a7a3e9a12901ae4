//! Scans the headers of all blocks of a process's file, in order.

use crate::source::Opened;
use cupeer_spec::record::{self, BLOCK, BLOCK_MAGIC, BlockHeader, SLOTS, TRAILER_MAGIC, Trailer, block};
use std::io;

/// Half of what is read at once: a trailer, and the header of the next block.
const HALF: usize = 64;

/// One block that counts.
pub(crate) struct Block {
    pub number: u32,
    pub header: BlockHeader,
}

/// Goes over the blocks from number `first` on, and says which is the first that does not count; there may be
/// more behind it. What does not count is a chunk that is not whole, and what is no block (yet).
pub(crate) fn blocks(file: &Opened, first: u32, mut each: impl FnMut(Block)) -> io::Result<u32> {
    let end = u32::try_from(file.size()?.div_ceil(BLOCK as u64)).unwrap_or(u32::MAX);
    let mut unsettled = None;
    let mut number = first.max(1);
    let mut bytes = [0; 2 * HALF];
    file.read(&mut bytes[HALF..], start(number))?;
    while number < end {
        let header = record::read(&bytes[HALF..]).filter(|header: &BlockHeader| header.magic == BLOCK_MAGIC);
        let Some(header) = header else {
            unsettled.get_or_insert(number);
            let data = file.next_data(start(number) + HALF as u64) / BLOCK as u64;
            number = u32::try_from(data).unwrap_or(end).max(number + 1);
            bytes.fill(0);
            file.read(&mut bytes[HALF..], start(number))?;
            continue;
        };
        // The trailer of a block lies before the header of the next one: both are one reading.
        bytes.fill(0);
        file.read(&mut bytes, start(number + 1) - HALF as u64)?;
        if header.kind == block::CHUNK && !repeats(record::read(&bytes), &header) {
            unsettled.get_or_insert(number);
        } else {
            each(Block { number, header });
        }
        number += 1;
    }
    Ok(unsettled.unwrap_or(end))
}

/// Whether a trailer belongs to a header.
fn repeats(trailer: Option<Trailer>, header: &BlockHeader) -> bool {
    trailer.is_some_and(|trailer| {
        trailer.magic == TRAILER_MAGIC
            && (trailer.stream, trailer.base, trailer.used) == (header.stream, header.base, header.used)
            && header.used as usize <= SLOTS
    })
}

/// Where a block begins.
pub(crate) fn start(number: u32) -> u64 {
    u64::from(number) * BLOCK as u64
}
