//! The live table of the job on this host: `cupeer_spec::record::live`, as this process takes part in it.
//!
//! No lock is held and nobody is waited for: a process may die at any instruction. Where the table cannot be had,
//! everything here does nothing.

use super::directory::{self, Path, c_path};
use super::process::pid_namespace;
use super::reclaim::{self, Room};
use crate::log::message;
use crate::settings;
use crate::sys::allocate::allocate;
use crate::sys::line::Line;
use crate::sys::lock::Lock;
use crate::sys::opened::Opened;
use core::ffi::c_int;
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::record::Header as FileHeader;
use cupeer_spec::record::live::{
    BUCKET, Entry, Header, MAGIC, MOST_SEGMENTS, PREFIX, START, VERSION, bucket, entry_place, key_place,
    kind, segment_entries, segment_start, state, who,
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
static PATH: PathCell = PathCell(core::cell::UnsafeCell::new([0; crate::sys::files::PATH_MAX]));

/// What file that is: device and inode.
static IDENTITY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

struct PathCell(core::cell::UnsafeCell<Path>);
// SAFETY: written by the one thread that makes the record, before the header is published; read after that.
unsafe impl Sync for PathCell {}

/// Takes part in the table of the job.
pub fn attach(header: &FileHeader, directory: &directory::Directory) {
    HEADER.store(ptr::null_mut(), Release);
    SEGMENTS.iter().for_each(|segment| segment.store(0, Release));
    OWNED.store(0, Relaxed);
    OTHERS.store(0, Relaxed);
    let boot_id = header.boot_id;
    WHO.store(who(header.pid_ns, header.pid, header.started, header.image), Relaxed);
    let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| boot_id[i]));
    let mut name = Line::new();
    let _ = write!(name, "{PREFIX}{boot:08x}");
    let Ok(path) =
        core::str::from_utf8(name.bytes()).map_err(|_| ()).and_then(|n| directory.file(n).map_err(|_| ()))
    else {
        return;
    };
    if settings::get().check.is_some() && directory::is_remote(&path) {
        message::once(format_args!(
            "the record lies on a network file system, where processes may not see each other's memory: rules across \
             processes are not checked here, but by 'cupeer report' afterwards"
        ));
        return;
    }
    // SAFETY: nobody reads it while there is no header.
    unsafe { PATH.0.get().write(path) };
    let open = || open(directory, &path);
    let table = match open() {
        Err(libc::ENOENT) => create(directory, &path, boot_id).and_then(|()| open()),
        other => other,
    };
    match table {
        Ok(mapped) => {
            HEADER.store(mapped, Release);
            reclaim::forget_earlier_images(header);
        }
        Err(error) if settings::get().check.is_some() => message::once(format_args!(
            "{} cannot be used ({}): rules across processes are not checked here, but by 'cupeer report' afterwards",
            c_path(&path).to_string_lossy(),
            match error {
                libc::EPERM =>
                    "it is another user's, and those record together with --share group".to_owned(),
                error => std::io::Error::from_raw_os_error(error).to_string(),
            }
        )),
        Err(_) => {}
    }
}

/// Makes the file, with its first segment.
fn create(directory: &directory::Directory, path: &Path, boot_id: [u8; 16]) -> Result<(), c_int> {
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        entry: size_of::<Entry>() as u32,
        boot_id,
        segments: 1,
        reserved: 0,
        refused: 0,
    };
    directory::publish(directory, path, ".live", |file| {
        allocate(file.descriptor(), 0, segment_start(1) as u64)?;
        let mapped = file.map(0, START)?;
        // SAFETY: mapped above, and long enough.
        unsafe {
            mapped.cast::<Header>().write(header);
            libc::munmap(mapped.cast(), START);
        }
        Ok(())
    })
}

