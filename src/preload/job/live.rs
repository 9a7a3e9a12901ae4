//! This process's part of the live table of the job on this host (`cupeer_spec::record::live`).
//!
//! No lock is held and no process is waited for, because a process may die at any instruction. Without a table,
//! everything here does nothing.

use super::directory::{self, Path, c_path};
use crate::log::message;
use crate::settings;
use crate::sys::allocate::allocate;
use crate::sys::arch::LARGEST_PAGE;
use crate::sys::files;
use crate::sys::line::Short;
use crate::sys::lock::Lock;
use crate::sys::opened::Opened;
use crate::sys::process::boot_id;
use core::ffi::c_int;
use core::fmt;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_shared::entry;
use cupeer_spec::record::begun::Folder;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::{
    BUCKET, Entry, Header, MAGIC, MOST_SEGMENTS, PREFIX, START, USES, Uses, VERSION, WORDS, bucket, claimant,
    entry_place, key_place, kind, owner, segment_entries, segment_start, who,
};
use cupeer_spec::record::{FileName, Header as FileHeader};

/// The header, mapped; null where there is no table.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// Where [`freed`] is counted: each copy and launch reads it.
static FREED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static NEVER: AtomicU32 = AtomicU32::new(0);
/// Where each segment would begin if the file began there; 0 where it is not mapped yet.
static SEGMENTS: [AtomicUsize; MOST_SEGMENTS] = [const { AtomicUsize::new(0) }; MOST_SEGMENTS];
/// This process in the table: as the owner of entries, and of what it claims.
static WHO: AtomicU64 = AtomicU64::new(0);
static CLAIMANT: AtomicU64 = AtomicU64::new(0);
/// How many entries this process has, about: none is no reason to look. What it owns, and all others.
static OWNED: AtomicU64 = AtomicU64::new(0);
static OTHERS: AtomicU64 = AtomicU64::new(0);

/// Whether this process has ended what others had open: otherwise nobody has to look for such entries among thousands.
static HAS_ENDED_OPEN: AtomicBool = AtomicBool::new(false);

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

fn publish(header: *mut Header) {
    HEADER.store(header, Release);
    let count = freed_count().unwrap_or(&NEVER);
    FREED.store(ptr::from_ref(count).cast_mut(), Release);
}

/// Takes part in the table of the job.
pub fn attach(header: &FileHeader, directory: &directory::Directory) {
    publish(ptr::null_mut());
    SEGMENTS.iter().for_each(|segment| segment.store(0, Release));
    OWNED.store(0, Relaxed);
    OTHERS.store(0, Relaxed);
    let boot_id = header.boot_id;
    WHO.store(who(header.pid_ns, header.pid, header.started, header.image), Relaxed);
    CLAIMANT.store(claimant(header.pid_ns, header.pid), Relaxed);
    let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| boot_id[i]));
    let name = Short::<32>::new(format_args!("{PREFIX}{boot:08x}"));
    let Ok(path) = directory.file(name.text()) else { return };
    if settings::get().check.is_some() && directory::is_remote(&directory.path) {
        message::once(format_args!(
            "the recording is on a network file system, where processes cannot share memory: rules across \
             processes are checked by 'cupeer report' afterwards, not here"
        ));
        return;
    }
    // SAFETY: nobody reads it while there is no header.
    unsafe { PATH.0.get().write(path) };
    let open = || open(directory, &path);
    let table = match open() {
        Err(libc::ENOENT) => {
            // SAFETY: mapped with this size, which is larger than a header.
            let write = |base: *mut u8| unsafe { base.cast::<Header>().write(new_header(boot_id)) };
            directory::publish_mapped(directory, &path, ".live", segment_start(1), write)
                .and_then(|()| open())
        }
        other => other,
    };
    match table {
        Ok(mapped) => {
            publish(mapped);
        }
        Err(error) if settings::get().check.is_some() => {
            let why: &dyn fmt::Display = match error {
                libc::EPERM => {
                    &"it belongs to another user; several users record together with --share group"
                }
                _ => &message::Reason(error),
            };
            let path = message::Text(c_path(&path).to_bytes());
            message::once(format_args!(
                "{path} cannot be used ({why}): rules across processes are checked by 'cupeer report' \
                 afterwards, not here"
            ));
        }
        Err(_) => {}
    }
}

