//! The live table of the job on this host: `cupeer_spec::record::live`, as this process takes part in it.
//!
//! No lock is held and nobody is waited for: a process may die at any instruction. Where the table cannot be had,
//! everything here does nothing.

use super::file::{self, File};
use super::lock::Lock;
use super::place::{self, Path, c_path};
use crate::files::errno;
use crate::{log, message, settings};
use core::ffi::c_int;
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::record::live::{
    BUCKET, Entry, Header, MAGIC, MOST_SEGMENTS, PREFIX, START, VERSION, entry_place, key_place, kind,
    own_key, segment_entries, segment_start, state, who,
};

/// The header, mapped; null where there is no table.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// Where each segment would begin if the file began there; 0 where it is not mapped yet.
static SEGMENTS: [AtomicUsize; MOST_SEGMENTS] = [const { AtomicUsize::new(0) }; MOST_SEGMENTS];
/// This process in the table.
static WHO: AtomicU64 = AtomicU64::new(0);
/// How many entries this process has, about: none is no reason to look. What it owns, and all others.
static OWNED: AtomicU64 = AtomicU64::new(0);
static OTHERS: AtomicU64 = AtomicU64::new(0);

fn own_count(entry_kind: u32) -> &'static AtomicU64 {
    if entry_kind == kind::OWNED { &OWNED } else { &OTHERS }
}
/// The path of the file, for further segments. Written while the record is made.
static PATH: PathCell = PathCell(core::cell::UnsafeCell::new([0; crate::files::PATH_MAX]));

struct PathCell(core::cell::UnsafeCell<Path>);
// SAFETY: written by the one thread that makes the record, before the header is published; read after that.
unsafe impl Sync for PathCell {}

/// Takes part in the table of the job.
pub fn attach(file: &File, directory: &place::Directory) {
    HEADER.store(ptr::null_mut(), Release);
    SEGMENTS.iter().for_each(|segment| segment.store(0, Release));
    OWNED.store(0, Relaxed);
    OTHERS.store(0, Relaxed);
    // SAFETY: the file's header is mapped for good.
    let (boot_id, pid_ns, pid, started) = unsafe {
        let header = &*file.header;
        (header.boot_id, header.pid_ns, header.pid, header.started)
    };
    WHO.store(who(pid_ns, pid, started), Relaxed);
    let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| boot_id[i]));
    let mut name = log::Line::new();
    let _ = write!(name, "{PREFIX}{boot:08x}");
    let Ok(path) =
        core::str::from_utf8(name.bytes()).map_err(|_| ()).and_then(|n| directory.file(n).map_err(|_| ()))
    else {
        return;
    };
    if settings::get().check.is_some() && place::is_remote(&path) {
        message::once(format_args!(
            "the record lies on a network file system, where processes may not see each other's memory: rules across \
             processes are not checked here, but by 'cupeer report' afterwards"
        ));
        return;
    }
    // SAFETY: nobody reads it while there is no header.
    unsafe { PATH.0.get().write(path) };
    let header = open(&path).or_else(|_| create(directory, &path, boot_id).and_then(|()| open(&path)));
    match header {
        Ok(header) => HEADER.store(header, Release),
        Err(error) if settings::get().check.is_some() => message::once(format_args!(
            "{} cannot be used ({}): rules across processes are not checked here, but by 'cupeer report' afterwards",
            c_path(&path).to_string_lossy(),
            std::io::Error::from_raw_os_error(error)
        )),
        Err(_) => {}
    }
}

/// Makes the file, with its first segment.
fn create(directory: &place::Directory, path: &Path, boot_id: [u8; 16]) -> Result<(), c_int> {
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        entry: size_of::<Entry>() as u32,
        boot_id,
        segments: 1,
        reserved: 0,
        refused: 0,
    };
    place::publish(directory, path, ".live", |file| {
        file::allocate(file, 0, segment_start(1) as u64)?;
        let mapped = file::map(file, 0, START)?;
        // SAFETY: mapped above, and long enough.
        unsafe {
            mapped.cast::<Header>().write(header);
            libc::munmap(mapped.cast(), START);
        }
        Ok(())
    })
}

/// Opens the file and maps its header.
fn open(path: &Path) -> Result<*mut Header, c_int> {
    let file = descriptor(path)?;
    let mapped = file::map(file, 0, START);
    // A file that is too short is not touched.
    let is_long = is_as_long(file, segment_start(1));
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    let header = mapped?.cast::<Header>();
    // SAFETY: mapped, and long enough.
    let is_ours = is_long
        && unsafe {
            (*header).magic == MAGIC
                && (*header).version == VERSION
                && (*header).entry as usize == size_of::<Entry>()
        };
    if is_ours { Ok(header) } else { Err(libc::EPROTO) }
}

