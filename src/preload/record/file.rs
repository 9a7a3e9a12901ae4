//! The file of a process: its header, and blocks that are taken from it.
//!
//! Every byte that is written through a mapping was allocated before, because a write to a hole on a full disk
//! is a SIGBUS. What cannot be had is an errno, and costs events alone.

use super::aside::aside;
use super::clock;
use super::place::{self, Directory, Path, c_path};
use crate::files::{self, errno, identity};
use crate::{log, message, settings, status};
use core::ffi::{CStr, c_int, c_void};
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use cupeer_spec::record::{self, BLOCK, BlockHeader, Header, MAGIC, SUFFIX, VERSION, mode};

/// The most windows whose threads are looked after, so that others can go on with them.
const WINDOWS: usize = 4096;

/// So many nanoseconds lie between an attempt to find a window that has failed, and the next.
const REST: u64 = 100_000_000;

/// An open record.
pub struct File {
    /// Its number in this process and its ancestors.
    pub epoch: u64,
    /// Its first block, mapped.
    pub header: *mut Header,
    /// Where the mapped blocks of a ring begin; null where there is no ring.
    pub ring: *mut u8,
    /// How many blocks a ring has, the first one included.
    pub ring_blocks: u64,
    /// The windows.
    pub windows: [AtomicPtr<BlockHeader>; WINDOWS],
    /// How many windows there are.
    pub window_count: AtomicU32,
    descriptor: AtomicI32,
    device: u64,
    inode: u64,
    path: Path,
    complained: AtomicBool,
    /// When the next attempt is due to find a window after one has failed, on the monotonic clock.
    rests_until: AtomicU64,
}

// SAFETY: the header and the ring are shared memory, whose fields are written as atomics or by one thread.
unsafe impl Sync for File {}

/// What the record needs to know of this process before it can make a file.
pub struct Identity {
    /// As bytes.
    pub boot_id: [u8; 16],
    /// The inode of the pid namespace.
    pub pid_ns: u64,
    /// The process.
    pub pid: u32,
    /// When it was started.
    pub started: u64,
}

/// The boot id of the host; zero where it is not known.
pub fn boot_id() -> [u8; 16] {
    let mut text = [0u8; 64];
    let mut boot_id = [0; 16];
    let length = place::read(c"/proc/sys/kernel/random/boot_id", &mut text).unwrap_or(0);
    let mut digits = text[..length].iter().filter_map(|byte| (*byte as char).to_digit(16));
    for byte in &mut boot_id {
        *byte = (digits.next().unwrap_or(0) << 4 | digits.next().unwrap_or(0)) as u8;
    }
    boot_id
}