/// The header of a table with one segment.
fn new_header(boot_id: [u8; 16]) -> Header {
    let entry = size_of::<Entry>() as u32;
    Header { magic: MAGIC, version: VERSION, entry, boot_id, segments: 1, freed: 0, refused: 0 }
}

/// Opens the file and maps its header.
fn open(directory: &directory::Directory, path: &Path) -> Result<*mut Header, c_int> {
    let file = directory.open(path)?;
    let about = file.about();
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

/// How the process of an entry ended, as its record beside the table says; `None` where there is none to be read.
pub fn end_of(entry: &Entry) -> Option<End> {
    if !is_on() {
        return None;
    }
    let Entry { pid_ns, pid, started, image, .. } = *entry;
    let boot_id = boot_id();
    let name = FileName { boot_id, pid_ns, pid, started, image };
    end_at(format_args!("{name}\0")).or_else(|| end_at(format_args!("{}/{name}\0", Folder(boot_id))))
}

/// The same from a file whose path beside the table ends in NUL.
fn end_at(name: fmt::Arguments) -> Option<End> {
    let name = Short::<128>::new(name);
    // SAFETY: written before the header was published.
    let mut path = unsafe { *PATH.0.get() };
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    path.get_mut(slash + 1..)?.get_mut(..name.text().len())?.copy_from_slice(name.text().as_bytes());
    let mut header = [0; size_of::<FileHeader>()];
    let length = files::read(c_path(&path), &mut header).ok()?;
    let word = header[..length].get(offset_of!(FileHeader, end)..)?.first_chunk()?;
    Some(End::of(u32::from_ne_bytes(*word)))
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

/// How many segments the file has, where there is a table.
fn segments() -> Option<&'static AtomicU32> {
    let header = HEADER.load(Acquire);
    // SAFETY: mapped for good; an aligned number that is changed only in this way.
    (!header.is_null()).then(|| unsafe { AtomicU32::from_ptr(&raw mut (*header).segments) })
}

/// How often memory of any process of the job was freed that others had open; 0 where there is no table.
#[inline(always)]
pub fn freed() -> u32 {
    // SAFETY: it leads to a static, or into a header, which is mapped for good.
    unsafe { &*FREED.load(Acquire) }.load(Relaxed)
}

/// Notes that memory was freed that others have open.
pub fn note_freed() {
    if let Some(freed) = freed_count() {
        freed.fetch_add(1, Release);
    }
}

/// Notes that there was no room for an entry.
pub fn note_refused() {
    let header = HEADER.load(Acquire);
    if !header.is_null() {
        // SAFETY: mapped for good; an aligned number that is changed only in this way.
        unsafe { AtomicU64::from_ptr(&raw mut (*header).refused) }.fetch_add(1, Relaxed);
    }
}

#[inline]
fn freed_count() -> Option<&'static AtomicU32> {
    let header = HEADER.load(Acquire);
    // SAFETY: mapped for good; an aligned number that is changed only in this way.
    (!header.is_null()).then(|| unsafe { AtomicU32::from_ptr(&raw mut (*header).freed) })
}

pub fn segment_count() -> usize {
    segments().map_or(0, |count| count.load(Acquire) as usize).min(MOST_SEGMENTS)
}

/// The mapped segment: the address at which the file would begin.
pub fn segment(k: usize) -> Option<usize> {
    let mapped = SEGMENTS[k].load(Acquire);
    if mapped != 0 {
        return Some(mapped);
    }
    let file = reopen().ok()?;
    let start = segment_start(k) / LARGEST_PAGE * LARGEST_PAGE;
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
pub fn grow(count: usize) -> bool {
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
        if let Some(segments) = segments().filter(|_| grown) {
            // Where it fails, another process was faster.
            let _ = segments.compare_exchange(count as u32, count as u32 + 1, AcqRel, Acquire);
        }
    });
    grown
}

