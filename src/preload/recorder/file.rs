//! The file of a process: its header, and the blocks that are allocated from it.
//!
//! Every byte that is written through a mapping was allocated before, because a write to a hole on a full disk raises
//! SIGBUS. A failed allocation is an errno, and costs only recorded calls.

use super::clock;
use crate::job::directory::{Directory, Path, c_path};
use crate::log::{message, status};
use crate::settings::{self, key};
use crate::sys::allocate::{allocate, write_all_at};
use crate::sys::aside::aside;
use crate::sys::clock as system_clock;
use crate::sys::errno::errno;
use crate::sys::files;
use crate::sys::line::Short;
use crate::sys::opened::{self, FileInfo, Opened, identity};
use crate::sys::pages;
use crate::sys::process::{boot_id, owner};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::{End, Span};
use cupeer_spec::record::{
    self, BLOCK, BlockHeader, CALLED_WORDS, FileName, Header, MAGIC, Moment, VERSION, mode,
};

/// The most windows whose threads are looked after, so that others can go on with them.
const WINDOWS: usize = 4096;

/// The nanoseconds between a failed attempt to make a record, or to find a window, and the next.
pub const REST: u64 = 100_000_000;

pub struct File {
    /// Its number in this process and its ancestors.
    pub epoch: u64,
    /// Its first block, mapped.
    pub header: *mut Header,
    /// Where the mapped blocks of a ring begin; null where there is no ring.
    pub ring: *mut u8,
    /// How many blocks a ring has, the first one included.
    pub ring_blocks: u64,
    /// What is overwritten once the file has reached its limit, where it has one.
    later: Option<Later>,
    pub windows: [AtomicPtr<BlockHeader>; WINDOWS],
    pub window_count: AtomicU32,
    descriptor: AtomicI32,
    device: u64,
    inode: u64,
    path: Path,
    /// Whether no name leads to it yet.
    is_unnamed: AtomicBool,
    complained: AtomicBool,
    /// When the next attempt is due to find a window after one has failed, on the monotonic clock.
    rests_until: AtomicU64,
}

// SAFETY: the header and the ring are shared memory, whose fields are written as atomics or by one thread.
unsafe impl Sync for File {}

/// The chunks of a file that may not exceed a size: those in its first half stay, and the later ones take turns. The file has
/// blocks besides, which are never given up: the first one, those with facts, and one for each thread that is running. An eighth
/// is left for those that come later.
struct Later {
    /// How many blocks the file may have.
    blocks: u64,
    /// The places of later chunks: the number of the block of each, 0 where it has none yet, and [`BUSY`] while a thread writes to it.
    places: &'static [AtomicU32],
    /// How many of them take turns; 0 before the first half is full.
    turns: AtomicU64,
    /// How many chunks were written.
    chunks: AtomicU64,
}

/// See [`Later::places`].
const BUSY: u32 = u32::MAX;
/// The fewest chunks that take turns, where threads have most of the blocks.
const FEWEST: u64 = 4;

impl Later {
    fn new(limit: u64) -> Result<Later, c_int> {
        let blocks = limit / BLOCK as u64;
        let places = (blocks - blocks / 2).max(FEWEST) as usize;
        let memory = pages::new(places * size_of::<AtomicU32>(), 0)?.cast::<AtomicU32>();
        // SAFETY: new memory of that size, all zero, which are atomics; never unmapped.
        let places = unsafe { core::slice::from_raw_parts(memory, places) };
        Ok(Later { blocks, places, turns: AtomicU64::new(0), chunks: AtomicU64::new(0) })
    }

