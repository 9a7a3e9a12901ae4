//! Reads what is still being written: twice, so that what is taken is complete.
//!
//! A file of a process that has ended is read once.

use cupeer_record::plain;
use cupeer_spec::record::{self, BLOCK, BLOCK_MAGIC, BlockHeader, block};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Maximum number of attempts to read a block that its process keeps changing; then zeros replace the block.
const MOST_TRIES: usize = 16;
/// Maximum number of blocks in memory (256 MiB): enough for the windows of more threads than programs have.
const MOST_CACHED_BLOCKS: usize = (256 << 20) / BLOCK;

/// Maximum number of bytes in holes of a file. Recordings have holes where space was reserved in advance, or where
/// a ring was not needed.
const MOST_HOLES: u64 = 8 << 30;

pub struct LiveFileReader {
    file: File,
    /// True if a process may be writing to the file while it is read.
    is_live: bool,
    /// Windows and blocks of a ring, as they were before the rest of the file is read. If a window were emptied
    /// later, its contents would move to a chunk beyond the known size of the file and be lost. A ring would be
    /// overwritten while we compress the file.
    cached_blocks: HashMap<u64, Vec<u8>>,
    /// Number of bytes that are packed.
    pub size: u64,
}

impl LiveFileReader {
    pub fn open(file: File, is_live: bool) -> io::Result<LiveFileReader> {
        let holes = plain::count_hole_bytes(&file)?;
        if holes > MOST_HOLES {
            let sentence = format!("it has {} GiB of holes, more than any recording", holes >> 30);
            return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
        }
        let mut reading = LiveFileReader { size: file.metadata()?.len(), file, is_live, cached_blocks: HashMap::new() };
        if is_live {
            for number in 1..reading.size.div_ceil(BLOCK as u64) {
                if reading.is_hole(number * BLOCK as u64, BLOCK) {
                    continue;
                }
                let mut bytes = [0; size_of::<BlockHeader>()];
                reading.read_padded(&mut bytes, number * BLOCK as u64)?;
                let is_rewritten =
                    block_header(&bytes).is_some_and(|header| [block::WINDOW, block::RING].contains(&header.kind));
                if is_rewritten && reading.cached_blocks.len() < MOST_CACHED_BLOCKS {
                    let mut block = vec![0; BLOCK];
                    if reading.read_block(number, &mut block)?.is_some() {
                        reading.cached_blocks.insert(number, block);
                    }
                }
            }
            reading.size = reading.file.metadata()?.len();
        }
        Ok(reading)
    }

    fn is_hole(&self, at: u64, length: usize) -> bool {
        plain::next_data_offset(&self.file, at) >= at.saturating_add(length as u64)
    }

    /// Reads a block into `place`. Returns `None` if the block changed at each attempt.
    pub fn read_block(&self, number: u64, place: &mut [u8]) -> io::Result<Option<()>> {
        if let Some(kept) = self.cached_blocks.get(&number).filter(|kept| kept.len() >= place.len()) {
            place.copy_from_slice(&kept[..place.len()]);
            return Ok(Some(()));
        }
        let at = number * BLOCK as u64;
        self.read_padded(place, at)?;
        if !self.is_live {
            return Ok(Some(()));
        }
        let mut first = place.to_vec();
        for _ in 0..MOST_TRIES {
            self.read_padded(place, at)?;
            if number == 0 || slot_meaning(&block_header(&first)) == slot_meaning(&block_header(place)) {
                merge_readings(number, &first, place);
                return Ok(Some(()));
            }
            first.copy_from_slice(place);
        }
        Ok(None)
    }

    /// Reads bytes into `place`. Bytes beyond the end of the file are zero.
    fn read_padded(&self, place: &mut [u8], at: u64) -> io::Result<()> {
        let mut had = 0;
        if self.is_hole(at, place.len()) {
            place.fill(0);
            return Ok(());
        }
        while had < place.len() {
            match self.file.read_at(&mut place[had..], at + had as u64) {
                Ok(0) => break,
                Ok(more) => had += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        place[had..].fill(0);
        Ok(())
    }
}

/// Returns the header of a block; `None` if the bytes are no block.
pub fn block_header(bytes: &[u8]) -> Option<BlockHeader> {
    record::read_plain(bytes).filter(|header: &BlockHeader| header.magic == BLOCK_MAGIC)
}

/// Returns the fields of a header that stay equal as long as the meaning of the slots does not change.
fn slot_meaning(header: &Option<BlockHeader>) -> Option<(u16, u32, u64)> {
    header.as_ref().map(|header| (header.kind, header.stream, header.base))
}

/// Merges two readings of a block into the second one, so that everything that counts there is complete:
/// everything that the first reading announced had been written before the second reading.
fn merge_readings(number: u64, first: &[u8], second: &mut [u8]) {
    match block_header(second).map(|header| header.kind) {
        Some(block::WINDOW | block::RING) if number > 0 => {
            let size = size_of::<record::slot::Slot>();
            let slots = first.chunks_exact(size).zip(second.chunks_exact_mut(size));
            for (first, second) in slots.skip(1) {
                second[..8].copy_from_slice(&first[..8]);
            }
        }
        _ if number == 0 => super::meta::clear_unannounced(first, second, record::META_START),
        Some(block::META) => super::meta::clear_unannounced(first, second, size_of::<BlockHeader>()),
        _ => {}
    }
}
