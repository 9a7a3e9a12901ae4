//! This process's part of the live table of the job on this host (`cupeer_spec::record::live`).
//!
//! Nothing here holds a lock across processes or waits for one, because a process may die at any instruction. Without a
//! table, the functions do nothing.

use super::directory::{self, Path, c_path};
use crate::log::message;
use crate::settings;
use crate::sys::allocate::allocate;
use crate::sys::arch::LARGEST_PAGE;
use crate::sys::files::{self, PATH_MAX};
use crate::sys::line::ShortText;
use crate::sys::lock::Lock;
use crate::sys::opened::OpenedFile;
use crate::sys::process::boot_id;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::fmt;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_shared::entry;
use cupeer_spec::record::begun::HostFolder;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::live::{
    BUCKET, Entry, Header, MAGIC, MOST_SEGMENTS, PREFIX, START, USES, Uses, VERSION, WORDS, bucket_of_key,
    claimant_word, entry_offset, key_offset, kind, owner_in, process_word, segment_entries, segment_start,
};
use cupeer_spec::record::{Header as FileHeader, ProcessFileName};

/// Address of the mapped header; null without a table.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// Address of the header's count of frees that [`freed_while_open_count`] reads, which each copy and launch does;
/// [`NEVER`] without a table.
static FREED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
/// Stands for the header's count of frees while there is no table.
static NEVER: AtomicU32 = AtomicU32::new(0);
/// For each segment, the address at which the start of the file would be in that mapping; 0 if the segment is not mapped yet.
static SEGMENTS: [AtomicUsize; MOST_SEGMENTS] = [const { AtomicUsize::new(0) }; MOST_SEGMENTS];
/// Number by which this process owns entries of the table.
static WHO: AtomicU64 = AtomicU64::new(0);
/// Number by which this process claims places of the table.
static CLAIMANT: AtomicU64 = AtomicU64::new(0);
/// Approximate number of this process's entries of kind [`kind::OWNED`]. If it is 0, no search is needed.
static OWNED: AtomicU64 = AtomicU64::new(0);
/// Approximate number of this process's entries of all other kinds.
static OTHERS: AtomicU64 = AtomicU64::new(0);

/// True if this process ended an export that other processes had open. If false, no call searches thousands of entries for such
/// an export.
static HAS_ENDED_OPEN: AtomicBool = AtomicBool::new(false);

fn own_count(entry_kind: u32) -> &'static AtomicU64 {
    if entry_kind == kind::OWNED { &OWNED } else { &OTHERS }
}
/// Path, device, and inode of the table's file, for mapping further segments.
static FILE: FileCell = FileCell(UnsafeCell::new(TableFile { path: [0; PATH_MAX], identity: (0, 0) }));

struct TableFile {
    path: Path,
    identity: (u64, u64),
}

struct FileCell(UnsafeCell<TableFile>);
// SAFETY: written by the one thread that begins the record, before the header is published; read after that.
unsafe impl Sync for FileCell {}

fn publish(header: *mut Header) {
    HEADER.store(header, Release);
    let freed = counts().map_or(&NEVER, |counts| counts.freed);
    FREED.store(ptr::from_ref(freed).cast_mut(), Release);
}

