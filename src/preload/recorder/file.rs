//! The file of a process: its header, and the blocks that are allocated in it.
//!
//! Every byte that is written through a mapping was allocated before, because a write to a hole on a full disk raises
//! SIGBUS. A failed allocation is an errno, and costs only recorded calls.

use super::clock;
use crate::job::directory::{Directory, Path, c_path};
use crate::log::{message, status};
use crate::settings::{self, key};
use crate::sys::allocate::{allocate, write_all_at};
use crate::sys::aside::run_blocked_with_stack;
use crate::sys::clock as system_clock;
use crate::sys::errno::errno;
use crate::sys::files;
use crate::sys::line::ShortText;
use crate::sys::opened::{self, FileInfo, OpenedFile, identity};
use crate::sys::pages;
use crate::sys::process::{boot_id, recording_owner_pid};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::{EndSpan, RecordedEnd};
use cupeer_spec::record::{
    self, BLOCK, BlockHeader, CALLED_WORDS, ClockMoment, Header, MAGIC, ProcessFileName, VERSION, mode,
};

/// Number of windows in the list from which threads take over the windows of ended threads. Further windows are not
/// reused.
const MOST_WINDOWS: usize = 4096;

/// Time between a failed attempt to begin a record or to find a window and the next attempt, in nanoseconds.
pub const REST: u64 = 100_000_000;

pub struct File {
    /// Number of this record among the records of the process and its ancestors.
    pub epoch: u64,
    /// Address of the mapped first block of the file, which begins with the header.
    pub header: *mut Header,
    /// Address of the first block of a ring in memory; null if the file is no ring.
    pub ring: *mut u8,
    /// Number of blocks of a ring, including block 0.
    pub ring_blocks: u64,
    /// The chunks that replace one another once the file has reached its limit; `None` without a limit.
    later: Option<LaterChunks>,
    pub windows: [AtomicPtr<BlockHeader>; MOST_WINDOWS],
    pub window_count: AtomicU32,
    descriptor: AtomicI32,
    /// Device and inode of the file.
    identity: (u64, u64),
    path: Path,
    /// True until the file gets its name in the directory.
    is_unnamed: AtomicBool,
    has_complained: AtomicBool,
    /// Time before which no attempt to find a window is made, in nanoseconds of the monotonic clock; 0 without a failed attempt.
    rests_until: AtomicU64,
}

// SAFETY: the header and the ring are shared memory, whose fields are written as atomics or by one thread.
unsafe impl Sync for File {}

/// The chunks in the later half of a file with a limited size. New chunks replace the oldest of these; the chunks in the first
/// half stay. Other blocks are never overwritten: the first one, those with facts about the process, and one per running thread.
/// An eighth of the file is left for more such blocks.
struct LaterChunks {
    /// Largest number of blocks of the file.
    blocks: u64,
    /// Number of the block of each later chunk: 0 if it has no block yet, and [`BUSY`] while a thread writes to it.
    places: &'static [AtomicU32],
    /// Number of entries of `places` that are used in turn; 0 before the first half of the file is full.
    turns: AtomicU64,
    /// Number of chunks that were written, in both halves of the file.
    chunks: AtomicU64,
}

/// Value of an entry of [`LaterChunks::places`] while a thread writes to the block.
const BUSY: u32 = u32::MAX;
/// Smallest number of chunks that are used in turn, even if threads own most of the blocks.
const FEWEST_TURNS: u64 = 4;

impl LaterChunks {
    fn new(limit: u64) -> Result<LaterChunks, c_int> {
        let blocks = limit / BLOCK as u64;
        let places = (blocks - blocks / 2).max(FEWEST_TURNS) as usize;
        let memory = pages::map_zeroed(places * size_of::<AtomicU32>(), 0)?.cast::<AtomicU32>();
        // SAFETY: new memory of that size, all zero, which are atomics; never unmapped.
        let places = unsafe { core::slice::from_raw_parts(memory, places) };
        Ok(LaterChunks { blocks, places, turns: AtomicU64::new(0), chunks: AtomicU64::new(0) })
    }

