//! Reads the slots of one stream in the order of their numbers, each once, including blocks that are being written.

use crate::index::{self, BlockIndex, StreamBlocks};
use crate::scan;
use crate::source::OpenSource;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, Slot, has_appeared, settled_word};
use cupeer_spec::record::{self, BLOCK_MAGIC, BlockHeader, SLOTS, block, mode};
use std::io;

const SLOT: usize = size_of::<Slot>();

/// State that the readers of a process's streams share.
pub(crate) struct ReadingState {
    pub file: OpenSource,
    pub index: BlockIndex,
    /// Functions by their numbers in the recording.
    pub functions: Vec<Option<FnId>>,
    /// Version of the recording's format.
    pub version: u32,
    /// Mode of the recording when it was opened.
    pub mode: u32,
    /// Number of slots that are read at once.
    pub piece: usize,
    /// First failure to read a block; `None` if there was none.
    pub error: Option<io::Error>,
}

pub(crate) struct SlotReader {
    /// Number of the stream.
    pub stream: u32,
    /// Thread id of the thread that wrote the slot that was read last.
    pub tid: u32,
    /// Index of this stream in [`BlockIndex::streams`].
    place: usize,
    /// Number of the stream's chunks that were begun so far.
    chunks: usize,
    /// Number of the stream's open blocks that were begun so far.
    open: usize,
    /// Number of the first slot that was not read yet.
    next: u64,
    block: CurrentBlock,
    /// Bytes of the current block's slots, from the slot with index `from` on.
    buffer: Vec<u8>,
    from: usize,
    /// Index in the block of the slot that was read last.
    last: usize,
}

/// Block that the reader is in, and the position in it.
#[derive(Clone, Copy, Default)]
struct CurrentBlock {
    number: u32,
    kind: u16,
    base: u64,
    /// Index of the next slot.
    at: usize,
    /// Number of slots in the block.
    used: usize,
}

impl SlotReader {
    pub(crate) fn new(place: usize, blocks: &StreamBlocks) -> SlotReader {
        SlotReader {
            stream: blocks.stream,
            tid: 0,
            place,
            chunks: 0,
            open: 0,
            next: 0,
            block: CurrentBlock::default(),
            buffer: Vec::new(),
            from: 0,
            last: 0,
        }
    }

    /// Returns the next slot that counts, and its number; `None` at the end of the stream.
    pub(crate) fn next_slot(&mut self, shared: &mut ReadingState) -> Option<(u64, Slot)> {
        loop {
            let at = self.block.at;
            if at >= self.block.used {
                if !self.open_next_block(shared) {
                    return None;
                }
                continue;
            }
            let Some(slot) = self.buffer.get((at - self.from) * SLOT..).and_then(record::read_plain::<Slot>) else {
                self.load_slots(shared, 1);
                continue;
            };
            let number = self.block.base + at as u64;
            if slot.seq() != number as u32 || !is_slot(&slot) {
                self.block.at += 1;
                continue;
            }
            self.last = at;
            self.block.at = at + slot.slot_count().max(1);
            self.next = number + 1;
            return Some((number, slot));
        }
    }

    /// Returns the bytes of the last slot and of the slots behind it that belong to the same event, without
    /// the slot's first words.
    pub(crate) fn event_bytes(&mut self, shared: &mut ReadingState, slots: usize) -> Option<&[u8]> {
        let slots = slots.max(1);
        if self.last + slots > self.block.used {
            return None;
        }
        if (self.last + slots - self.from) * SLOT > self.buffer.len() {
            let at = std::mem::replace(&mut self.block.at, self.last);
            self.load_slots(shared, slots);
            self.block.at = at;
        }
        // The block may have been reused by another lap before it was read again.
        let first = self.last.checked_sub(self.from)? * SLOT;
        self.buffer.get(first + slot::detail::START..first + slots * SLOT)
    }