/// Opens the table of the job, after creating it if there is none.
pub fn attach(header: &FileHeader, directory: &directory::Directory) {
    publish(ptr::null_mut());
    SEGMENTS.iter().for_each(|segment| segment.store(0, Release));
    OWNED.store(0, Relaxed);
    OTHERS.store(0, Relaxed);
    let boot_id = header.boot_id;
    WHO.store(process_word(header.pid_ns, header.pid, header.started, header.image), Relaxed);
    CLAIMANT.store(claimant_word(header.pid_ns, header.pid), Relaxed);
    let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| boot_id[i]));
    let name = ShortText::<32>::new(format_args!("{PREFIX}{boot:08x}"));
    let Ok(path) = directory.path_of(name.text()) else { return };
    if settings::get().check.is_some() && directory::is_remote(&directory.path) {
        message::print_once(format_args!(
            "the recording is on a network file system, where processes cannot share memory: rules across \
             processes are checked by 'cupeer report' afterwards, not here"
        ));
        return;
    }
    let table = match open(directory, &path) {
        Err(libc::ENOENT) => {
            // SAFETY: mapped with this size, which is larger than a header.
            let write = |base: *mut u8| unsafe { base.cast::<Header>().write(new_header(boot_id)) };
            directory::create_mapped_file(directory, &path, ".live", segment_start(1), write)
                .and_then(|()| open(directory, &path))
        }
        other => other,
    };
    match table {
        Ok((mapped, identity)) => {
            // SAFETY: nobody reads it while there is no header.
            unsafe { FILE.0.get().write(TableFile { path, identity }) };
            publish(mapped);
        }
        Err(error) if settings::get().check.is_some() => {
            let why: &dyn fmt::Display = match error {
                libc::EPERM => &"it belongs to another user; several users record together with --share group",
                _ => &message::ErrnoText(error),
            };
            let path = message::LossyText(c_path(&path).to_bytes());
            message::print_once(format_args!(
                "{path} cannot be used ({why}): rules across processes are checked by 'cupeer report' \
                 afterwards, not here"
            ));
        }
        Err(_) => {}
    }
}

/// Returns the header of a new table, which has one segment.
fn new_header(boot_id: [u8; 16]) -> Header {
    let entry = size_of::<Entry>() as u32;
    Header { magic: MAGIC, version: VERSION, entry, boot_id, segments: 1, freed: 0, refused: 0 }
}

/// Opens the file of the table, and maps its header. Returns the header with the device and the inode of the file.
fn open(directory: &directory::Directory, path: &Path) -> Result<(*mut Header, (u64, u64)), c_int> {
    let file = directory.open(path)?;
    let about = file.info();
    // Reading a mapping beyond the end of its file would end the program with SIGBUS.
    if about.size < segment_start(1) as u64 {
        return Err(libc::EPROTO);
    }
    let header = file.map(0, START)?.cast::<Header>();
    // SAFETY: mapped, and long enough.
    let is_ours = unsafe {
        (*header).magic == MAGIC && (*header).version == VERSION && (*header).entry as usize == size_of::<Entry>()
    };
    if !is_ours {
        // SAFETY: mapped above.
        unsafe { libc::munmap(header.cast(), START) };
        return Err(libc::EPROTO);
    }
    Ok((header, about.identity))
}

/// Opens the file of the table again to map another segment. Fails if another file has its path now.
fn reopen() -> Result<OpenedFile, c_int> {
    // SAFETY: written before the header was published.
    let TableFile { path, identity } = unsafe { &*FILE.0.get() };
    let file = OpenedFile::open(c_path(path), libc::O_RDWR)?;
    if file.info().identity == *identity { Ok(file) } else { Err(libc::ESTALE) }
}

/// Returns how the process of an entry ended, from that process's record in the directory of the table; `None` if the record
/// cannot be read.
pub fn read_end_of_process(entry: &Entry) -> Option<RecordedEnd> {
    if !has_table() {
        return None;
    }
    let Entry { pid_ns, pid, started, image, .. } = *entry;
    let boot_id = boot_id();
    let name = ProcessFileName { boot_id, pid_ns, pid, started, image };
    end_in_record(format_args!("{name}\0")).or_else(|| end_in_record(format_args!("{}/{name}\0", HostFolder(boot_id))))
}

/// Returns the end that is noted in the record with this file name, which must end in NUL; `None` if the record cannot be read.
fn end_in_record(name: fmt::Arguments) -> Option<RecordedEnd> {
    let name = ShortText::<128>::new(name);
    // SAFETY: written before the header was published.
    let mut path = unsafe { (*FILE.0.get()).path };
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    path.get_mut(slash + 1..)?.get_mut(..name.text().len())?.copy_from_slice(name.text().as_bytes());
    let mut header = [0; size_of::<FileHeader>()];
    let length = files::read(c_path(&path), &mut header).ok()?;
    let word = header[..length].get(offset_of!(FileHeader, end)..)?.first_chunk()?;
    Some(RecordedEnd::from_word(u32::from_ne_bytes(*word)))
}

/// Returns true if this process has mapped a table.
pub fn has_table() -> bool {
    !HEADER.load(Acquire).is_null()
}