    /// Claims the place of the next chunk for this thread. Returns the place with the number of its block, if it has a block;
    /// `None` if the chunk belongs to the first half. `used` is the number of blocks that the file has.
    fn claim_next_place(&self, used: u64) -> Option<(&AtomicU32, Option<u32>)> {
        // If another thread is a whole turn late and still has the place, try the next place. If all places are busy, the file
        // grows by a block.
        for _ in 0..self.places.len() {
            let later = self.chunks.fetch_add(1, Relaxed).checked_sub(self.blocks / 2)?;
            let left = self.blocks.saturating_sub(used + self.blocks / 8).clamp(FEWEST_TURNS, self.places.len() as u64);
            let turns = match self.turns.compare_exchange(0, left, Relaxed, Relaxed) {
                Ok(_) => left,
                Err(turns) => turns,
            };
            let place = self.places.get((later % turns) as usize)?;
            match place.swap(BUSY, AcqRel) {
                BUSY => {}
                0 => return Some((place, None)),
                number => return Some((place, Some(number))),
            }
        }
        None
    }
}

/// Facts about this process for the name and the header of its file.
pub struct Identity {
    /// Boot id of the host, as bytes.
    pub boot_id: [u8; 16],
    /// Inode of the pid namespace.
    pub pid_ns: u64,
    pub pid: u32,
    parent: u32,
    pub started: u64,
}

impl Identity {
    pub fn of_owner() -> Self {
        let mut text = [0u8; 1024];
        let pid = recording_owner_pid();
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        // The mounted /proc may belong to an outer pid namespace, in which this process has another pid.
        let name = match core::str::from_utf8(files::read_link(format_args!("/proc/self\0"), &mut text)) {
            Ok(name) if pid == own => ShortText::<16>::new(format_args!("{name}")),
            _ => ShortText::new(format_args!("{pid}")),
        };
        let name = name.text();
        let path = ShortText::<48>::new(format_args!("{}\0", StatPath(name)));
        let length = files::read(path.c_text().unwrap_or_default(), &mut text).unwrap_or(0);
        let stat = Stat::parse(&text[..length]);
        let link = files::read_link(format_args!("/proc/{name}/ns/pid\0"), &mut text);
        let inode = link.split(|byte| b"[]".contains(byte)).nth(1);
        let inode = inode.and_then(|digits| core::str::from_utf8(digits).ok()?.parse().ok());
        Identity {
            boot_id: boot_id(),
            pid_ns: inode.unwrap_or(0),
            pid,
            parent: if pid == own { parent } else { stat.map_or(0, |stat| stat.parent as u32) },
            started: stat.map_or_else(system_clock::realtime, |stat| stat.started),
        }
    }
}

