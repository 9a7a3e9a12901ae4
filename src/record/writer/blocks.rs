//! The blocks of a record under construction.

use super::Writer;
use cupeer_spec::record::slot::Slot;
use cupeer_spec::record::{
    self, BLOCK, BLOCK_MAGIC, BlockHeader, ChunkTrailer, META_START, SLOTS, TRAILER_MAGIC, block, first_ring_number,
    meta,
};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(super) const SLOT: usize = size_of::<Slot>();

/// Destination of the recording: a file, or memory.
pub(super) enum Destination {
    Path(PathBuf, fs::File),
    Bytes(Vec<u8>),
}

impl Destination {
    pub(super) fn create(path: PathBuf) -> io::Result<Destination> {
        let file = fs::File::create_new(&path)?;
        Ok(Destination::Path(path, file))
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: usize) -> io::Result<()> {
        match self {
            Destination::Path(_, file) => file.write_all_at(bytes, at as u64),
            Destination::Bytes(all) => {
                all.resize(all.len().max(at + bytes.len()), 0);
                all[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    pub(super) fn into_path(self) -> PathBuf {
        match self {
            Destination::Path(path, _) => path,
            Destination::Bytes(_) => Path::new("").to_path_buf(),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Destination::Path(..) => Vec::new(),
            Destination::Bytes(bytes) => bytes,
        }
    }
}

/// Block that a stream is written to.
pub(super) struct Window {
    pub number: u32,
    pub header: BlockHeader,
    /// Bytes of the block's slots.
    pub slots: Vec<u8>,
    /// Number of slots that are used.
    pub used: usize,
    /// Thread id of the thread that writes to the block.
    pub tid: u32,
    /// Latest time in the block, in ticks.
    pub time: u64,
}

impl Writer {
    /// Creates a window for a new stream. Returns its number.
    pub fn stream(&mut self, tid: u32) -> io::Result<u32> {
        let stream = self.header.next_stream;
        self.header.next_stream += 1;
        let number = self.take_block()?;
        let (kind, base) = match self.about.ring {
            Some(_) => (block::RING, first_ring_number(stream)),
            None => (block::WINDOW, 0),
        };
        let begun = self.about.moment_at(self.header.last.ticks);
        let header =
            BlockHeader { magic: BLOCK_MAGIC, kind, stream, base, tid, owner: tid, begun, ..BlockHeader::default() };
        let slots = vec![0; SLOTS * SLOT];
        self.windows.push(Window { number, header, slots, used: 0, tid, time: begun.ticks });
        self.write_window(stream)?;
        Ok(stream)
    }

    /// Writes out the window of a stream before it is full.
    pub fn flush_window(&mut self, stream: u32) -> io::Result<()> {
        let about = self.about.clone();
        if about.ring.is_some() {
            let left = &mut self.windows[stream as usize];
            left.header.owner = 0;
            self.write_window(stream)?;
            let number = self.take_block()?;
            // The block keeps the slots of the previous lap.
            let window = &mut self.windows[stream as usize];
            let left = std::mem::replace(&mut window.number, number);
            window.header.owner = window.tid;
            self.taken.retain(|taken| *taken != left);
        } else {
            let window = &self.windows[stream as usize];
            let header = BlockHeader { kind: block::CHUNK, used: window.used as u32, owner: 0, ..window.header };
            let mut trailer = ChunkTrailer { magic: TRAILER_MAGIC, stream, ..ChunkTrailer::default() };
            (trailer.base, trailer.used) = (header.base, header.used);
            let mut chunk = Vec::with_capacity(BLOCK);
            chunk.extend_from_slice(record::plain_bytes(&header));
            chunk.extend_from_slice(&window.slots);
            chunk.extend_from_slice(record::plain_bytes(&trailer));
            let number = self.take_block()?;
            self.file.write(&chunk, number as usize * BLOCK)?;
        }
        let window = &mut self.windows[stream as usize];
        window.header.base += window.used as u64;
        window.header.tid = window.tid;
        window.header.begun = about.moment_at(window.time);
        window.used = 0;
        if about.at_once {
            self.write_window_header(stream)?;
        }
        Ok(())
    }

    /// Returns the number of a free block.
    fn take_block(&mut self) -> io::Result<u32> {
        let count = self.about.ring.unwrap_or(0);
        let number = if self.about.ring.is_some() {
            let free = (1..count).find_map(|i| {
                let number = 1 + (self.next_in_ring + i - 2) % (count - 1);
                (!self.taken.contains(&number)).then_some(number)
            });
            let number = free.ok_or_else(|| io::Error::other("the ring has no block left"))?;
            self.next_in_ring = number + 1;
            self.taken.push(number);
            number
        } else {
            self.header.next_block as u32
        };
        self.header.next_block += 1;
        if self.about.at_once {
            self.write_header()?;
        }
        Ok(number)
    }

    fn write_window_header(&mut self, stream: u32) -> io::Result<()> {
        let window = &self.windows[stream as usize];
        self.file.write(record::plain_bytes(&window.header), window.number as usize * BLOCK)
    }

    fn write_window(&mut self, stream: u32) -> io::Result<()> {
        self.write_window_header(stream)?;
        let window = &self.windows[stream as usize];
        let place = window.number as usize * BLOCK + size_of::<BlockHeader>();
        self.file.write(&window.slots, place)?;
        self.file.write(&[0; SLOT], place + SLOTS * SLOT)
    }

    /// Writes all windows that are in memory to the file.
    pub(super) fn write_windows(&mut self) -> io::Result<()> {
        for stream in 0..self.windows.len() as u32 {
            let time = self.windows[stream as usize].time;
            if time > self.header.last.ticks {
                self.header.last = self.about.moment_at(time);
            }
            self.write_window(stream)?;
        }
        self.write_header()
    }

    /// Appends an entry about the process. `tag` is the kind of entry.
    pub fn entry(&mut self, tag: u16, pieces: &[&[u8]]) -> io::Result<()> {
        let body = pieces.concat();
        let head = meta::Head { magic: meta::MAGIC, tag, length: body.len() as u32 };
        let needed = (size_of::<meta::Head>() + body.len()).next_multiple_of(meta::ALIGN);
        if self.meta.1 + needed > BLOCK {
            let number = self.take_block()?;
            let header = BlockHeader { magic: BLOCK_MAGIC, kind: block::META, ..BlockHeader::default() };
            let mut bytes = vec![0; BLOCK];
            bytes[..size_of::<BlockHeader>()].copy_from_slice(record::plain_bytes(&header));
            self.meta = (number, size_of::<BlockHeader>(), bytes);
        }
        let (number, at, bytes) = &mut self.meta;
        let entry = [&head.magic.to_le_bytes()[..], &head.tag.to_le_bytes(), &head.length.to_le_bytes(), &body];
        let entry = entry.concat();
        bytes[*at..*at + entry.len()].copy_from_slice(&entry);
        *at += needed;
        // Block 0 begins with the file's header, which is written separately.
        let from = if *number == 0 { META_START } else { 0 };
        self.file.write(&bytes[from..], *number as usize * BLOCK + from)
    }
}