/// Returns true if this process has exported something that has not ended.
pub fn has_exported() -> bool {
    OWNED.load(Relaxed) != 0
}

/// Returns true if this process has any entries other than those of kind [`kind::OWNED`].
pub fn has_other_entries() -> bool {
    OTHERS.load(Relaxed) != 0
}

/// Returns the number by which this process owns entries of the table.
pub fn own_owner_number() -> u64 {
    WHO.load(Relaxed)
}

/// Pointers to the counts in the table's header.
struct Counts {
    segments: &'static AtomicU32,
    freed: &'static AtomicU32,
    refused: &'static AtomicU64,
}

/// Returns the counts in the header, if there is a table.
#[inline]
fn counts() -> Option<Counts> {
    let header = HEADER.load(Acquire);
    // SAFETY: mapped for good; aligned numbers that are only used as atomics.
    (!header.is_null()).then(|| unsafe {
        Counts {
            segments: AtomicU32::from_ptr(&raw mut (*header).segments),
            freed: AtomicU32::from_ptr(&raw mut (*header).freed),
            refused: AtomicU64::from_ptr(&raw mut (*header).refused),
        }
    })
}

/// Returns the number of times that processes of the job freed memory that others had open; 0 without a table.
#[inline(always)]
pub fn freed_while_open_count() -> u32 {
    // SAFETY: it points to a static, or into a header, which is mapped for good.
    unsafe { &*FREED.load(Acquire) }.load(Relaxed)
}

/// Adds one to the number of times that processes freed memory that others have open.
pub fn count_freed_while_open() {
    if let Some(Counts { freed, .. }) = counts() {
        freed.fetch_add(1, Release);
    }
}

/// Counts an entry that was refused because the table is full.
pub fn note_refused() {
    if let Some(Counts { refused, .. }) = counts() {
        refused.fetch_add(1, Relaxed);
    }
}

/// Returns the number of segments of the table; 0 without a table.
pub fn segment_count() -> usize {
    counts().map_or(0, |counts| counts.segments.load(Acquire) as usize).min(MOST_SEGMENTS)
}