/// Where an entry can be.
#[derive(Clone, Copy)]
pub struct Room(entry::Place<'static>);

impl Room {
    fn at(segment: usize, k: usize, i: usize) -> Self {
        let key = segment.wrapping_add(key_place(k, i)) as *mut u64;
        let words = segment.wrapping_add(entry_place(k, i)) as *const [AtomicU64; WORDS];
        // SAFETY: inside of a segment that is mapped for good, aligned, and only used as atomics.
        let (key, words) = unsafe { (AtomicU64::from_ptr(key), &*words) };
        Room(entry::Place { key, words, uses: &words[USES] })
    }

    /// The word of whoever has claimed it, if somebody has.
    pub fn claimed(self) -> Option<u64> {
        self.0.claimed()
    }

    /// Claims it for a process.
    #[cfg(test)]
    pub fn claim(self, claimant: u64) -> Option<u64> {
        self.0.claim(claimant)
    }

    /// Gives up what a process has claimed with this word that has died since.
    pub fn reclaim(self, claimed: u64) {
        self.0.give_up(claimed, CLAIMANT.load(Relaxed));
    }

    /// Claims it, and puts an entry there. Says whether it was free.
    pub fn fill(self, entry: &Entry) -> bool {
        let Some(claimed) = self.0.claim(CLAIMANT.load(Relaxed)) else { return false };
        let uses = Uses { count: entry.count, ended: entry.ended as u16 };
        // Before another thread can give it up: none that is there goes uncounted.
        own_count(entry.kind).fetch_add(1, Relaxed);
        self.0.publish(claimed, own(), &entry.words(), uses);
        true
    }

    /// The entry that is here, if there is one.
    pub fn entry(self) -> Option<Place> {
        self.0.live().map(|word| Place { at: self.0, word })
    }
}

/// An entry of the table, as it was found: once it is given up, and its place perhaps taken by another one, there is
/// nothing to read here any more, nor to count.
#[derive(Clone, Copy)]
pub struct Place {
    at: entry::Place<'static>,
    word: u64,
}

impl Place {
    /// One word of it. It may be that of an entry that came after this one, so that nothing but an action on this one, or
    /// a look at all of it, may follow from it.
    fn peek(&self, offset: usize) -> u64 {
        self.at.words[offset / 8].load(Relaxed)
    }

    /// Whether it is still there.
    pub fn is_there(&self) -> bool {
        self.at.is(self.word)
    }

    /// Whether it is this process's.
    pub fn is_own(&self) -> bool {
        owner(self.word) == own()
    }

    /// A copy of it, where it is still there.
    pub fn read(&self) -> Option<Entry> {
        self.at.read(self.word).map(Entry::from_words)
    }

    /// The fingerprint of its handle, and the first of its frames: what tells whether a call repeats another one.
    pub fn origin(&self) -> (u64, u64) {
        (self.peek(offset_of!(Entry, fingerprint)), self.peek(offset_of!(Entry, frames)))
    }

    /// The fingerprint of the bytes of its handle that the driver checks: what tells one thing from another there.
    pub fn checked(&self) -> u64 {
        self.peek(offset_of!(Entry, checked))
    }

    /// What it is.
    pub fn kind(&self) -> u32 {
        const { assert!(offset_of!(Entry, kind).is_multiple_of(8)) };
        self.peek(offset_of!(Entry, kind)) as u32
    }

    /// Returns true if it is about something that ends with a context. Access ends with each of its two contexts.
    pub fn ends_with(&self, context: u64) -> bool {
        let kind = self.kind();
        let is_other_side = || kind::is_access(kind) && self.peek(offset_of!(Entry, address)) == context;
        kind::belongs_to_context(kind) && (self.peek(offset_of!(Entry, peer)) == context || is_other_side())
    }

    /// Returns true if it came into the table before another one.
    pub fn is_older_than(&self, other: &Place) -> bool {
        let [own, others] = [self, other].map(|place| place.peek(offset_of!(Entry, monotonic)));
        own < others
    }

    /// Whose it is: pid and pid namespace.
    pub fn process(&self) -> (u32, u64) {
        const { assert!(offset_of!(Entry, pid).is_multiple_of(8)) };
        (self.peek(offset_of!(Entry, pid)) as u32, self.peek(offset_of!(Entry, pid_ns)))
    }

    /// How often it is open, as far as is counted: processes that were killed count as well; and how it has ended, if it
    /// has.
    pub fn uses(&self) -> Uses {
        self.at.uses()
    }

    /// Changes that. Gives what it was; `None` where it is not there any more, or `change` gives none.
    pub fn change(&self, change: impl Fn(Uses) -> Option<Uses>) -> Option<Uses> {
        self.at.change(self.word, change)
    }

    /// Whether anybody has open what it exports.
    pub fn is_open(&self) -> bool {
        self.uses().count != 0
    }

    /// Whether it is a tombstone: what it exported has ended, and nobody has it open.
    pub fn is_tombstone(&self) -> bool {
        let uses = self.uses();
        uses.ended != 0 && uses.count == 0 && self.is_there()
    }

    /// Notes when what this process has exported ended.
    pub fn set_ended_at(&self, time: u64) {
        if self.is_open() {
            HAS_ENDED_OPEN.store(true, Relaxed);
        }
        self.at.words[offset_of!(Entry, ended_at) / 8].store(time, Relaxed);
    }

    /// Notes how far inside of its allocation the last pointer was that this process has exported.
    pub fn set_inside(&self, bytes: u64) {
        self.at.words[offset_of!(Entry, inside) / 8].store(bytes, Relaxed);
    }

    /// Counts that this process has opened it once more.
    pub fn count_opening(&self) {
        self.at.words[offset_of!(Entry, inside) / 8].fetch_add(1, Relaxed);
    }

    /// Gives it up. Says whether it was there, and nobody else was faster.
    pub fn free(&self) -> bool {
        let entry_kind = self.kind();
        let is_ours = self.at.give_up(self.word, CLAIMANT.load(Relaxed));
        if is_ours && self.is_own() {
            own_count(entry_kind).fetch_sub(1, Relaxed);
        }
        is_ours
    }
}

/// Where an entry with a key can be in a segment.
pub fn rooms(segment: usize, k: usize, key: u64) -> impl Iterator<Item = Room> {
    let first = bucket(key, segment_entries(k) / BUCKET) * BUCKET;
    (first..first + BUCKET).map(move |i| Room::at(segment, k, i))
}

/// What `look` finds in the live entries with a key, until it finds anything.
#[inline(always)]
pub fn find_map<T>(key: u64, look: impl Fn(Place) -> Option<T>) -> Option<T> {
    for k in 0..segment_count() {
        for Room(at) in rooms(segment(k)?, k, key) {
            let found = at.live_with(key).and_then(|word| look(Place { at, word }));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// The entry with a key.
pub fn find(key: u64) -> Option<Place> {
    find_map(key, Some)
}

/// A copy of the entry with a key.
pub fn read(key: u64) -> Option<Entry> {
    find_map(key, |place| place.read())
}

/// The entry with a key of which something is true.
pub fn find_where(key: u64, is_it: impl Fn(&Place) -> bool) -> Option<Place> {
    find_map(key, |place| is_it(&place).then_some(place))
}

/// Calls `found` with each export of this process, ended while it was open.
pub fn each_ended(mut found: impl FnMut(Place)) {
    if HAS_ENDED_OPEN.load(Relaxed) {
        each_own(|place| {
            let uses = place.uses();
            if uses.ended != 0 && uses.count != 0 {
                found(place);
            }
        });
    }
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
    each_room(|room| {
        // Most are nobody's: it is enough to read their keys, of which eight share a cache line.
        if room.0.key.load(Relaxed) != 0
            && let Some(place) = room.entry()
        {
            found(place);
        }
    });
}

/// Calls `found` with all that an entry can be in.
pub fn each_room(mut found: impl FnMut(Room)) {
    for k in 0..segment_count() {
        let Some(segment) = segment(k) else { return };
        (0..segment_entries(k)).for_each(|i| found(Room::at(segment, k, i)));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A table of one segment in memory of this process, in which this process is 1000 of namespace 1.
    pub fn with_table(work: impl FnOnce()) {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ALONE.lock();
        let memory: &mut [u64] = Vec::leak(vec![0; segment_start(1) / 8]);
        let header = memory.as_mut_ptr().cast::<Header>();
        // SAFETY: large enough, aligned, and nobody else's yet.
        unsafe { (*header).segments = 1 };
        SEGMENTS[0].store(header as usize, Release);
        publish(header);
        be(1000);
        work();
        publish(ptr::null_mut());
        SEGMENTS[0].store(0, Release);
    }

    /// Goes on as another process.
    pub fn be(pid: u32) {
        super::super::process::PID_NS.store(1, Relaxed);
        WHO.store(who(1, pid, 1, 0), Relaxed);
        CLAIMANT.store(claimant(1, pid), Relaxed);
    }
}
