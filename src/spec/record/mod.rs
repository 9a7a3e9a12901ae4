//! The format of a record: what libcupeer.so writes and `cupeer report` reads.
//!
//! A record is a directory, the job. It holds a file `job` ([`job`]), one file `PROC.cupeer` for each process,
//! and for each host a table of what is open, `live-BOOT` ([`live`]); with fault plans, what they did ([`faults`]). The files of
//! the processes of a large job lie in a folder a host ([`begun`]). All numbers are little-endian.
//!
//! # A process's file
//!
//! The file is a row of blocks of [`BLOCK`] bytes. Block 0 begins with the [`Header`]; behind it, from
//! [`META_START`] on, lie entries about the process ([`meta`]). Every other block begins with a
//! [`BlockHeader`], whose kind says what it is:
//!
//! - A *window* is mapped into the process: the thread that owns it writes there, and what is written survives
//!   the death of the process, because the kernel keeps it. As long as it was not needed, the rest of it is a hole in
//!   the file, and so is that of block 0. Full, it is copied to a chunk and used again; or it becomes
//!   a chunk where it is, and the thread goes on in a new window, where a signal handler's call comes to its end while
//!   the call that it has interrupted is about to write there.
//! - A *chunk* is such a copy. It counts only where its [`Trailer`], the last slot, repeats its header: one that
//!   was torn by the death of the process is still in the window.
//! - Where a file may not exceed a size, and has reached it, each new chunk takes the place of the oldest one in the later half
//!   of the file ([`mode::BOUNDED`]). Its header comes first and its trailer last, so that one that is torn is neither.
//! - In the record of a ring there are no chunks: a full *ring* block is left, and the next one is taken, which
//!   may be the oldest.
//! - A *meta* block has more entries about the process.
//!
//! # Streams and slots
//!
//! A stream is a sequence of slots of 64 bytes ([`slot`]). One thread at a time writes to it; when that is gone,
//! another may go on, and says so with a [`slot::THREAD`] slot. Slots are numbered through the whole stream. A
//! block holds the slots from its header's `base` on; slot `i` of the block is there where its `seq` is the low
//! half of `base + i`, and is the remains of an earlier lap where it is not. Each stream of a ring begins with another
//! number ([`first_in_ring`]), so that this holds for the remains of other streams, too.
//!
//! A call is in the record before it is forwarded, as [`slot::PENDING`], and becomes [`slot::RETURNED`]
//! afterwards. A slot's first word is written last.
//!
//! # What comes again and again
//!
//! A thread that fails many times in the same way has its calls counted in a [`slot::Run`], once they exceed a limit. A
//! call that carries return addresses has them in the first events of its kind (thread, function, result, return
//! address), in the first one in each block, in every event whose number in the kind is a power of two, and wherever its
//! stack has another height than the last one. Other events refer to the last one before them. A record of version 1 has
//! them in each event or nowhere.
//!
//! # How to read while it is written
//!
//! Look for all blocks first, and again for those behind the first that was not there or not whole: a window whose
//! `base` was found is preceded by chunks that were whole before that, and may lie behind where the look was then.
//!
//! Read a window twice. Where the headers of both readings have the same `stream` and `base`, and the same `kind` or that
//! of a chunk by now, take each slot's first word from the first reading and all else from the second, where its first
//! word still has that `seq`. Where they have not, the window has been copied: a chunk with the `base` that was found has
//! what it held. Slots of a window that also stand in a chunk of the stream are taken once.
//!
//! # Versions
//!
//! [`VERSION`] rises when an older reader would misread a record. What an older reader can skip (an unknown kind
//! of block, slot, meta entry or detail) does not raise it. The functions of the table are numbered differently
//! in different versions of cupeer, so that a record carries their names ([`meta::FUNCTION`]).

pub mod armed;
pub mod begun;
pub mod counted;
pub mod end;
pub mod faults;
pub mod job;
pub mod live;
pub mod meta;
pub mod slot;

/// What the file of a process begins with.
pub const MAGIC: [u8; 8] = *b"cupeer\0R";
/// The version of the format.
pub const VERSION: u32 = 2;
/// The oldest version that is read: at least the one before.
pub const OLDEST: u32 = 1;
/// The bytes of a block. A thread that has filled one takes some microseconds to go on in the next; with so many
/// slots, that is less than one call in two thousand.
pub const BLOCK: usize = 128 * 1024;
/// Where the entries of block 0 begin.
pub const META_START: usize = 512;
/// The words of [`Header::called`].
pub const CALLED_WORDS: usize = 8;
/// The slots of a block between its header and its trailer.
pub const SLOTS: usize = BLOCK / 64 - 2;

/// The number that a stream of a ring begins with. Its blocks begin with that and a multiple of [`SLOTS`]: none of them is
/// numbered as one of another stream is, but after 2^32 slots or with more than [`SLOTS`] streams, and then by chance.
pub const fn first_in_ring(stream: u32) -> u64 {
    stream as u64 % SLOTS as u64
}

/// The suffix of the file of a process.
pub const SUFFIX: &str = ".cupeer";

/// What the file of a process is called: whoever has these of it finds its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileName {
    /// As bytes; the first of them are in the name.
    pub boot_id: [u8; 16],
    /// The inode of its pid namespace.
    pub pid_ns: u64,
    /// Its pid there.
    pub pid: u32,
    /// When it was started, in ticks of the system since boot.
    pub started: u64,
    /// How many programs it had executed before this one that made a record as well.
    pub image: u32,
}