    /// Opens the next block of the stream. Returns false if there is none.
    fn open_next_block(&mut self, shared: &mut ReadingState) -> bool {
        if self.block.kind == block::CHUNK {
            self.next = self.next.max(self.block.base + self.block.used as u64);
        }
        self.block = CurrentBlock::default();
        self.buffer.clear();
        let blocks = &shared.index.streams[self.place];
        if let Some(number) = blocks.chunks.get(self.chunks).copied() {
            self.chunks += 1;
            self.begin_block(shared, number, None);
        } else if let Some((base, number)) = blocks.open_blocks.get(self.open).copied() {
            self.open += 1;
            // Begin the block unless all slots that it can have were read already.
            if base.saturating_add(SLOTS as u64) > self.next {
                self.begin_block(shared, number, Some(base));
            }
        } else {
            self.buffer = Vec::new();
            return false;
        }
        true
    }

    /// Opens a block. A window or ring block may contain other slots now than when it was indexed.
    fn begin_block(&mut self, shared: &mut ReadingState, number: u32, noted: Option<u64>) {
        let Some(header) = self.read_block_header(shared, number) else { return };
        let is_chunk = header.kind == block::CHUNK;
        // The window may have become a chunk in place.
        if header.stream != self.stream
            || !is_chunk && noted.is_none()
            || noted.is_some_and(|noted| noted != header.base)
        {
            return self.continue_in_chunk(shared, noted);
        }
        // This chunk replaced another one at the same place after the blocks were indexed.
        if noted.is_none() && shared.index.check_replaced(&shared.file, self.place, header.base) {
            shared.note_overwritten();
            return self.continue_in_chunk(shared, None);
        }
        let Some(end) = header.base.checked_add(SLOTS as u64) else { return };
        let used = if is_chunk { index::used_slots(&header) } else { SLOTS };
        let at = if self.next >= end { used } else { self.next.saturating_sub(header.base) as usize };
        // The header names the thread that wrote the first slot. If the reading begins at a later slot,
        // another thread may have continued the stream by then.
        if at == 0 {
            self.tid = header.tid;
        }
        self.block = CurrentBlock { number, kind: header.kind, base: header.base, at, used };
        self.from = at;
    }

    /// Continues with the chunk to which a window was copied. If a ring block was reused, its slots are lost.
    fn continue_in_chunk(&mut self, shared: &mut ReadingState, noted: Option<u64>) {
        self.block.used = self.block.at;
        self.buffer.clear();
        let Some(base) = noted else { return };
        match shared.index.find_chunk(&shared.file, self.stream, base) {
            Ok(Some(chunk)) => self.begin_block(shared, chunk, None),
            Ok(None) if shared.index.is_bounded => shared.note_overwritten(),
            // The chunk is already in the stream's list, or the block was a ring block.
            Ok(None) => {}
            Err(error) => shared.note_error(error),
        }
    }

    fn read_block_header(&self, shared: &mut ReadingState, number: u32) -> Option<BlockHeader> {
        let mut bytes = [0; size_of::<BlockHeader>()];
        if let Err(error) = shared.file.read(&mut bytes, scan::start(number)) {
            shared.note_error(error);
        }
        record::read_plain(&bytes).filter(|header: &BlockHeader| header.magic == BLOCK_MAGIC)
    }

    /// Reads slots into the buffer, from the next slot on: at least `least` if there are as many.
    fn load_slots(&mut self, shared: &mut ReadingState, least: usize) {
        let CurrentBlock { number, kind, base, at, used } = self.block;
        let count = least.max(shared.piece).min(used - at);
        self.from = at;
        let place = scan::start(number) + ((1 + at) * SLOT) as u64;
        if !self.fill_buffer(shared, place, count) {
            return;
        }
        if kind == block::CHUNK {
            // Another chunk may be replacing this one, whose thread writes its header first.
            let is_same =
                self.read_block_header(shared, number).is_some_and(|now| now.still_is(kind, self.stream, base));
            if !is_same {
                shared.note_overwritten();
                self.continue_in_chunk(shared, None);
            }
            return;
        }
        let words: Vec<u64> = self.buffer.chunks_exact(SLOT).map(first_word).collect();
        if !self.fill_buffer(shared, place, count) {
            return;
        }
        let is_same = self.read_block_header(shared, number).is_some_and(|now| now.still_is(kind, self.stream, base));
        if !is_same {
            let noted = (kind == block::WINDOW).then_some(base);
            let next = std::mem::replace(&mut self.next, base + at as u64);
            self.continue_in_chunk(shared, noted);
            self.next = self.next.max(next);
            return;
        }
        self.restore_earlier_words(base, &words);
    }