impl Identity {
    fn of_this_process() -> Self {
        let mut text = [0u8; 1024];
        let boot_id = boot_id();
        let length = place::read(c"/proc/self/stat", &mut text).unwrap_or(0);
        // After the name in parentheses, which may hold anything, the state is field 3.
        let after_name = text[..length].rsplit(|byte| *byte == b')').next().unwrap_or(&[]);
        let field = after_name.split(|byte| *byte == b' ').nth(20).unwrap_or(&[]);
        let started = number(field).unwrap_or_else(log::realtime);
        // SAFETY: the buffer has the length that is given.
        let length =
            unsafe { libc::readlink(c"/proc/self/ns/pid".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
        let link = text.get(..length.max(0) as usize).unwrap_or(&[]);
        let inode = link.split(|byte| b"[]".contains(byte)).nth(1).and_then(number);
        // SAFETY: getpid has no preconditions.
        Identity { boot_id, pid_ns: inode.unwrap_or(0), pid: unsafe { libc::getpid() } as u32, started }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

impl File {
    /// Makes the file of this process, with one block.
    pub fn create(directory: &Directory, epoch: u64) -> Result<&'static File, c_int> {
        let identity = Identity::of_this_process();
        let (low, image, path) = Self::open_new(directory, &identity)?;
        let descriptor = files::duplicate_high(low);
        let descriptor = if descriptor < 0 {
            low
        } else {
            // SAFETY: opened by us.
            unsafe { libc::close(low) };
            descriptor
        };
        let made = Self::fill(descriptor, image, path, identity, epoch);
        if made.is_err() {
            // SAFETY: opened by us; a file that says nothing is in the way of those who read.
            unsafe {
                libc::close(descriptor);
                libc::unlink(c_path(&path).as_ptr());
            }
        }
        made
    }

    fn open_new(directory: &Directory, identity: &Identity) -> Result<(c_int, u32, Path), c_int> {
        let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| identity.boot_id[i]));
        for attempt in 0..64 + 8 {
            // A process that executes one program after the other; who has done so often, takes the time.
            let image = if attempt < 64 { attempt } else { (log::realtime() >> 10) as u32 | 64 };
            let mut name = log::Line::new();
            let Identity { pid_ns, pid, started, .. } = identity;
            let _ = write!(name, "{boot:08x}-{pid_ns}-{pid}-{started}");
            if image > 0 {
                let _ = write!(name, "-{image}");
            }
            let _ = name.write_str(SUFFIX);
            let path = directory.file(core::str::from_utf8(name.bytes()).map_err(|_| libc::EINVAL)?)?;
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
            // SAFETY: the path ends in NUL.
            let file = unsafe { libc::open(c_path(&path).as_ptr(), flags, directory.mode) };
            if file >= 0 {
                if settings::get().record.as_ref().is_some_and(|record| record.shared) {
                    // What umask has taken away.
                    // SAFETY: opened above.
                    unsafe { libc::fchmod(file, directory.mode) };
                }
                return Ok((file, image, path));
            }
            if errno() != libc::EEXIST {
                return Err(errno());
            }
        }
        Err(libc::EEXIST)
    }

    fn fill(
        descriptor: c_int,
        image: u32,
        path: Path,
        identity: Identity,
        epoch: u64,
    ) -> Result<&'static File, c_int> {
        let ring = settings::get().record.as_ref().and_then(|record| record.ring);
        let ring_blocks = ring.map_or(0, |size| size / BLOCK as u64);
        let size = if ring.is_some() { ring_blocks * BLOCK as u64 } else { BLOCK as u64 };
        allocate(descriptor, 0, size)?;
        let mapped = map(descriptor, 0, size as usize)?;
        let header = mapped.cast::<Header>();
        let mut source = [0; 32];
        let path_of_source = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let length = place::read(path_of_source, &mut source).unwrap_or(0);
        let clock = clock::choose(&source[..length]);
        let first = clock::moment();
        let key = log::key();
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
                parent: libc::getppid() as u32,
                started: identity.started,
                image,
                uid: libc::getuid(),
                first,
                last: first,
                next_block: 1,
                ring_blocks,
                lost: 0,
                next_stream: 0,
                ended_by: 0,
                key_check: record::live::mix(u64::from_le_bytes(key[..8].try_into().unwrap_or_default()))
                    ^ record::live::mix(u64::from_le_bytes(key[8..].try_into().unwrap_or_default())),
            });
            // Last: what has no magic is no record.
            (&raw mut (*header).magic).write_volatile(MAGIC);
        }
        let (device, inode) = identity_of(descriptor);
        let size = size_of::<File>();
        // By the system call itself: ThreadSanitizer takes libc's mmap for a write to the memory.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: maps new memory.
        let kept = unsafe {
            libc::syscall(libc::SYS_mmap, 0, size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if kept == -1 {
            return Err(libc::ENOMEM);
        }
        let kept = kept as *mut File;
        // SAFETY: new memory of that size, all zero, which is what the windows begin with; never unmapped.
        unsafe {
            (&raw mut (*kept).epoch).write(epoch);
            (&raw mut (*kept).header).write(header);
            (&raw mut (*kept).ring).write(if ring.is_some() { mapped } else { ptr::null_mut() });
            (&raw mut (*kept).ring_blocks).write(ring_blocks);
            (&raw mut (*kept).descriptor).write(AtomicI32::new(descriptor));
            (&raw mut (*kept).device).write(device);
            (&raw mut (*kept).inode).write(inode);
            (&raw mut (*kept).path).write(path);
            Ok(&*kept)
        }
    }

    /// A number of the header that several threads change.
    fn shared(&self, place: *mut u64) -> &AtomicU64 {
        // SAFETY: a field of the mapped header, aligned, and changed in this way alone.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// The number of the next free block.
    pub fn next_block(&self) -> u64 {
        // SAFETY: the header is mapped for good.
        self.shared(unsafe { &raw mut (*self.header).next_block }).fetch_add(1, Relaxed)
    }

    /// The number of the next free stream.
    pub fn next_stream(&self) -> u32 {
        // SAFETY: a field of the mapped header, aligned, and changed in this way alone.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header).next_stream) }.fetch_add(1, Relaxed)
    }

    /// Counts events that could not be kept.
    pub fn lose(&self, events: u64) {
        // SAFETY: the header is mapped for good.
        self.shared(unsafe { &raw mut (*self.header).lost }).fetch_add(events, Relaxed);
    }

    /// Maps a new block at the end of the file.
    pub fn new_block(&self) -> Result<*mut u8, c_int> {
        let descriptor = self.descriptor()?;
        let number = self.next_block();
        let at = number * BLOCK as u64;
        let made = allocate(descriptor, at, BLOCK as u64).and_then(|()| map(descriptor, at, BLOCK));
        if made.is_err() {
            self.give_back(number);
        }
        made
    }

    /// Gives back the number of a block that could not be had, where it is still the last one: otherwise the file
    /// would grow with each attempt.
    fn give_back(&self, number: u64) {
        // SAFETY: the header is mapped for good.
        let next = self.shared(unsafe { &raw mut (*self.header).next_block });
        let _ = next.compare_exchange(number + 1, number, Relaxed, Relaxed);
    }

    /// No window is looked for until some time has passed: each attempt that fails costs the program a hundred
    /// times what a call does.
    pub fn rest(&self) {
        self.rests_until.store(log::now() + REST, Relaxed);
    }

    /// Whether it is too early for another attempt.
    pub fn is_resting(&self) -> bool {
        let until = self.rests_until.load(Relaxed);
        until != 0 && log::now() < until
    }

    /// Writes a block at the end of the file, in pieces.
    pub fn append_block(&self, pieces: &mut [libc::iovec]) -> Result<(), c_int> {
        let descriptor = self.descriptor()?;
        let number = self.next_block();
        let written =
            files::without_signals(|| write_all_at(descriptor, pieces, (number * BLOCK as u64) as i64));
        if written.is_err() {
            self.give_back(number);
        }
        written
    }

    /// The descriptor, opened again where the program has closed it.
    fn descriptor(&self) -> Result<c_int, c_int> {
        let descriptor = self.descriptor.load(Acquire);
        if identity(descriptor) == Some((self.device, self.inode)) {
            return Ok(descriptor);
        }
        // SAFETY: the path ends in NUL.
        let low = unsafe {
            libc::open(c_path(&self.path).as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW)
        };
        if low < 0 {
            return Err(errno());
        }
        let new = files::duplicate_high(low);
        // SAFETY: opened above.
        unsafe { libc::close(low) };
        if identity(new) != Some((self.device, self.inode)) {
            // SAFETY: ours, or negative and refused.
            unsafe { libc::close(new) };
            return Err(libc::ESTALE);
        }
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
        if identity(descriptor) == Some((self.device, self.inode)) {
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
        aside(|| self.say_why(error));
    }

    fn say_why(&self, error: c_int) {
        status::record_lost();
        let mut reason = [0u8; 128];
        // SAFETY: writes at most that many bytes, with a NUL.
        unsafe { libc::strerror_r(error, reason.as_mut_ptr().cast(), reason.len()) };
        let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_str().unwrap_or_default();
        let path = c_path(&self.path).to_string_lossy();
        if error == libc::EBUSY {
            // Each thread that calls has a block of its own.
            message::line(format_args!("the ring {path} is too small for so many threads; events are lost"));
            return;
        }
        message::line(format_args!("cannot write the record {path}: {reason}; events are lost"));
    }
}

fn identity_of(descriptor: c_int) -> (u64, u64) {
    identity(descriptor).unwrap_or_default()
}

/// Allocates bytes of a file, so that writing to them through a mapping cannot fail.
pub fn allocate(descriptor: c_int, at: u64, size: u64) -> Result<(), c_int> {
    files::without_signals(|| {
        loop {
            // SAFETY: the kernel refuses what is wrong.
            if unsafe { libc::fallocate(descriptor, 0, at as i64, size as i64) } == 0 {
                return Ok(());
            }
            match errno() {
                libc::EINTR => {}
                libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL => return write_zeros(descriptor, at, size),
                error => return Err(error),
            }
        }
    })
}

/// The same on a file system that cannot allocate.
fn write_zeros(descriptor: c_int, at: u64, size: u64) -> Result<(), c_int> {
    static ZEROS: [u8; 4096] = [0; 4096];
    let mut written = 0;
    while written < size {
        let length = (size - written).min(ZEROS.len() as u64) as usize;
        let mut piece = [libc::iovec { iov_base: ZEROS.as_ptr().cast_mut().cast(), iov_len: length }];
        write_all_at(descriptor, &mut piece, (at + written) as i64)?;
        written += length as u64;
    }
    Ok(())
}

/// Maps bytes of a file, shared.
pub fn map(descriptor: c_int, at: u64, size: usize) -> Result<*mut u8, c_int> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // By the system call itself: ThreadSanitizer takes libc's mmap for a write to the memory.
    // SAFETY: maps new memory.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, 0, size, protection, libc::MAP_SHARED, descriptor, at) };
    if mapped == -1 { Err(errno()) } else { Ok(mapped as *mut u8) }
}

fn write_all_at(descriptor: c_int, pieces: &mut [libc::iovec], mut at: i64) -> Result<(), c_int> {
    let mut done = 0;
    while done < pieces.len() {
        let rest = &mut pieces[done..];
        // SAFETY: the pieces are the caller's, and readable.
        let written = unsafe { libc::pwritev(descriptor, rest.as_ptr(), rest.len() as c_int, at) };
        match written {
            0 => return Err(libc::ENOSPC),
            -1 if errno() == libc::EINTR => continue,
            -1 => return Err(errno()),
            _ => at += written as i64,
        }
        let mut left = written as usize;
        for piece in rest {
            let taken = left.min(piece.iov_len);
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(taken).cast::<c_void>();
            piece.iov_len -= taken;
            left -= taken;
            done += usize::from(piece.iov_len == 0);
        }
    }
    Ok(())
}