impl File {
    /// Creates the file of this process with one block, with or without a name. The first moment in its header is that of the
    /// first mark, if the program has set a mark already.
    pub fn create(
        directory: &Directory,
        epoch: u64,
        is_named: bool,
        first_mark: fn() -> Option<ClockMoment>,
    ) -> Result<&'static File, c_int> {
        let identity = Identity::of_owner();
        let (file, image, path) = Self::open_new(directory, &identity, is_named)?;
        let made = Self::write_header_and_map(&file, image, path, identity, epoch, first_mark);
        if let Ok(made) = made {
            made.is_unnamed.store(!is_named, Relaxed);
            file.keep_open();
        } else if is_named {
            // SAFETY: the path ends in NUL. An empty file would only disturb readers.
            unsafe { libc::unlink(c_path(&path).as_ptr()) };
        }
        made
    }

    fn open_new(directory: &Directory, identity: &Identity, is_named: bool) -> Result<(OpenedFile, u32, Path), c_int> {
        for attempt in 0..64 + 8 {
            // A process can execute several programs, and the file of each has a number in its name. After 64 programs, the
            // number comes from the time.
            let image = if attempt < 64 { attempt } else { (system_clock::realtime() >> 10) as u32 | 64 };
            let Identity { boot_id, pid_ns, pid, started, .. } = *identity;
            let name =
                ShortText::<96>::new(format_args!("{}", ProcessFileName { boot_id, pid_ns, pid, started, image }));
            let path = directory.path_of(name.text())?;
            let is_taken = || FileInfo::at(c_path(&path), libc::AT_SYMLINK_NOFOLLOW).is_some();
            let made = match is_named {
                true => OpenedFile::create(c_path(&path), directory.mode),
                false if is_taken() => Err(libc::EEXIST),
                false => OpenedFile::create_unnamed(c_path(&directory.path), directory.mode)
                    .or_else(|_| OpenedFile::create_in_memory()),
            };
            match made {
                Err(libc::EEXIST) => {}
                made => {
                    let file = made?;
                    if settings::get().record.as_ref().is_some_and(|record| record.shared) {
                        // Restores the bits that umask cleared.
                        // SAFETY: opened above.
                        unsafe { libc::fchmod(file.descriptor(), directory.mode) };
                    }
                    return Ok((file, image, path));
                }
            }
        }
        Err(libc::EEXIST)
    }

    /// Returns true until the file gets its name in the directory.
    pub fn is_unnamed(&self) -> bool {
        self.is_unnamed.load(Relaxed)
    }

    /// Gives the file its name if it has none. Fails if the file exists only in memory, or if the program closed the descriptor.
    pub fn give_name(&self) -> Result<(), c_int> {
        let descriptor = self.descriptor.load(Acquire);
        if !self.is_open_at(descriptor) {
            return Err(libc::EBADF);
        }
        let from = ShortText::<32>::new(format_args!("/proc/self/fd/{descriptor}\0"));
        let (from, to) = (from.c_text().unwrap_or_default(), c_path(&self.path));
        // SAFETY: both paths end in NUL.
        let linked = unsafe {
            let at = libc::AT_FDCWD;
            libc::linkat(at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
        };
        let error = errno();
        // Another thread may have given the file its name in the meantime.
        let is_there = || FileInfo::at(to, 0).is_some_and(|about| about.identity == self.identity);
        if linked != 0 && !is_there() {
            return Err(error);
        }
        self.is_unnamed.store(false, Relaxed);
        Ok(())
    }

    /// Writes the header of a new file, and keeps the mapped file for as long as the process runs.
    fn write_header_and_map(
        file: &OpenedFile,
        image: u32,
        path: Path,
        identity: Identity,
        epoch: u64,
        first_mark: fn() -> Option<ClockMoment>,
    ) -> Result<&'static File, c_int> {
        let record = settings::get().record.as_ref();
        let ring = record.and_then(|record| record.ring);
        let ring_blocks = ring.map_or(0, |size| size / BLOCK as u64);
        let later = record.and_then(|record| record.limit).map(LaterChunks::new).transpose()?;
        let descriptor = file.descriptor();
        let mapped = if ring.is_some() {
            allocate(descriptor, 0, ring_blocks * BLOCK as u64)?;
            file.map(0, ring_blocks as usize * BLOCK)?
        } else {
            allocate_begin(descriptor, 0)?;
            file.map(0, BLOCK)?
        };
        let header = mapped.cast::<Header>();
        let mode = if ring.is_some() { mode::RING } else { mode::FULL };
        let blocks = later.as_ref().map_or(ring_blocks, |later| later.blocks);
        let new = Self::new_header(mode, blocks, image, &identity, first_mark);
        // SAFETY: mapped above, long enough, and nobody else's yet. The magic is written last, because a file without it is no record.
        unsafe {
            header.write(new);
            (&raw mut (*header).magic).write_volatile(MAGIC);
        }
        let kept = pages::map_zeroed(size_of::<File>(), 0)?.cast::<File>();
        // SAFETY: new memory of that size, all zero, which is what the windows begin with; never unmapped.
        unsafe {
            (&raw mut (*kept).epoch).write(epoch);
            (&raw mut (*kept).header).write(header);
            (&raw mut (*kept).ring).write(if ring.is_some() { mapped } else { ptr::null_mut() });
            (&raw mut (*kept).ring_blocks).write(ring_blocks);
            (&raw mut (*kept).later).write(later);
            (&raw mut (*kept).descriptor).write(AtomicI32::new(descriptor));
            (&raw mut (*kept).identity).write(file.info().identity);
            (&raw mut (*kept).path).write(path);
            Ok(&*kept)
        }
    }

    /// Returns the header of a new file, without its magic, which is written last.
    fn new_header(
        mode: u32,
        ring_blocks: u64,
        image: u32,
        identity: &Identity,
        first_mark: fn() -> Option<ClockMoment>,
    ) -> Header {
        let clock = clock::choose();
        let (now, early) = (clock::moment(), first_mark());
        let [first_half, last_half] = key::words(key::get());
        Header {
            magic: [0; 8],
            version: VERSION,
            block: BLOCK as u32,
            mode,
            clock,
            boot_id: identity.boot_id,
            pid_ns: identity.pid_ns,
            pid: identity.pid,
            parent: identity.parent,
            started: identity.started,
            image,
            // SAFETY: getuid has no preconditions.
            uid: unsafe { libc::getuid() },
            first: early.unwrap_or(now),
            last: now,
            next_block: 1,
            ring_blocks,
            lost: 0,
            next_stream: 0,
            ended_by: 0,
            key_check: record::live::mix_bits(first_half) ^ record::live::mix_bits(last_half),
            end: record::end::UNSEEN,
            reserved: 0,
            ended: EndSpan::default(),
            called: [0; CALLED_WORDS],
        }
    }

    fn next_block_counter(&self) -> &AtomicU64 {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.header).next_block) }
    }

    fn next_stream_counter(&self) -> &AtomicU32 {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).next_stream) }
    }

    /// Takes the next block of the file. Returns its number.
    pub fn take_next_block(&self) -> u64 {
        self.next_block_counter().fetch_add(1, Relaxed)
    }

    /// Returns the number of the block that was taken last.
    pub fn last_block(&self) -> u64 {
        self.next_block_counter().load(Relaxed) - 1
    }

    /// Returns true if no thread of the process has recorded a call.
    pub fn has_no_stream(&self) -> bool {
        self.next_stream_counter().load(Relaxed) == 0
    }

    /// Takes the next stream. Returns its number.
    pub fn take_next_stream(&self) -> u32 {
        self.next_stream_counter().fetch_add(1, Relaxed)
    }

    /// Notes in the header how the process ends. Does nothing in a child of vfork, which shares our memory but ends on its own.
    pub fn note_end(&self, end: RecordedEnd) {
        if self.is_own() {
            // The executed program may run for long, so its start is not an end time.
            let now = if end == RecordedEnd::Executed { 0 } else { system_clock::now() };
            // SAFETY: fields of the header, which is mapped for good; this process alone writes them while it runs.
            unsafe {
                (&raw mut (*self.header).ended).write_volatile(EndSpan::at(now));
                AtomicU32::from_ptr(&raw mut (*self.header).end).store(end.to_word(), Relaxed);
            }
        }
    }

    /// Returns true if this is the file of the calling process. False in a child of vfork, which shares its parent's memory.
    pub fn is_own(&self) -> bool {
        // SAFETY: the header is mapped for good, and its pid does not change.
        unsafe { (*self.header).pid == std::process::id() }
    }

    /// Returns the bits of [`Header::called`], one for each called function.
    pub fn called_functions(&self) -> &'static [AtomicU64; CALLED_WORDS] {
        // SAFETY: the header is mapped for good, and the field is aligned and only used as atomics.
        unsafe { &*(&raw const (*self.header).called).cast() }
    }

    /// Returns the counter of calls that could not be recorded.
    pub fn lost_calls(&self) -> &AtomicU64 {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.header).lost) }
    }

    /// Appends a new block to the file, and maps it. Returns its address.
    pub fn new_block(&self) -> Result<*mut u8, c_int> {
        self.new_block_at(ptr::null_mut())
    }

    /// Appends a new block to the file, and maps it in place of the mapping at `place`, unless `place` is null.
    pub fn new_block_at(&self, place: *mut u8) -> Result<*mut u8, c_int> {
        self.append(|descriptor, number| {
            let at = number * BLOCK as u64;
            allocate(descriptor, at, BLOCK as u64)?;
            opened::map(place, descriptor, self.identity, at, BLOCK)
        })
    }

    /// Appends a new window to the file, and maps it. Only its first [`FIRST_ROOM`] bytes are allocated, because most processes
    /// record few calls.
    pub fn new_window(&self) -> Result<*mut BlockHeader, c_int> {
        self.append(|descriptor, number| {
            let at = number * BLOCK as u64;
            allocate_begin(descriptor, at)?;
            let window = opened::map(ptr::null_mut(), descriptor, self.identity, at, BLOCK)?;
            let window = window.cast::<BlockHeader>();
            // SAFETY: mapped above, with room for its header, and nobody else's yet.
            unsafe { ((*window).number, (*window).room) = (number as u32, (FIRST_ROOM / 64 - 1) as u32) };
            Ok(window)
        })
    }

    /// Appends a block to the file with `make`. If that fails, takes the block's number back unless another thread has taken the
    /// next number: otherwise the file would grow with each attempt.
    fn append<T>(&self, mut make: impl FnMut(c_int, u64) -> Result<T, c_int>) -> Result<T, c_int> {
        let number = self.take_next_block();
        let made = self.with_descriptor(|descriptor| make(descriptor, number));
        if made.is_err() {
            let _ = self.next_block_counter().compare_exchange(number + 1, number, Relaxed, Relaxed);
        }
        made
    }

    /// Extends the allocated part of a block, which ends at offset `from`, to four times that size or to the whole block. Returns
    /// the new end.
    pub fn extend(&self, number: u32, from: usize) -> Result<usize, c_int> {
        let to = (4 * from).min(BLOCK);
        self.with_descriptor(|descriptor| {
            allocate(descriptor, u64::from(number) * BLOCK as u64 + from as u64, (to - from) as u64)?;
            if self.is_open_at(descriptor) { Ok(to) } else { Err(libc::ESTALE) }
        })
    }

    /// Prevents attempts to find a window for [`REST`] nanoseconds, because each failed attempt costs the program as much as a
    /// hundred calls.
    pub fn delay_next_attempt(&self) {
        self.rests_until.store(system_clock::now() + REST, Relaxed);
    }

    /// Returns true if it is too early for another attempt to find a window.
    pub fn is_attempt_delayed(&self) -> bool {
        let until = self.rests_until.load(Relaxed);
        until != 0 && system_clock::now() < until
    }

    /// Writes a chunk, which consists of three pieces: to the end of the file or, if the file has reached its limit, in place of
    /// an old chunk.
    pub fn add_chunk(&self, pieces: [libc::iovec; 3]) -> Result<(), c_int> {
        let append = || self.append(|descriptor, number| self.write(descriptor, number, pieces).map(|()| number));
        let taken = self.later.as_ref().and_then(|later| later.claim_next_place(self.last_block() + 1));
        let Some((place, old)) = taken else { return append().map(drop) };
        let written = match old {
            None => append(),
            Some(number) => {
                self.note_overwriting();
                let number = u64::from(number);
                self.with_descriptor(|descriptor| self.write(descriptor, number, pieces)).map(|()| number)
            }
        };
        place.store(written.as_ref().map_or(old.unwrap_or(0), |number| *number as u32), Release);
        written.map(drop)
    }

    fn write(&self, descriptor: c_int, number: u64, pieces: [libc::iovec; 3]) -> Result<(), c_int> {
        let (mut left, at) = (pieces, (number * BLOCK as u64) as i64);
        files::without_signals(|| write_all_at(descriptor, &mut left, at))?;
        if self.is_open_at(descriptor) { Ok(()) } else { Err(libc::ESTALE) }
    }

    /// Notes in the header that new chunks overwrite old ones.
    fn note_overwriting(&self) {
        // SAFETY: the header is mapped for good, and the field is aligned and from here on only used as an atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).mode) }.store(mode::BOUNDED, Release);
    }

    /// Runs `work` with the descriptor of the file. Runs it again if the program used the descriptor's number for another file
    /// while `work` ran.
    fn with_descriptor<T>(&self, mut work: impl FnMut(c_int) -> Result<T, c_int>) -> Result<T, c_int> {
        for _ in 0..16 {
            let descriptor = self.descriptor()?;
            match work(descriptor) {
                Err(_) if !self.is_open_at(descriptor) => {}
                done => return done,
            }
        }
        Err(libc::ESTALE)
    }

    /// Returns true if a descriptor refers to this file.
    fn is_open_at(&self, descriptor: c_int) -> bool {
        identity(descriptor) == Some(self.identity)
    }

    /// Returns the descriptor of the file, after opening the file again if the program closed the descriptor.
    fn descriptor(&self) -> Result<c_int, c_int> {
        let descriptor = self.descriptor.load(Acquire);
        if self.is_open_at(descriptor) {
            return Ok(descriptor);
        }
        let file = OpenedFile::open(c_path(&self.path), libc::O_RDWR)?;
        if file.info().identity != self.identity {
            return Err(libc::ESTALE);
        }
        let new = file.keep_open();
        match self.descriptor.compare_exchange(descriptor, new, AcqRel, Acquire) {
            Ok(_) => Ok(new),
            Err(others) => {
                // SAFETY: opened above, and not published.
                unsafe { libc::close(new) };
                Ok(others)
            }
        }
    }

    /// Closes the descriptor that a forked child inherited with the file of its parent.
    pub fn close_inherited(&self) {
        let descriptor = self.descriptor.load(Relaxed);
        if self.is_open_at(descriptor) {
            // SAFETY: the child's own copy of a descriptor that nobody uses any more.
            unsafe { libc::close(descriptor) };
        }
    }

    /// Prints that calls are lost from now on, and why. Prints it only once.
    #[cold]
    #[inline(never)]
    pub fn complain(&self, error: c_int) {
        // SAFETY: the header is mapped for good.
        unsafe { (&raw mut (*self.header).ended_by).write_volatile(error as u32) };
        if self.has_complained.swap(true, Relaxed) {
            return;
        }
        if !run_blocked_with_stack(|| self.print_why(error)) {
            // Nothing was printed, so the next lost call tries again.
            self.has_complained.store(false, Relaxed);
        }
    }

    fn print_why(&self, error: c_int) {
        status::count(|status| &status.record_lost);
        let reason = message::ErrnoText(error);
        let path = message::LossyText(c_path(&self.path).to_bytes());
        if error == libc::EBUSY {
            let mut text = [0u8; 1024];
            let length = files::read(c"/proc/self/stat", &mut text).unwrap_or(0);
            let threads = Stat::parse(&text[..length]).map_or(0, |stat| stat.threads);
            // Each ended thread keeps a block for its last calls, so twice as many blocks are needed.
            let blocks = (2 * (threads + 1)).max(2 * self.ring_blocks);
            let size = (blocks * BLOCK as u64).div_ceil(1 << 20);
            message::print_line(format_args!(
                "the ring {path} is too small for {threads} threads: each thread that calls needs {} KiB of it; calls of the \
                 others are lost. Record with ring:{size}M or more",
                BLOCK >> 10
            ));
            return;
        }
        message::print_line(format_args!("cannot write the recording {path}: {reason}; events are lost"));
    }
}

/// Number of bytes of a window that are allocated at first.
pub const FIRST_ROOM: usize = 16 * 1024;

/// Allocates the first bytes of a block, after the last bytes of the block, so that the file consists of whole blocks even if the
/// process is killed.
fn allocate_begin(descriptor: c_int, at: u64) -> Result<(), c_int> {
    const END: usize = 4096;
    allocate(descriptor, at + (BLOCK - END) as u64, END as u64)?;
    allocate(descriptor, at, FIRST_ROOM as u64)
}