    /// Fills the buffer. Returns false if nothing could be read, which is the end of the block.
    fn fill_buffer(&mut self, shared: &mut ReadingState, place: u64, count: usize) -> bool {
        self.buffer.resize(count * SLOT, 0);
        let had = shared.file.read(&mut self.buffer, place).unwrap_or_else(|error| {
            shared.note_error(error);
            0
        });
        let slots = had / SLOT;
        self.buffer.truncate(slots * SLOT);
        if slots < count {
            self.block.used = self.from + slots;
        }
        slots > 0
    }

    /// Replaces the first words in the buffer by those of an earlier reading, up to a slot that was written
    /// since.
    fn restore_earlier_words(&mut self, base: u64, words: &[u64]) {
        let mut i = 0;
        while let (Some(word), Some(bytes)) = (words.get(i), self.buffer.get_mut(i * SLOT..i * SLOT + 8)) {
            let seq = (base + (self.from + i) as u64) as u32;
            let now = self::first_word(bytes);
            if has_appeared(*word, now, seq) {
                return self.buffer.truncate(i * SLOT);
            }
            let settled = settled_word(*word, now, seq);
            bytes.copy_from_slice(&settled.to_le_bytes());
            i += usize::from((settled >> 8) as u8).max(1);
        }
    }
}

/// Returns true if these bytes are a slot. Two things are not: a place that a thread reserved and never
/// wrote, and the middle of a detail of an earlier lap, which can contain any bytes. A call takes one slot.
pub(crate) fn is_slot(slot: &Slot) -> bool {
    match slot.state() {
        slot::EMPTY => false,
        slot::PENDING | slot::RETURNED | slot::UNWOUND | slot::LATE_END | slot::THREAD | slot::RUN | slot::USED => {
            slot.slot_count() == 1
        }
        _ => true,
    }
}

/// Returns the first word in the bytes of a slot.
pub(crate) fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl ReadingState {
    fn note_error(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    /// Notes as an error that a chunk was overwritten after it was indexed. A recording that had reached its
    /// limit before lacks events anyway, so this is no error there.
    pub fn note_overwritten(&mut self) {
        if self.mode != mode::BOUNDED {
            self.note_error(io::Error::other("reached its limit while it was read: events are missing"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of valid slots if slots from number 10 on had these first words in two readings.
    fn counted(first: [u64; 3], now: [u64; 3]) -> usize {
        let mut reader = SlotReader::new(0, &StreamBlocks::default());
        reader.buffer = now.iter().flat_map(|word| [word.to_le_bytes(); SLOT / 8]).flatten().collect();
        reader.restore_earlier_words(10, &first);
        reader.buffer.len() / SLOT
    }

    #[test]
    fn slot_written_between_readings_is_read_again_with_all_behind_it() {
        let at = |number| slot::slot_word(slot::PENDING, 1, 0, number);
        assert_eq!(counted([at(10), at(11), at(12)], [at(10), at(11), at(12)]), 3);
        // A thread has written a slot before the next, and the first reading has only that.
        assert_eq!(counted([at(10), 0, at(12)], [at(10), at(11), at(12)]), 1);
        assert_eq!(counted([at(3), at(11), at(12)], [at(10), at(11), at(12)]), 0);
        // Words that stay 0 hide no later slots.
        assert_eq!(counted([at(10), 0, at(12)], [at(10), 0, at(12)]), 3);
        assert_eq!(counted([at(10), at(4), at(12)], [at(10), at(4), at(12)]), 3);
    }
}
