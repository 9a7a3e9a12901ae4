//! Which blocks the streams of a process have.
//!
//! What belongs here: the order of blocks, in 4 bytes a block, because a record may be larger than the memory.

use crate::scan;
use crate::source::Opened;
use cupeer_spec::record::{self, BlockHeader, SLOTS, block};
use std::collections::HashMap;
use std::io;

/// The blocks of one stream.
#[derive(Default)]
pub(crate) struct Blocks {
    pub stream: u32,
    /// Chunks in the order of their slots.
    pub chunks: Vec<u32>,
    /// Windows and ring blocks in the order of their slots: number of the first slot, block.
    pub open: Vec<(u64, u32)>,
    /// Where the next chunk begins if they lie in order, as they do where nothing is wrong.
    next: u64,
    disordered: bool,
}

/// The blocks of all streams.
pub(crate) struct Index {
    /// By the number of the stream.
    pub streams: Vec<Blocks>,
    /// The first block that may become one later.
    pub settled: u32,
}

impl Index {
    pub(crate) fn make(file: &Opened) -> io::Result<Index> {
        let mut streams: Vec<Blocks> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let settled = scan::blocks(file, 1, |found| {
            let header = found.header;
            if !matches!(header.kind, block::WINDOW | block::CHUNK | block::RING) {
                return;
            }
            let i = *numbers.entry(header.stream).or_insert_with(|| {
                streams.push(Blocks { stream: header.stream, ..Blocks::default() });
                streams.len() - 1
            });
            let blocks = &mut streams[i];
            if header.kind == block::CHUNK {
                blocks.disordered |= header.base < blocks.next;
                blocks.next = header.base.saturating_add(header.used.into());
                blocks.chunks.push(found.number);
            } else {
                blocks.open.push((header.base, found.number));
            }
        })?;
        for blocks in &mut streams {
            blocks.open.sort_unstable();
            if blocks.disordered {
                sort(file, &mut blocks.chunks)?;
            }
            blocks.chunks.shrink_to_fit();
        }
        streams.sort_unstable_by_key(|blocks| blocks.stream);
        Ok(Index { streams, settled })
    }

    /// Looks for a chunk that was made since, of what was the window of a stream.
    pub(crate) fn find(&mut self, file: &Opened, stream: u32, base: u64) -> io::Result<Option<u32>> {
        let mut chunk = None;
        self.settled = scan::blocks(file, self.settled, |found| {
            let header = found.header;
            if header.kind != block::CHUNK {
                return;
            }
            if (header.stream, header.base) == (stream, base) {
                chunk = Some(found.number);
            // What another stream will look for is behind us then.
            } else if let Ok(i) = self.streams.binary_search_by_key(&header.stream, |blocks| blocks.stream)
                && self.streams[i].open.iter().any(|(open, _)| *open == header.base)
            {
                self.streams[i].chunks.push(found.number);
            }
        })?;
        Ok(chunk)
    }
}

/// Brings chunks into the order of their slots.
fn sort(file: &Opened, chunks: &mut [u32]) -> io::Result<()> {
    let mut based = Vec::with_capacity(chunks.len());
    for chunk in chunks.iter() {
        let mut bytes = [0; size_of::<BlockHeader>()];
        file.read(&mut bytes, scan::start(*chunk))?;
        based.push((record::read(&bytes).map_or(0, |header: BlockHeader| header.base), *chunk));
    }
    based.sort_unstable();
    chunks.iter_mut().zip(based).for_each(|(place, (_, chunk))| *place = chunk);
    Ok(())
}

/// How many slots of a chunk count.
pub(crate) fn used(header: &BlockHeader) -> usize {
    (header.used as usize).min(SLOTS)
}