    /// The place of the next chunk, now this thread's, and the number of the block that it has, if any; `None` where the chunk is
    /// one of the first. `used` is how many blocks the file has.
    fn take(&self, used: u64) -> Option<(&AtomicU32, Option<u32>)> {
        // Where a place is another thread's, who is late by a lap, the next one is as good. All are if there are many threads: then
        // the file grows by a block.
        for _ in 0..self.places.len() {
            let later = self.chunks.fetch_add(1, Relaxed).checked_sub(self.blocks / 2)?;
            let left =
                self.blocks.saturating_sub(used + self.blocks / 8).clamp(FEWEST, self.places.len() as u64);
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

/// What the record needs to know of this process before it can make a file.
pub struct Identity {
    /// As bytes.
    pub boot_id: [u8; 16],
    /// The inode of the pid namespace.
    pub pid_ns: u64,
    pub pid: u32,
    parent: u32,
    pub started: u64,
}

impl Identity {
    pub fn of_owner() -> Self {
        let mut text = [0u8; 1024];
        let pid = owner();
        // SAFETY: neither has preconditions.
        let (own, parent) = unsafe { (libc::getpid() as u32, libc::getppid() as u32) };
        // /proc may be that of a namespace above.
        let name = match core::str::from_utf8(files::link(format_args!("/proc/self\0"), &mut text)) {
            Ok(name) if pid == own => Short::<16>::new(format_args!("{name}")),
            _ => Short::new(format_args!("{pid}")),
        };
        let name = name.text();
        let path = Short::<48>::new(format_args!("{}\0", StatPath(name)));
        let length = files::read(path.c_text().unwrap_or_default(), &mut text).unwrap_or(0);
        let stat = Stat::parse(&text[..length]);
        let link = files::link(format_args!("/proc/{name}/ns/pid\0"), &mut text);
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
    /// Makes the file of this process, with one block: with its name at once, or without one. It begins with the first
    /// mark, if there is one already.
    pub fn create(
        directory: &Directory,
        epoch: u64,
        is_named: bool,
        first_mark: fn() -> Option<Moment>,
    ) -> Result<&'static File, c_int> {
        let identity = Identity::of_owner();
        let (file, image, path) = Self::open_new(directory, &identity, is_named)?;
        let made = Self::fill(&file, image, path, identity, epoch, first_mark);
        if let Ok(made) = made {
            made.is_unnamed.store(!is_named, Relaxed);
            file.keep();
        } else if is_named {
            // SAFETY: made by us; a file that says nothing is in the way of those who read.
            unsafe { libc::unlink(c_path(&path).as_ptr()) };
        }
        made
    }

    fn open_new(
        directory: &Directory,
        identity: &Identity,
        is_named: bool,
    ) -> Result<(Opened, u32, Path), c_int> {
        for attempt in 0..64 + 8 {
            // A process that executes one program after the other; who has done so often, takes the time.
            let image = if attempt < 64 { attempt } else { (system_clock::realtime() >> 10) as u32 | 64 };
            let Identity { boot_id, pid_ns, pid, started, .. } = *identity;
            let name =
                Short::<96>::new(format_args!("{}", FileName { boot_id, pid_ns, pid, started, image }));
            let path = directory.file(name.text())?;
            let is_taken = || FileInfo::at(c_path(&path), libc::AT_SYMLINK_NOFOLLOW).is_some();
            let made = match is_named {
                true => Opened::create(c_path(&path), directory.mode),
                false if is_taken() => Err(libc::EEXIST),
                false => Opened::create_unnamed(c_path(&directory.path), directory.mode)
                    .or_else(|_| Opened::create_in_memory()),
            };
            match made {
                Err(libc::EEXIST) => {}
                made => {
                    let file = made?;
                    if settings::get().record.as_ref().is_some_and(|record| record.shared) {
                        // What umask has taken away.
                        // SAFETY: opened above.
                        unsafe { libc::fchmod(file.descriptor(), directory.mode) };
                    }
                    return Ok((file, image, path));
                }
            }
        }
        Err(libc::EEXIST)
    }

    /// Whether no name leads to it yet.
    pub fn is_unnamed(&self) -> bool {
        self.is_unnamed.load(Relaxed)
    }

    /// Gives it its name, where it has none. It cannot get one where it lies in memory, or where the program has closed its
    /// descriptor.
    pub fn name(&self) -> Result<(), c_int> {
        let descriptor = self.descriptor.load(Acquire);
        if !self.is_under(descriptor) {
            return Err(libc::EBADF);
        }
        let from = Short::<32>::new(format_args!("/proc/self/fd/{descriptor}\0"));
        let (from, to) = (from.c_text().unwrap_or_default(), c_path(&self.path));
        // SAFETY: both paths end in NUL.
        let linked = unsafe {
            let at = libc::AT_FDCWD;
            libc::linkat(at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
        };
        let error = errno();
        // Where another thread was faster, it is there as well.
        let is_there =
            || FileInfo::at(to, 0).is_some_and(|about| about.identity == (self.device, self.inode));
        if linked != 0 && !is_there() {
            return Err(error);
        }
        self.is_unnamed.store(false, Relaxed);
        Ok(())
    }

    fn fill(
        file: &Opened,
        image: u32,
        path: Path,
        identity: Identity,
        epoch: u64,
        first_mark: fn() -> Option<Moment>,
    ) -> Result<&'static File, c_int> {
        let ring = settings::get().record.as_ref().and_then(|record| record.ring);
        let ring_blocks = ring.map_or(0, |size| size / BLOCK as u64);
        let limit = settings::get().record.as_ref().and_then(|record| record.limit);
        let later = limit.map(Later::new).transpose()?;
        let descriptor = file.descriptor();
        let mapped = if ring.is_some() {
            allocate(descriptor, 0, ring_blocks * BLOCK as u64)?;
            file.map(0, ring_blocks as usize * BLOCK)?
        } else {
            allocate_begin(descriptor, 0)?;
            file.map(0, BLOCK)?
        };
        let header = mapped.cast::<Header>();
        let clock = clock::choose();
        let (now, early) = (clock::moment(), first_mark());
        let key = key::get();
        // SAFETY: mapped above, long enough, and nobody else's yet. getppid and getuid have no preconditions.
        unsafe {
            header.write(Header {
                magic: [0; 8],
                version: VERSION,
                block: BLOCK as u32,
                mode: if ring.is_some() { mode::RING } else { mode::FULL },
                clock,
                boot_id: identity.boot_id,
                pid_ns: identity.pid_ns,
                pid: identity.pid,
                parent: identity.parent,
                started: identity.started,
                image,
                uid: libc::getuid(),
                first: early.unwrap_or(now),
                last: now,
                next_block: 1,
                ring_blocks: later.as_ref().map_or(ring_blocks, |later| later.blocks),
                lost: 0,
                next_stream: 0,
                ended_by: 0,
                key_check: record::live::mix(u64::from_le_bytes(key[..8].try_into().unwrap_or_default()))
                    ^ record::live::mix(u64::from_le_bytes(key[8..].try_into().unwrap_or_default())),
                end: record::end::UNSEEN,
                reserved: 0,
                ended: Span::default(),
                called: [0; CALLED_WORDS],
            });
            // Last: what has no magic is no record.
            (&raw mut (*header).magic).write_volatile(MAGIC);
        }
        let (device, inode) = file.about().identity;
        let size = size_of::<File>();
        let kept = pages::new(size, 0)?.cast::<File>();
        // SAFETY: new memory of that size, all zero, which is what the windows begin with; never unmapped.
        unsafe {
            (&raw mut (*kept).epoch).write(epoch);
            (&raw mut (*kept).header).write(header);
            (&raw mut (*kept).ring).write(if ring.is_some() { mapped } else { ptr::null_mut() });
            (&raw mut (*kept).ring_blocks).write(ring_blocks);
            (&raw mut (*kept).later).write(later);
            (&raw mut (*kept).descriptor).write(AtomicI32::new(descriptor));
            (&raw mut (*kept).device).write(device);
            (&raw mut (*kept).inode).write(inode);
            (&raw mut (*kept).path).write(path);
            Ok(&*kept)
        }
    }

    fn blocks(&self) -> &AtomicU64 {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.header).next_block) }
    }