/// Returns the address at which the start of the file would be in the mapping of segment `k`. Maps the segment first if
/// necessary.
pub fn map_segment(k: usize) -> Option<usize> {
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

/// Adds a segment if the table has only `count` segments. Returns false if that fails.
pub fn add_segment(count: usize) -> bool {
    static LOCK: Lock = Lock::new();
    if count == 0 || count >= MOST_SEGMENTS {
        return false;
    }
    let mut grown = false;
    LOCK.with(|| {
        let Ok(file) = reopen() else { return };
        let (at, end) = (segment_start(count), segment_start(count + 1));
        // Several processes may allocate the segment at once, which does not change existing bytes.
        grown = allocate(file.descriptor(), at as u64, (end - at) as u64).is_ok();
        if let Some(Counts { segments, .. }) = counts().filter(|_| grown) {
            // If the exchange fails, another process has added the segment.
            let _ = segments.compare_exchange(count as u32, count as u32 + 1, AcqRel, Acquire);
        }
    });
    grown
}

/// A position in the table that is free or holds an entry.
#[derive(Clone, Copy)]
pub struct TableSlot(pub(super) entry::EntrySlot<'static>);

impl TableSlot {
    fn at(segment: usize, k: usize, i: usize) -> Self {
        let key = segment.wrapping_add(key_offset(k, i)) as *mut u64;
        let words = segment.wrapping_add(entry_offset(k, i)) as *const [AtomicU64; WORDS];
        // SAFETY: inside a segment that is mapped for good, aligned, and only used as atomics.
        let (key, words) = unsafe { (AtomicU64::from_ptr(key), &*words) };
        TableSlot(entry::EntrySlot { key, words, uses: &words[USES] })
    }

    /// Frees a place whose claim has this word. The process that claimed it has died.
    pub fn free_abandoned_claim(self, claimed: u64) {
        self.0.free_entry(claimed, CLAIMANT.load(Relaxed));
    }

    /// Claims the place, and puts an entry there. Returns false if the place was not free.
    pub fn claim_and_fill(self, entry: &Entry) -> bool {
        let Some(claimed) = self.0.claim(CLAIMANT.load(Relaxed)) else { return false };
        let uses = Uses { count: entry.count, ended: entry.ended as u16 };
        // Counted before another thread can remove the entry, so that no existing entry is missing from the count.
        own_count(entry.kind).fetch_add(1, Relaxed);
        self.0.publish(claimed, own_owner_number(), &entry.to_words(), uses);
        true
    }

    /// Returns the entry in the place; `None` if it has none.
    pub fn entry(self) -> Option<EntryRef> {
        self.0.live_word().map(|word| EntryRef { at: self.0, word })
    }
}

/// Reference to an entry of the table. After the entry is removed, reads and changes do nothing, even if another entry has taken
/// its place.
#[derive(Clone, Copy)]
pub struct EntryRef {
    at: entry::EntrySlot<'static>,
    word: u64,
}

impl EntryRef {
    /// Reads the word of the entry at a byte offset. If another entry has taken its place, the word may belong to that one. So a
    /// caller may only use the word to decide whether to change this entry or to read all of it, both of which check that the
    /// entry still exists.
    fn peek(&self, offset: usize) -> u64 {
        self.at.words[offset / 8].load(Relaxed)
    }

    /// Returns true if the entry still exists.
    pub fn is_there(&self) -> bool {
        self.at.is_still(self.word)
    }

    /// Returns true if the entry belongs to this process.
    pub fn is_own(&self) -> bool {
        owner_in(self.word) == own_owner_number()
    }

    /// Returns a copy of the entry; `None` if it no longer exists.
    pub fn read(&self) -> Option<Entry> {
        self.at.copy_entry(self.word).map(Entry::from_words)
    }

    /// Returns the fingerprint of the entry's handle.
    pub fn fingerprint(&self) -> u64 {
        self.peek(offset_of!(Entry, fingerprint))
    }

    /// Returns the return address of the call that made the entry: the first of its frames.
    pub fn first_frame(&self) -> u64 {
        self.peek(offset_of!(Entry, frames))
    }

    /// Returns the fingerprint of the bytes of the handle that the driver checks: if two handles have the same, they lead to the
    /// same object.
    pub fn checked_fingerprint(&self) -> u64 {
        self.peek(offset_of!(Entry, checked))
    }

    /// Returns the kind of the entry.
    pub fn kind(&self) -> u32 {
        const { assert!(offset_of!(Entry, kind).is_multiple_of(8)) };
        self.peek(offset_of!(Entry, kind)) as u32
    }

    /// Returns true if the object of the entry ends with this context. Peer access ends with each of its two contexts.
    pub fn ends_with(&self, context: u64) -> bool {
        let kind = self.kind();
        let is_other_side = || kind::is_enabled_access(kind) && self.peek(offset_of!(Entry, address)) == context;
        kind::belongs_to_context(kind) && (self.peek(offset_of!(Entry, peer)) == context || is_other_side())
    }

    /// Returns true if the entry is older than another entry.
    pub fn is_older_than(&self, other: &EntryRef) -> bool {
        let [own, others] = [self, other].map(|place| place.peek(offset_of!(Entry, monotonic)));
        own < others
    }

    /// Returns the pid and the pid namespace of the process that the entry belongs to.
    pub fn pid_and_namespace(&self) -> (u32, u64) {
        const { assert!(offset_of!(Entry, pid).is_multiple_of(8)) };
        (self.peek(offset_of!(Entry, pid)) as u32, self.peek(offset_of!(Entry, pid_ns)))
    }

    /// Returns the number of opens of the entry's object, including those by processes that were killed, and how the object
    /// ended, if it did.
    pub fn opens_and_end(&self) -> Uses {
        self.at.uses()
    }

    /// Changes the number of opens and the end of the entry. Returns the old values; `None` if the entry no longer exists, or if
    /// `change` returns `None`.
    pub fn change(&self, change: impl Fn(Uses) -> Option<Uses>) -> Option<Uses> {
        self.at.change_uses(self.word, change)
    }

    /// Returns true if any process has the entry's object open.
    pub fn is_open(&self) -> bool {
        self.opens_and_end().count != 0
    }

    /// Returns true if the entry is a tombstone: its export has ended, and no process has the object open.
    pub fn is_tombstone(&self) -> bool {
        let uses = self.opens_and_end();
        uses.ended != 0 && uses.count == 0 && self.is_there()
    }

    /// Sets the time when an export of this process ended.
    pub fn set_ended_at(&self, time: u64) {
        if self.is_open() {
            HAS_ENDED_OPEN.store(true, Relaxed);
        }
        self.at.words[offset_of!(Entry, ended_at) / 8].store(time, Relaxed);
    }

    /// Sets the offset, in its allocation, of the pointer that this process exported last.
    pub fn set_pointer_offset(&self, bytes: u64) {
        self.at.words[offset_of!(Entry, inside) / 8].store(bytes, Relaxed);
    }

    /// Adds one to this process's opens of the object.
    pub fn count_opening(&self) {
        self.at.words[offset_of!(Entry, inside) / 8].fetch_add(1, Relaxed);
    }

    /// Removes the entry from the table. Returns false if another thread or process has already removed it.
    pub fn free(&self) -> bool {
        let entry_kind = self.kind();
        let is_ours = self.at.free_entry(self.word, CLAIMANT.load(Relaxed));
        if is_ours && self.is_own() {
            own_count(entry_kind).fetch_sub(1, Relaxed);
        }
        is_ours
    }
}

/// Returns the places of a segment that an entry with this key can take.
pub fn slots_for_key(segment: usize, k: usize, key: u64) -> impl Iterator<Item = TableSlot> {
    let first = bucket_of_key(key, segment_entries(k) / BUCKET) * BUCKET;
    (first..first + BUCKET).map(move |i| TableSlot::at(segment, k, i))
}

/// Calls `work` with each entry that has this key until `work` returns a value, and returns that value.
#[inline(always)]
pub fn find_map<T>(key: u64, work: impl Fn(EntryRef) -> Option<T>) -> Option<T> {
    for k in 0..segment_count() {
        for TableSlot(at) in slots_for_key(map_segment(k)?, k, key) {
            let found = at.live_word_with_key(key).and_then(|word| work(EntryRef { at, word }));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Returns the first entry with this key.
pub fn find(key: u64) -> Option<EntryRef> {
    find_map(key, Some)
}

/// Returns a copy of the first entry with this key.
pub fn read(key: u64) -> Option<Entry> {
    find_map(key, |place| place.read())
}

/// Returns the first entry with this key for which `condition` returns true.
pub fn find_where(key: u64, condition: impl Fn(&EntryRef) -> bool) -> Option<EntryRef> {
    find_map(key, |place| condition(&place).then_some(place))
}

/// Calls `found` with each export of this process that has ended, but that another process still has open.
pub fn each_ended_and_open(mut found: impl FnMut(EntryRef)) {
    if HAS_ENDED_OPEN.load(Relaxed) {
        each_own(|place| {
            let uses = place.opens_and_end();
            if uses.ended != 0 && uses.count != 0 {
                found(place);
            }
        });
    }
}

/// Calls `found` with each entry of this process.
pub fn each_own(mut found: impl FnMut(EntryRef)) {
    each(|place| {
        if place.is_own() {
            found(place);
        }
    });
}

/// Calls `found` with each entry of the job.
pub fn each(mut found: impl FnMut(EntryRef)) {
    each_slot(|room| {
        // Most places are free. Their keys show that, and eight keys share a cache line.
        if room.0.key.load(Relaxed) != 0
            && let Some(place) = room.entry()
        {
            found(place);
        }
    });
}

/// Calls `found` with each place of the table.
pub fn each_slot(mut found: impl FnMut(TableSlot)) {
    for k in 0..segment_count() {
        let Some(segment) = map_segment(k) else { return };
        (0..segment_entries(k)).for_each(|i| found(TableSlot::at(segment, k, i)));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs `work` with a table of one segment in memory of this process, which has pid 1000 in namespace 1 there.
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

    /// Continues as another process.
    pub fn be(pid: u32) {
        super::super::process::PID_NS.store(1, Relaxed);
        WHO.store(process_word(1, pid, 1, 0), Relaxed);
        CLAIMANT.store(claimant_word(1, pid), Relaxed);
    }
}
