//! The format of a recording, which libcupeer.so writes and `cupeer report` reads.
//!
//! A recording is a directory for one job. It contains a file `job` ([`job`]), one file `PROC.cupeer` per
//! process, and one table of open handles per host, `live-BOOT` ([`live`]). With fault plans, it also
//! contains their counters ([`faults`]). The files of a large job's processes are in one folder per host
//! ([`begun`]). All numbers are little-endian.
//!
//! # The file of a process
//!
//! The file is a sequence of blocks of [`BLOCK`] bytes. Block 0 starts with the [`Header`]. Entries about the
//! process follow from [`META_START`] on ([`meta`]). Every other block starts with a [`BlockHeader`], which
//! has its kind:
//!
//! - A *window* is mapped into the process, and its thread writes there. The kernel keeps the data even if
//!   the process dies. Unused parts of a window, and of block 0, are holes in the file. A full window is
//!   copied to a chunk and reused. If a signal handler's call fills the window while the call that it
//!   interrupted is about to write there, the window itself becomes a chunk, and the thread continues in a
//!   new window.
//! - A *chunk* is such a copy. It is valid only if its [`ChunkTrailer`], the last slot, repeats its header. If the
//!   process died while it wrote a chunk, the slots are still in the window.
//! - If the size of a file is limited, and the file has reached its limit, each new chunk replaces the oldest
//!   one in the second half of the file ([`mode::BOUNDED`]). Its header is written first and its trailer
//!   last, so that a torn chunk is neither the old nor the new one.
//! - The recording of a ring has no chunks. A thread leaves a full *ring* block, and takes the next one,
//!   which may be the oldest.
//! - A *meta* block has more entries about the process.
//!
//! # Streams and slots
//!
//! A stream is a sequence of slots of 64 bytes ([`slot`]). One thread at a time writes to it. When that
//! thread has ended, another may continue the stream, after a [`slot::THREAD`] slot. Slots are numbered
//! through the whole stream. The first slot of a block has the number `base` of its header. Slot `i` is valid
//! if its `seq` is the low half of `base + i`; otherwise, it is left over from an earlier lap. Each stream of
//! a ring starts with another number ([`first_ring_number`]), so that slots of other streams are not valid
//! either.
//!
//! A call is recorded as [`slot::PENDING`] before it is forwarded, and becomes [`slot::RETURNED`] afterwards.
//! The first word of a slot is written last.
//!
//! # Repetitions
//!
//! If a thread fails many times in the same way, a [`slot::RepeatedCalls`] counts its calls beyond a limit.
//!
//! The kind of a call is its thread, function, result, and return address. A call that carries a stack has it
//! in the first events of its kind, in the first one in each block, in every event whose number in the kind
//! is a power of two, and whenever the height of the stack differs from the last one. Other events share the
//! stack of the last event before them. In a recording of version 1, either each event has its stack, or none
//! has.
//!
//! # Reading during the recording
//!
//! First, look for all blocks. Then look again from the first block that was missing or not valid. The chunks
//! before a window were valid before the window got its `base`, but the first look may have passed their
//! places by then.
//!
//! Read a window twice, and compare the headers of both readings:
//!
//! - If `stream` and `base` are equal, and the kind is equal or now that of a chunk, take the first word of
//!   each slot from the first reading. Take the rest from the second reading, if its first word still has
//!   that `seq`.
//! - Otherwise, the window was copied: a chunk with the old `base` has its slots.
//!
//! Use slots that are both in a window and in a chunk of the stream only once.
//!
//! # Versions
//!
//! [`VERSION`] is increased if an older reader would misread a recording. Parts that older readers skip (an
//! unknown kind of block, slot, meta entry, or detail) do not increase it. The numbers of the table's
//! functions differ between versions of cupeer, so a recording contains their names ([`meta::FUNCTION`]).

pub mod armed;
pub mod begun;
pub mod counted;
pub mod end;
pub mod faults;
pub mod job;
pub mod live;
pub mod meta;
pub mod slot;