fn is_as_long(file: c_int, size: usize) -> bool {
    // SAFETY: all-zero bytes are a stat, and fstat writes to a variable of ours.
    unsafe {
        let mut about: libc::stat = core::mem::zeroed();
        libc::fstat(file, &mut about) == 0 && about.st_size >= size as i64
    }
}

fn descriptor(path: &Path) -> Result<c_int, c_int> {
    // SAFETY: the path ends in NUL.
    let file =
        unsafe { libc::open(c_path(path).as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if file < 0 { Err(errno()) } else { Ok(file) }
}

/// Whether there is a table.
pub fn is_on() -> bool {
    !HEADER.load(Acquire).is_null()
}

/// Whether this process has exported anything that is still there.
pub fn has_exported() -> bool {
    OWNED.load(Relaxed) != 0
}

/// Whether this process has anything else in it.
pub fn has_others() -> bool {
    OTHERS.load(Relaxed) != 0
}

/// This process in the table.
pub fn own() -> u64 {
    WHO.load(Relaxed)
}

fn segment_count() -> usize {
    let header = HEADER.load(Acquire);
    if header.is_null() {
        return 0;
    }
    // SAFETY: mapped for good; an aligned number that is changed in this way alone.
    let count = unsafe { AtomicU32::from_ptr(&raw mut (*header).segments) }.load(Acquire);
    (count as usize).min(MOST_SEGMENTS)
}

/// The mapped segment: the address at which the file would begin.
fn segment(k: usize) -> Option<usize> {
    let mapped = SEGMENTS[k].load(Acquire);
    if mapped != 0 {
        return Some(mapped);
    }
    // SAFETY: written before the header was published.
    let file = descriptor(unsafe { &*PATH.0.get() }).ok()?;
    const PAGE: usize = 4096;
    let start = segment_start(k) / PAGE * PAGE;
    let size = segment_start(k + 1) - start;
    // A file that somebody has cut short must not be touched behind its end.
    let new = if is_as_long(file, segment_start(k + 1)) {
        file::map(file, start as u64, size)
    } else {
        Err(libc::EIO)
    };
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    let new = (new.ok()? as usize).wrapping_sub(start);
    match SEGMENTS[k].compare_exchange(0, new, AcqRel, Acquire) {
        Ok(_) => Some(new),
        Err(others) => {
            // SAFETY: mapped above, and not published.
            unsafe { libc::munmap(new.wrapping_add(start) as *mut _, size) };
            Some(others)
        }
    }
}

/// Adds a segment, where there are only as many as `count`.
fn grow(count: usize) -> bool {
    static LOCK: Lock = Lock::new();
    if count == 0 || count >= MOST_SEGMENTS {
        return false;
    }
    let mut grown = false;
    LOCK.with(|| {
        // SAFETY: written before the header was published.
        let Ok(file) = descriptor(unsafe { &*PATH.0.get() }) else { return };
        let (at, end) = (segment_start(count), segment_start(count + 1));
        // Several processes may do this at once: it changes nothing that is there.
        grown = file::allocate(file, at as u64, (end - at) as u64).is_ok();
        // SAFETY: opened above.
        unsafe { libc::close(file) };
        if grown {
            let header = HEADER.load(Acquire);
            // SAFETY: mapped for good; an aligned number that is changed in this way alone.
            let segments = unsafe { AtomicU32::from_ptr(&raw mut (*header).segments) };
            // Where it fails, another process was faster.
            let _ = segments.compare_exchange(count as u32, count as u32 + 1, AcqRel, Acquire);
        }
    });
    grown
}

/// One place of the table.
#[derive(Clone, Copy)]
pub struct Place {
    key: *const AtomicU64,
    entry: *mut Entry,
}

impl Place {
    fn at(segment: usize, k: usize, i: usize) -> Self {
        Place {
            key: segment.wrapping_add(key_place(k, i)) as *const AtomicU64,
            entry: segment.wrapping_add(entry_place(k, i)) as *mut Entry,
        }
    }

    fn key(&self) -> &AtomicU64 {
        // SAFETY: inside of a mapped segment, aligned, changed in this way alone.
        unsafe { &*self.key }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.entry).word) }
    }

    fn is_live(&self) -> bool {
        self.word().load(Acquire) as u8 == state::LIVE
    }

    /// Whose it is.
    pub fn is_own(&self) -> bool {
        self.word().load(Acquire) == own() | u64::from(state::LIVE)
    }

    /// A copy of what it says. What another process changes at the same time may be mixed up.
    pub fn read(&self) -> Entry {
        // SAFETY: inside of a mapped segment; any bytes are an entry.
        unsafe { self.entry.read_volatile() }
    }

    /// The fingerprint of its handle, and the first of its frames: what tells whether a call repeats another one.
    pub fn origin(&self) -> (u64, u64) {
        // SAFETY: inside of a mapped segment, aligned; written before the entry became live.
        unsafe {
            (
                (&raw const (*self.entry).fingerprint).read_volatile(),
                (&raw const (*self.entry).frames[0]).read_volatile(),
            )
        }
    }

    /// How often it is open.
    pub fn count(&self) -> &AtomicU32 {
        // SAFETY: inside of a mapped segment, aligned, changed in this way alone.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.entry).count) }
    }

    /// Whether what was exported is gone.
    pub fn ended(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.entry).ended) }
    }

    /// When what was exported ended.
    pub fn ended_at(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.entry).ended_at) }
    }

    /// How far inside of its allocation the last pointer was that was exported.
    pub fn inside(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.entry).inside) }
    }

    /// What it is.
    pub fn kind(&self) -> u32 {
        // SAFETY: inside of a mapped segment, aligned; written before the entry became live.
        unsafe { (&raw const (*self.entry).kind).read_volatile() }
    }

    /// Whether it is a memory of what was exported, and ended, and which nobody has open.
    fn is_memory(&self) -> bool {
        self.is_live() && self.ended().load(Acquire) != 0 && self.count().load(Acquire) == 0
    }

    /// Gives it up. Says whether it was there, and nobody else was faster.
    pub fn free(&self) -> bool {
        let entry_kind = self.kind();
        let word = self.word().load(Acquire);
        let claimed = word & !0xff | u64::from(state::CLAIMED);
        if word as u8 != state::LIVE || self.word().compare_exchange(word, claimed, AcqRel, Acquire).is_err()
        {
            return false;
        }
        self.key().store(0, Release);
        self.word().store(0, Release);
        if word & !0xff == own() {
            own_count(entry_kind).fetch_sub(1, Relaxed);
        }
        true
    }
}

