//! The index of the blocks of each stream of a process.
//!
//! It takes 4 bytes per block, because a record may be larger than the memory.

use crate::read;
use crate::scan;
use crate::source::OpenSource;
use cupeer_spec::record::{self, BlockHeader, SLOTS, block, mode};
use std::collections::HashMap;
use std::io;

#[derive(Default)]
pub(crate) struct StreamBlocks {
    pub stream: u32,
    /// Numbers of the chunks' blocks, in the order of their slots.
    pub chunks: Vec<u32>,
    /// Windows and ring blocks, in the order of their slots: the number of the first slot, and the number of
    /// the block.
    pub open_blocks: Vec<(u64, u32)>,
    /// Start of the next chunk if chunks are in order, as they are in an undamaged file.
    next: u64,
    disordered: bool,
}

impl StreamBlocks {
    fn add_chunk(&mut self, number: u32, header: &BlockHeader) {
        self.disordered |= header.base < self.next;
        self.next = header.base.saturating_add(header.used.into());
        self.chunks.push(number);
    }
}

pub(crate) struct BlockIndex {
    /// Blocks of each stream, by the number of the stream.
    pub streams: Vec<StreamBlocks>,
    /// First block that was not valid at the scan and may become valid later.
    pub settled: u32,
    /// True if new chunks replace older ones: see [`mode::BOUNDED`].
    pub is_bounded: bool,
}

impl BlockIndex {
    pub(crate) fn build(file: &OpenSource) -> io::Result<BlockIndex> {
        let mut streams: Vec<StreamBlocks> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let first_unsettled = scan::scan_blocks(file, 1, |found| {
            let header = found.header;
            if !matches!(header.kind, block::WINDOW | block::CHUNK | block::RING) {
                return;
            }
            let i = *numbers.entry(header.stream).or_insert_with(|| {
                streams.push(StreamBlocks { stream: header.stream, ..StreamBlocks::default() });
                streams.len() - 1
            });
            let blocks = &mut streams[i];
            if header.kind == block::CHUNK {
                blocks.add_chunk(found.number, &header);
            } else {
                blocks.open_blocks.push((header.base, found.number));
            }
        })?;
        // A window that was full may have become a chunk before the scan reached the window, at a place that
        // the scan had already passed. Scan again for such chunks. Leave out chunks with later slots than the
        // window had, because other blocks were not read up to that time.
        let is_bounded = is_bounded(file);
        let first_unsettled = if is_bounded { 1 } else { first_unsettled };
        let settled = scan::scan_blocks(file, first_unsettled, |found| {
            let header = found.header;
            let Some(i) = numbers.get(&header.stream).filter(|_| header.kind == block::CHUNK) else { return };
            let blocks = &mut streams[*i];
            if blocks.open_blocks.iter().any(|(base, _)| header.base <= *base) {
                blocks.add_chunk(found.number, &header);
            }
        })?;
        for blocks in &mut streams {
            blocks.open_blocks.sort_unstable();
            if blocks.disordered {
                sort_chunks(file, &mut blocks.chunks)?;
                // Both scans may have found the same chunk.
                blocks.chunks.dedup();
            }
            blocks.chunks.shrink_to_fit();
        }
        streams.sort_unstable_by_key(|blocks| blocks.stream);
        Ok(BlockIndex { streams, settled, is_bounded })
    }

    /// Returns true if a chunk replaced one that was found. `base` is the number of its first slot: greater
    /// than that of the stream's window, in a file that reached its limit.
    pub(crate) fn check_replaced(&mut self, file: &OpenSource, place: usize, base: u64) -> bool {
        let is_later = self.streams[place].open_blocks.last().is_some_and(|(open, _)| base > *open);
        self.is_bounded |= is_later && is_bounded(file);
        is_later && self.is_bounded
    }

    /// Finds the chunk that the window of a stream became since it was indexed.
    pub(crate) fn find_chunk(&mut self, file: &OpenSource, stream: u32, base: u64) -> io::Result<Option<u32>> {
        let mut chunk = None;
        self.is_bounded |= is_bounded(file);
        let (is_bounded, first) = (self.is_bounded, if self.is_bounded { 1 } else { self.settled });
        self.settled = scan::scan_blocks(file, first, |found| {
            let header = found.header;
            if header.kind != block::CHUNK {
                return;
            }
            if (header.stream, header.base) == (stream, base) {
                chunk = Some(found.number);
            // The chunk belongs to another stream, which will look for it. Note it now, because the next scan
            // starts behind it. In a bounded file, each scan starts from the first block.
            } else if !is_bounded
                && let Ok(i) = self.streams.binary_search_by_key(&header.stream, |blocks| blocks.stream)
                && self.streams[i].open_blocks.iter().any(|(open, _)| *open == header.base)
            {
                self.streams[i].chunks.push(found.number);
            }
        })?;
        Ok(chunk)
    }
}