    fn streams(&self) -> &AtomicU32 {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).next_stream) }
    }

    /// The number of the next free block.
    pub fn next_block(&self) -> u64 {
        self.blocks().fetch_add(1, Relaxed)
    }

    /// The number of the block that was taken last.
    pub fn last_block(&self) -> u64 {
        self.blocks().load(Relaxed) - 1
    }

    /// Whether no thread has an event in it.
    pub fn has_no_stream(&self) -> bool {
        self.streams().load(Relaxed) == 0
    }

    /// The number of the next free stream.
    pub fn next_stream(&self) -> u32 {
        self.streams().fetch_add(1, Relaxed)
    }

    /// Says how the process ends, where it is this one: a child of vfork has our memory, and an end of its own.
    pub fn ends(&self, end: End) {
        if self.is_own() {
            // Another program may run on for long.
            let now = if end == End::Executed { 0 } else { system_clock::now() };
            // SAFETY: fields of the header, which is mapped for good; this process alone writes them while it runs.
            unsafe {
                (&raw mut (*self.header).ended).write_volatile(Span::at(now));
                AtomicU32::from_ptr(&raw mut (*self.header).end).store(end.word(), Relaxed);
            }
        }
    }

    /// Whether it is this process's: a child of vfork has its parent's memory.
    pub fn is_own(&self) -> bool {
        // SAFETY: the header is mapped for good, and its number does not change; getpid has no preconditions.
        unsafe { (*self.header).pid == libc::getpid() as u32 }
    }

    /// [`Header::called`].
    pub fn called(&self) -> &'static [AtomicU64; CALLED_WORDS] {
        // SAFETY: the header is mapped for good, and the field is aligned and only used as atomics.
        unsafe { &*(&raw const (*self.header).called).cast() }
    }

    /// Counts events that could not be kept.
    pub fn lose(&self, events: u64) {
        // SAFETY: a field of the header, which is mapped for good, aligned, and used only as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.header).lost) }.fetch_add(events, Relaxed);
    }

    /// Whether events could not be kept.
    pub fn has_losses(&self) -> bool {
        // SAFETY: the header is mapped for good, and the field is aligned and only used as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.header).lost) }.load(Relaxed) > 0
    }

    /// Maps a new block at the end of the file.
    pub fn new_block(&self) -> Result<*mut u8, c_int> {
        self.new_block_at(ptr::null_mut())
    }

    /// The same in place of what lies at an address, where that is not null.
    pub fn new_block_at(&self, place: *mut u8) -> Result<*mut u8, c_int> {
        self.append(|descriptor, number| {
            let at = number * BLOCK as u64;
            allocate(descriptor, at, BLOCK as u64)?;
            opened::map(place, descriptor, (self.device, self.inode), at, BLOCK)
        })
    }

    /// Maps a new block at the end of the file, with room only for its first slots: most processes are small.
    pub fn new_window(&self) -> Result<*mut BlockHeader, c_int> {
        self.append(|descriptor, number| {
            let at = number * BLOCK as u64;
            allocate_begin(descriptor, at)?;
            let window = opened::map(ptr::null_mut(), descriptor, (self.device, self.inode), at, BLOCK)?;
            let window = window.cast::<BlockHeader>();
            // SAFETY: mapped above, with room for its header, and nobody else's yet.
            unsafe { ((*window).number, (*window).room) = (number as u32, (FIRST_ROOM / 64 - 1) as u32) };
            Ok(window)
        })
    }

    /// Makes a block at the end of the file. The number of one that could not be had is given back, where it is still the
    /// last: otherwise the file would grow with each attempt.
    fn append<T>(&self, mut make: impl FnMut(c_int, u64) -> Result<T, c_int>) -> Result<T, c_int> {
        let number = self.next_block();
        let made = self.with_descriptor(|descriptor| make(descriptor, number));
        if made.is_err() {
            let _ = self.blocks().compare_exchange(number + 1, number, Relaxed, Relaxed);
        }
        made
    }

    /// Makes room in a block that has some up to `from`: the fourfold, as far as the block goes. Gives up to where.
    pub fn extend(&self, number: u32, from: usize) -> Result<usize, c_int> {
        let to = (4 * from).min(BLOCK);
        self.with_descriptor(|descriptor| {
            allocate(descriptor, u64::from(number) * BLOCK as u64 + from as u64, (to - from) as u64)?;
            if self.is_under(descriptor) { Ok(to) } else { Err(libc::ESTALE) }
        })
    }

    /// No window is looked for until some time has passed: each attempt that fails costs the program a hundred
    /// times what a call does.
    pub fn rest(&self) {
        self.rests_until.store(system_clock::now() + REST, Relaxed);
    }

    /// Whether it is too early for another attempt.
    pub fn is_resting(&self) -> bool {
        let until = self.rests_until.load(Relaxed);
        until != 0 && system_clock::now() < until
    }

    /// Writes a chunk, in pieces: at the end of the file or, where that has reached its limit, in place of an old one.
    pub fn add_chunk(&self, pieces: [libc::iovec; 3]) -> Result<(), c_int> {
        let append =
            || self.append(|descriptor, number| self.write(descriptor, number, pieces).map(|()| number));
        let taken = self.later.as_ref().and_then(|later| later.take(self.last_block() + 1));
        let Some((place, old)) = taken else { return append().map(drop) };
        let written = match old {
            None => append(),
            Some(number) => {
                self.overwrites();
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
        if self.is_under(descriptor) { Ok(()) } else { Err(libc::ESTALE) }
    }

    /// Notes that events are overwritten.
    fn overwrites(&self) {
        // SAFETY: the header is mapped for good, and the field is aligned and from here on only used as an atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).mode) }.store(mode::BOUNDED, Release);
    }

    /// Does something with the descriptor, again where another thread of the program has put something else under it
    /// meanwhile.
    fn with_descriptor<T>(&self, mut work: impl FnMut(c_int) -> Result<T, c_int>) -> Result<T, c_int> {
        for _ in 0..16 {
            let descriptor = self.descriptor()?;
            match work(descriptor) {
                Err(_) if !self.is_under(descriptor) => {}
                done => return done,
            }
        }
        Err(libc::ESTALE)
    }

    /// Whether the file is under a descriptor.
    fn is_under(&self, descriptor: c_int) -> bool {
        identity(descriptor) == Some((self.device, self.inode))
    }

    /// The descriptor, opened again where the program has closed it.
    fn descriptor(&self) -> Result<c_int, c_int> {
        let descriptor = self.descriptor.load(Acquire);
        if self.is_under(descriptor) {
            return Ok(descriptor);
        }
        let file = Opened::open(c_path(&self.path), libc::O_RDWR)?;
        if file.about().identity != (self.device, self.inode) {
            return Err(libc::ESTALE);
        }
        let new = file.keep();
        match self.descriptor.compare_exchange(descriptor, new, AcqRel, Acquire) {
            Ok(_) => Ok(new),
            Err(others) => {
                // SAFETY: opened above, and not published.
                unsafe { libc::close(new) };
                Ok(others)
            }
        }
    }

    /// Called in a child for the file of its parent: what is ours of it is given back.
    pub fn leave_to_parent(&self) {
        let descriptor = self.descriptor.load(Relaxed);
        if self.is_under(descriptor) {
            // SAFETY: the child's own copy of a descriptor that nobody uses any more.
            unsafe { libc::close(descriptor) };
        }
    }

    /// Says once that events are lost from here on, and why.
    #[cold]
    #[inline(never)]
    pub fn complain(&self, error: c_int) {
        // SAFETY: the header is mapped for good.
        unsafe { (&raw mut (*self.header).ended_by).write_volatile(error as u32) };
        if self.complained.swap(true, Relaxed) {
            return;
        }
        if !aside(|| self.say_why(error)) {
            // The next one that is lost says it.
            self.complained.store(false, Relaxed);
        }
    }

    fn say_why(&self, error: c_int) {
        status::record_lost();
        let reason = message::Reason(error);
        let path = message::Text(c_path(&self.path).to_bytes());
        if error == libc::EBUSY {
            let mut text = [0u8; 1024];
            let length = files::read(c"/proc/self/stat", &mut text).unwrap_or(0);
            let threads = Stat::parse(&text[..length]).map_or(0, |stat| stat.threads);
            // The last calls of a thread that ended keep its block, so there are twice as many.
            let blocks = (2 * (threads + 1)).max(2 * self.ring_blocks);
            let size = (blocks * BLOCK as u64).div_ceil(1 << 20);
            message::line(format_args!(
                "the ring {path} is too small for {threads} threads: each thread that calls needs {} KiB of it; calls of the \
                 others are lost. Record with ring:{size}M or more",
                BLOCK >> 10
            ));
            return;
        }
        message::line(format_args!("cannot write the recording {path}: {reason}; events are lost"));
    }
}

/// The bytes of a block that have room at first.
pub const FIRST_ROOM: usize = 16 * 1024;

/// Allocates the start of a block. Its end first, so that the file ends with a block whenever the process is killed.
fn allocate_begin(descriptor: c_int, at: u64) -> Result<(), c_int> {
    const END: usize = 4096;
    allocate(descriptor, at + (BLOCK - END) as u64, END as u64)?;
    allocate(descriptor, at, FIRST_ROOM as u64)
}