/// First bytes of a process's file.
pub const MAGIC: [u8; 8] = *b"cupeer\0R";
/// The version of the format.
pub const VERSION: u32 = 2;
/// The oldest version that is read: at least the one before.
pub const OLDEST: u32 = 1;
/// Size of a block in bytes. A thread takes some microseconds to continue in the next block. With this size,
/// that affects less than one call in two thousand.
pub const BLOCK: usize = 128 * 1024;
/// Offset in block 0 of the entries about the process.
pub const META_START: usize = 512;
/// Number of words of [`Header::called`].
pub const CALLED_WORDS: usize = 8;
/// Number of slots of a block between its header and its trailer.
pub const SLOTS: usize = BLOCK / 64 - 2;

/// Returns the number of the first slot of a stream in a ring. All blocks of the stream begin with this number plus a
/// multiple of [`SLOTS`]. So no block has the number of another stream's block, except by chance after 2^32 slots, or
/// with more than [`SLOTS`] streams.
pub const fn first_ring_number(stream: u32) -> u64 {
    stream as u64 % SLOTS as u64
}

/// The suffix of the file of a process.
pub const SUFFIX: &str = ".cupeer";

/// Name of a process's file, which has everything that is needed to find the recording of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessFileName {
    /// Raw bytes, the first of which are in the name.
    pub boot_id: [u8; 16],
    /// Inode of the process's pid namespace.
    pub pid_ns: u64,
    /// Pid of the process in that namespace.
    pub pid: u32,
    /// Start time, in ticks of the system since boot.
    pub started: u64,
    /// Number of programs with a recording of their own that the process executed before this one.
    pub image: u32,
}

impl core::fmt::Display for ProcessFileName {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        let Self { boot_id: [a, b, c, d, ..], pid_ns, pid, started, image } = *self;
        let boot = u32::from_be_bytes([a, b, c, d]);
        write!(f, "{boot:08x}-{pid_ns}-{pid}-{started}")?;
        if image > 0 {
            write!(f, "-{image}")?;
        }
        f.write_str(SUFFIX)
    }
}

/// Sizes in bytes that a ring may have. Each process maps its whole ring.
pub const RING_SIZES: core::ops::RangeInclusive<u64> = 8 * BLOCK as u64..=1 << 40;

/// A moment on three clocks.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClockMoment {
    /// Time on the clock of the events: see [`Header::clock`].
    pub ticks: u64,
    /// Time of CLOCK_MONOTONIC in nanoseconds.
    pub monotonic: u64,
    /// Time of CLOCK_REALTIME in nanoseconds.
    pub realtime: u64,
}

/// The clocks of events.
pub mod clock {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub const MONOTONIC: u32 = 0;
    /// The processor's counter, if the kernel itself uses it as its clock: it is the same on all processors
    /// of the host. Its speed follows from two [`super::ClockMoment`]s.
    pub const COUNTER: u32 = 1;
}

/// Selection of events that a recording keeps.
pub mod mode {
    /// The recording keeps all events.
    pub const FULL: u32 = 0;
    /// The recording keeps the last events, and all objects that are still open.
    pub const RING: u32 = 1;
    /// The recording keeps the first events, the last events, and all objects that are still open. Such a recording
    /// was [`FULL`] until it reached its limit.
    pub const BOUNDED: u32 = 2;
}

/// The start of a process's file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// First bytes of the file: [`MAGIC`].
    pub magic: [u8; 8],
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Size of a block in bytes: [`BLOCK`].
    pub block: u32,
    /// Selection of events that the recording keeps: a constant of [`mode`].
    pub mode: u32,
    /// Clock of the events: a constant of [`clock`].
    pub clock: u32,
    /// Boot id of the host: the bytes of /proc/sys/kernel/random/boot_id.
    pub boot_id: [u8; 16],
    /// Inode of the process's pid namespace.
    pub pid_ns: u64,
    /// Pid of the process in its own namespace.
    pub pid: u32,
    /// Pid of the parent process.
    pub parent: u32,
    /// Start time: field 22 of /proc/PID/stat, in ticks of the system since boot.
    pub started: u64,
    /// Number of programs that this process executed under cupeer before this one.
    pub image: u32,
    /// User id of the process.
    pub uid: u32,
    /// Time at which the file was created.
    pub first: ClockMoment,
    /// A later moment, for the speed of the clock.
    pub last: ClockMoment,
    /// Number of the next free block.
    pub next_block: u64,
    /// Number of blocks in a ring. For other files: the limit on the number of blocks; 0 for none.
    pub ring_blocks: u64,
    /// Number of events that could not be recorded.
    pub lost: u64,
    /// Number of the next free stream.
    pub next_stream: u32,
    /// Nonzero if the process lost its recording: the errno.
    pub ended_by: u32,
    /// Hash of the job's key. Recordings with another hash have other fingerprints.
    pub key_check: u64,
    /// End of the process: see [`end`]. 0 in recordings of versions without it.
    pub end: u32,
    /// Unused; 0.
    pub reserved: u32,
    /// Time of the end. 0 in recordings of versions without it.
    pub ended: end::EndSpan,
    /// A bit for each function that the process, or the process that it was forked from, has called, whether recorded
    /// or not. [`called_bit`] returns the position of a bit. 0 in recordings of versions without the field.
    pub called: [u64; CALLED_WORDS],
}