impl core::fmt::Display for FileName {
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

/// The sizes that a ring may have. Each process maps all of its own.
pub const RING_SIZES: core::ops::RangeInclusive<u64> = 8 * BLOCK as u64..=1 << 40;

/// One moment on three clocks.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The clock of the events: see [`Header::clock`].
    pub ticks: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub monotonic: u64,
    /// CLOCK_REALTIME in nanoseconds.
    pub realtime: u64,
}

/// The clocks of events.
pub mod clock {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub const MONOTONIC: u32 = 0;
    /// The processor's counter, where the kernel itself keeps time by it: the same on all processors of the
    /// host. How fast it runs follows from two [`super::Moment`]s.
    pub const COUNTER: u32 = 1;
}

/// Which events a record keeps.
pub mod mode {
    /// All.
    pub const FULL: u32 = 0;
    /// The last ones, and all that is still open.
    pub const RING: u32 = 1;
    /// The first ones, the last ones, and all that is still open. Such a record was [`FULL`] until it reached its limit.
    pub const BOUNDED: u32 = 2;
}

/// The start of a process's file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// [`BLOCK`].
    pub block: u32,
    /// [`mode`].
    pub mode: u32,
    /// [`clock`].
    pub clock: u32,
    /// /proc/sys/kernel/random/boot_id, as bytes: which host, since when.
    pub boot_id: [u8; 16],
    /// The inode of the pid namespace.
    pub pid_ns: u64,
    /// The process, as it knows itself.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// When it was started: field 22 of /proc/PID/stat, in ticks of the system since boot.
    pub started: u64,
    /// How many programs this process had executed under cupeer before this one.
    pub image: u32,
    /// Its user.
    pub uid: u32,
    /// When the file was made.
    pub first: Moment,
    /// A later moment, for the speed of the clock.
    pub last: Moment,
    /// The next free block.
    pub next_block: u64,
    /// A ring's number of blocks; of another file, how many it may have, and 0 where that has no limit.
    pub ring_blocks: u64,
    /// Events that could not be kept.
    pub lost: u64,
    /// The next free stream.
    pub next_stream: u32,
    /// Whether the process has lost its record: 0, or the errno that ended it.
    pub ended_by: u32,
    /// A hash of the job's key: records with another one have other fingerprints.
    pub key_check: u64,
    /// How the process ended: see [`end`]. 0 in records of versions that do not say.
    pub end: u32,
    /// 0.
    pub reserved: u32,
    /// When it ended. 0 in records of versions that do not say.
    pub ended: end::Span,
    /// A bit for each function that the process, or the one that it was forked from, has called, recorded or not, as
    /// [`called_bit`] says. 0 in records of versions that do not say.
    pub called: [u64; CALLED_WORDS],
}

/// The word of [`Header::called`] and the bit in it of the function with a number in the record.
pub const fn called_bit(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

/// The kinds of blocks.
pub mod block {
    /// See [`super`].
    pub const WINDOW: u16 = 1;
    /// See [`super`].
    pub const CHUNK: u16 = 2;
    /// See [`super`].
    pub const RING: u16 = 3;
    /// See [`super`].
    pub const META: u16 = 4;
}

/// The start of every block but the first.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// [`BLOCK_MAGIC`].
    pub magic: u32,
    /// [`block`].
    pub kind: u16,
    /// 0.
    pub reserved: u16,
    /// The stream.
    pub stream: u32,
    /// The thread that wrote its first slot.
    pub tid: u32,
    /// The number of its first slot in the stream.
    pub base: u64,
    /// Of a chunk: how many slots it has.
    pub used: u32,
    /// Of a window or ring block: the thread that writes to it; 0 where nobody does.
    pub owner: u32,
    /// When it was begun.
    pub begun: Moment,
    /// Of a window: how many of its slots have room in the file so far; 0 where all have. No reader needs it.
    pub room: u32,
    /// Of such a window: its number among the blocks.
    pub number: u32,
}

impl BlockHeader {
    /// Whether a block whose slots were read before this header still holds those of this kind, stream and base: its
    /// thread begins the next lap with the header. A window may have become a chunk where it is.
    pub const fn still_is(&self, kind: u16, stream: u32, base: u64) -> bool {
        let is_kind = self.kind == kind || kind == block::WINDOW && self.kind == block::CHUNK;
        is_kind && self.stream == stream && self.base == base
    }
}

/// What a block begins with.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"CUPB");

/// The last slot of a chunk.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// [`TRAILER_MAGIC`].
    pub magic: u32,
    /// As in the header.
    pub stream: u32,
    /// As in the header.
    pub base: u64,
    /// As in the header.
    pub used: u32,
    /// 0.
    pub reserved: [u32; 11],
}

/// What a trailer begins with.
pub const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"CUPE");

const _: () = {
    assert!(size_of::<Header>() <= META_START);
    assert!(size_of::<BlockHeader>() == 64 && size_of::<Trailer>() == 64 && size_of::<slot::Slot>() == 64);
};

/// A type that is nothing but numbers without gaps, so that any bytes of its size are one.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, and every pattern of bits is a value of it.
pub unsafe trait Plain: Copy {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for Header {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for BlockHeader {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for Trailer {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for slot::Slot {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for live::Header {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for live::Entry {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for slot::finding::Object {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for slot::hit::Hit {}
// SAFETY: numbers and arrays of numbers, laid out without gaps: each field is aligned by those before it.
unsafe impl Plain for faults::Header {}

/// Reads a value from the start of bytes, where there are enough of them.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and any bytes are a `T`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value.
pub fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a `T` is that many bytes, all of them initialised, because it has no padding.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}