/// The live entries with a key, until `found` returns true.
fn each_with(key: u64, mut found: impl FnMut(Place) -> bool) {
    for k in 0..segment_count() {
        let Some(segment) = segment(k) else { return };
        let buckets = segment_entries(k) / BUCKET;
        let first = (key % buckets as u64) as usize * BUCKET;
        for i in first..first + BUCKET {
            let place = Place::at(segment, k, i);
            if place.key().load(Acquire) == key && place.is_live() && found(place) {
                return;
            }
        }
    }
}

/// The entry with a key.
pub fn find(key: u64) -> Option<Place> {
    find_where(key, |_| true)
}

/// The entry with a key of which something is true.
pub fn find_where(key: u64, is_it: impl Fn(&Place) -> bool) -> Option<Place> {
    let mut found = None;
    each_with(key, |place| {
        found = is_it(&place).then_some(place);
        found.is_some()
    });
    found
}

/// What this process has open at an address, if nobody is closing it.
pub fn find_open(kind: u32, address: u64) -> Option<Place> {
    find_where(own_key(own(), kind, address, 0), |place| place.count().load(Acquire) > 0)
}

/// Calls `found` with each entry of this process.
pub fn each_own(mut found: impl FnMut(Place)) {
    each(|place| {
        if place.is_own() {
            found(place);
        }
    });
}

/// Calls `found` with each entry of the job.
pub fn each(mut found: impl FnMut(Place)) {
    for k in 0..segment_count() {
        let Some(segment) = segment(k) else { return };
        for i in 0..segment_entries(k) {
            let place = Place::at(segment, k, i);
            if place.key().load(Relaxed) != 0 && place.is_live() {
                found(place);
            }
        }
    }
}

/// Adds an entry, whose word is filled in here. Says whether there was room.
pub fn insert(mut entry: Entry) -> bool {
    let claimed = own() | u64::from(state::CLAIMED);
    entry.word = claimed;
    // What is only remembered makes room before the table grows.
    let mut forgets = false;
    loop {
        let count = segment_count();
        for k in 0..count {
            let Some(segment) = segment(k) else { return false };
            let buckets = segment_entries(k) / BUCKET;
            let first = (entry.key % buckets as u64) as usize * BUCKET;
            for i in first..first + BUCKET {
                let place = Place::at(segment, k, i);
                if forgets && place.is_memory() {
                    place.free();
                }
                if place.word().load(Relaxed) != 0
                    || place.word().compare_exchange(0, claimed, AcqRel, Acquire).is_err()
                {
                    continue;
                }
                // SAFETY: inside of a mapped segment, and claimed by us.
                unsafe { place.entry.write_volatile(entry) };
                place.key().store(entry.key, Release);
                place.word().store(own() | u64::from(state::LIVE), Release);
                own_count(entry.kind).fetch_add(1, Relaxed);
                return true;
            }
        }
        if count > 0 && !core::mem::replace(&mut forgets, true) {
            continue;
        }
        forgets = false;
        if !grow(count) {
            let header = HEADER.load(Acquire);
            if !header.is_null() {
                // SAFETY: mapped for good; an aligned number that is changed in this way alone.
                unsafe { AtomicU64::from_ptr(&raw mut (*header).refused) }.fetch_add(1, Relaxed);
            }
            return false;
        }
    }
}