/// Returns the position of a function's bit in [`Header::called`]: the index of the word, and the bit in it. `number`
/// is the number of the function in the recording.
pub const fn called_bit(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

/// The kinds of blocks.
pub mod block {
    /// Block that a thread writes to: a *window* in the documentation of [`super`].
    pub const WINDOW: u16 = 1;
    /// Copy of a full window: a *chunk* in the documentation of [`super`].
    pub const CHUNK: u16 = 2;
    /// Block of a ring: see the documentation of [`super`].
    pub const RING: u16 = 3;
    /// Block with entries about the process: a *meta* block in the documentation of [`super`].
    pub const META: u16 = 4;
}

/// The start of every block but the first.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// First bytes of the block: [`BLOCK_MAGIC`].
    pub magic: u32,
    /// Kind of the block: a constant of [`block`].
    pub kind: u16,
    /// Unused; 0.
    pub reserved: u16,
    /// Number of the stream whose slots are in the block.
    pub stream: u32,
    /// Thread id of the thread that wrote the first slot of the block.
    pub tid: u32,
    /// Number of the first slot of the block in the stream.
    pub base: u64,
    /// In a chunk: number of slots in it.
    pub used: u32,
    /// In a window or ring block: thread id of the thread that writes to it; 0 if there is none.
    pub owner: u32,
    /// Time at which the block was begun.
    pub begun: ClockMoment,
    /// In a window: the number of its slots that the file has space for so far; 0 for all. Readers do not
    /// need it.
    pub room: u32,
    /// In a window: number of the block in the file.
    pub number: u32,
}

impl BlockHeader {
    /// Returns true if this header still belongs to the slots that were read before it, from a block with this kind,
    /// stream, and base. A thread writes the header first when it begins the next lap. A window may have become a
    /// chunk in place.
    pub const fn still_is(&self, kind: u16, stream: u32, base: u64) -> bool {
        let is_kind = self.kind == kind || kind == block::WINDOW && self.kind == block::CHUNK;
        is_kind && self.stream == stream && self.base == base
    }
}

/// First bytes of a block.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"CUPB");

/// The last slot of a chunk.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ChunkTrailer {
    /// First bytes of the trailer: [`TRAILER_MAGIC`].
    pub magic: u32,
    /// Number of the stream, as in the header of the chunk.
    pub stream: u32,
    /// Number of the first slot in the stream, as in the header of the chunk.
    pub base: u64,
    /// Number of slots, as in the header of the chunk.
    pub used: u32,
    /// Unused; 0.
    pub reserved: [u32; 11],
}

/// First bytes of a trailer.
pub const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"CUPE");

const _: () = {
    assert!(size_of::<Header>() <= META_START);
    assert!(size_of::<BlockHeader>() == 64 && size_of::<ChunkTrailer>() == 64 && size_of::<slot::Slot>() == 64);
};

/// A type that consists of numbers without padding, so that every sequence of bytes of its size is a valid value.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, and every pattern of bits is a value of it.
pub unsafe trait PlainData: Copy {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for Header {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for BlockHeader {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for ChunkTrailer {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for slot::Slot {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for live::Header {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for live::Entry {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for slot::finding::FindingObject {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for slot::hit::FiredFault {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl PlainData for faults::Header {}

/// Reads a value from the start of some bytes; `None` if there are too few.
pub fn read_plain<T: PlainData>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and any bytes are a `T`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the bytes of a value.
pub fn plain_bytes<T: PlainData>(value: &T) -> &[u8] {
    // SAFETY: a `T` is that many bytes, all of them initialized, because it has no padding.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}