/// Opens the file and maps its header.
fn open(directory: &directory::Directory, path: &Path) -> Result<*mut Header, c_int> {
    let file = Opened::open(c_path(path), libc::O_RDWR)?;
    let about = file.about();
    if !directory.trusts(about.found.owner) {
        return Err(libc::EPERM);
    }
    // A file that is too short is not touched.
    if about.size < segment_start(1) as u64 {
        return Err(libc::EPROTO);
    }
    let header = file.map(0, START)?.cast::<Header>();
    // SAFETY: mapped, and long enough.
    let is_ours = unsafe {
        (*header).magic == MAGIC
            && (*header).version == VERSION
            && (*header).entry as usize == size_of::<Entry>()
    };
    if !is_ours {
        // SAFETY: mapped above.
        unsafe { libc::munmap(header.cast(), START) };
        return Err(libc::EPROTO);
    }
    IDENTITY[0].store(about.identity.0, Relaxed);
    IDENTITY[1].store(about.identity.1, Relaxed);
    Ok(header)
}

/// The file again, for another segment: that one and no other, which might be somebody else's.
fn reopen() -> Result<Opened, c_int> {
    // SAFETY: written before the header was published.
    let file = Opened::open(c_path(unsafe { &*PATH.0.get() }), libc::O_RDWR)?;
    let is_same = file.about().identity == (IDENTITY[0].load(Relaxed), IDENTITY[1].load(Relaxed));
    if is_same { Ok(file) } else { Err(libc::ESTALE) }
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
    let file = reopen().ok()?;
    const PAGE: usize = 4096;
    let start = segment_start(k) / PAGE * PAGE;
    let size = segment_start(k + 1) - start;
    let new = (file.map(start as u64, size).ok()? as usize).wrapping_sub(start);
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
        let Ok(file) = reopen() else { return };
        let (at, end) = (segment_start(count), segment_start(count + 1));
        // Several processes may do this at once: it changes nothing that is there.
        grown = allocate(file.descriptor(), at as u64, (end - at) as u64).is_ok();
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

    /// Whether it is this process's, and has this key.
    pub fn has(&self, key: u64) -> bool {
        self.is_own() && self.key().load(Acquire) == key
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

    /// Whose it is: pid and pid namespace.
    pub fn process(&self) -> (u32, u64) {
        // SAFETY: as above.
        unsafe {
            (
                (&raw const (*self.entry).pid).read_volatile(),
                (&raw const (*self.entry).pid_ns).read_volatile(),
            )
        }
    }

    /// Whether anybody has open what it exports, as far as is counted: processes that were killed count as well.
    pub fn is_open(&self) -> bool {
        self.count().load(Acquire) != 0
    }

    /// Whether it is a memory of what was exported, and ended, and which nobody has open.
    pub fn is_memory(&self) -> bool {
        self.is_live() && self.ended().load(Acquire) != 0 && !self.is_open()
    }

    /// Its word, where it is valid.
    pub fn live_word(&self) -> Option<u64> {
        Some(self.word().load(Acquire)).filter(|word| *word as u8 == state::LIVE)
    }

    /// Gives it up. Says whether it was there, and nobody else was faster.
    pub fn free(&self) -> bool {
        self.live_word().is_some_and(|word| self.free_if(word))
    }

    /// The same, where its word is still this one.
    pub fn free_if(&self, word: u64) -> bool {
        let entry_kind = self.kind();
        let claimed = word & !0xff | u64::from(state::CLAIMED);
        if self.word().compare_exchange(word, claimed, AcqRel, Acquire).is_err() {
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
        let first = bucket(key, buckets) * BUCKET;
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
    // What is of use to nobody makes room before the table grows.
    let (mut room, own_pid_ns) = (Room::Free, pid_namespace());
    loop {
        let count = segment_count();
        for k in 0..count {
            let Some(segment) = segment(k) else { return false };
            let buckets = segment_entries(k) / BUCKET;
            let first = bucket(entry.key, buckets) * BUCKET;
            for i in first..first + BUCKET {
                let place = Place::at(segment, k, i);
                room.make(&place, own_pid_ns);
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
        if let Some(more) = room.more().filter(|_| count > 0) {
            room = more;
            continue;
        }
        room = Room::Free;
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