/// Returns true if the file reached its size limit. A file without a valid header has no limit.
fn is_bounded(file: &OpenSource) -> bool {
    read::read_header(file).is_ok_and(|header| header.mode == mode::BOUNDED)
}

/// Sorts chunks by the numbers of their first slots.
fn sort_chunks(file: &OpenSource, chunks: &mut [u32]) -> io::Result<()> {
    let mut based = Vec::with_capacity(chunks.len());
    for chunk in chunks.iter() {
        let mut bytes = [0; size_of::<BlockHeader>()];
        file.read(&mut bytes, scan::start(*chunk))?;
        based.push((record::read_plain(&bytes).map_or(0, |header: BlockHeader| header.base), *chunk));
    }
    based.sort_unstable();
    chunks.iter_mut().zip(based).for_each(|(place, (_, chunk))| *place = chunk);
    Ok(())
}

/// Returns the number of valid slots in a chunk.
pub(crate) fn used_slots(header: &BlockHeader) -> usize {
    (header.used as usize).min(SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::{BLOCK, BLOCK_MAGIC, ChunkTrailer, TRAILER_MAGIC};
    use std::sync::{Arc, Mutex};

    /// A file with blocks of one stream: kind and first slot of each.
    fn file(blocks: &[(u16, u64)]) -> Arc<[u8]> {
        let mut bytes = vec![0; BLOCK];
        for (kind, base) in blocks {
            let (magic, used) = (BLOCK_MAGIC, SLOTS as u32);
            let header = BlockHeader { magic, kind: *kind, base: *base, used, ..BlockHeader::default() };
            let trailer = ChunkTrailer { magic: TRAILER_MAGIC, base: *base, used, ..ChunkTrailer::default() };
            let at = bytes.len();
            bytes.resize(at + BLOCK, 0);
            bytes[at..at + size_of::<BlockHeader>()].copy_from_slice(record::plain_bytes(&header));
            let end = bytes.len();
            bytes[end - size_of::<ChunkTrailer>()..].copy_from_slice(record::plain_bytes(&trailer));
        }
        bytes.into()
    }

    #[test]
    fn chunk_made_behind_the_seen_end_is_found() {
        const LAP: u64 = SLOTS as u64;
        let states = [
            file(&[(block::WINDOW, 0)]),
            file(&[(block::WINDOW, LAP), (block::CHUNK, 0)]),
            // The slots that the window held at the scan are read from the window, or from its chunk.
            file(&[(block::WINDOW, 2 * LAP), (block::CHUNK, 0), (block::CHUNK, LAP)]),
        ];
        let file = OpenSource::Growing(Mutex::new(states.into()));
        let mut index = BlockIndex::build(&file).unwrap();
        let [stream] = &index.streams[..] else { panic!("one stream") };
        assert_eq!((&stream.chunks[..], &stream.open_blocks[..]), (&[2][..], &[(LAP, 1)][..]));
        assert_eq!(index.find_chunk(&file, 0, LAP).unwrap(), Some(3));
    }

    #[test]
    fn chunk_made_during_indexing_is_found() {
        const LAP: u64 = SLOTS as u64;
        let (window, chunk, nothing) = ((block::WINDOW, LAP), (block::CHUNK, 0), (0, 0));
        let states = [
            file(&[window, chunk]),
            file(&[window, chunk, nothing, nothing]),
            file(&[(block::WINDOW, 3 * LAP), chunk, (block::CHUNK, LAP), (block::CHUNK, 2 * LAP)]),
        ];
        let index = BlockIndex::build(&OpenSource::Growing(Mutex::new(states.into()))).unwrap();
        let [stream] = &index.streams[..] else { panic!("one stream") };
        assert_eq!((&stream.chunks[..], &stream.open_blocks[..]), (&[2, 3][..], &[(LAP, 1)][..]));
    }
}
