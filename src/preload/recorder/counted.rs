//! Counts the memory that the process allocates, in its record: by the return address of the call, and by device.
//!
//! Each small allocation and free changes a counter in mapped memory of the file, which survives the end of the process. Large
//! allocations are recorded calls; a word per address marks them, so that their frees are recorded as well.

use super::{about, current, libraries, process};
use crate::driver::chunks::{self, Chunk};
use crate::driver::counted::{
    self, EPOCH, HAS_SEVERAL, SHARED_CELLS, TABLE, count_in, is_on, known, part, word,
};
use crate::driver::queries;
use crate::resolve::needs::Needs;
use crate::resolve::traced;
use crate::settings;
use crate::sys::arch::{Thread, thread};
use crate::sys::clock;
use crate::sys::every_call::epoch;
use crate::sys::guard::guarded;
use crate::sys::lock::Lock;
use core::ptr;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::record::counted::{CELLS, ROW, ROWS, UNFOLLOWED, key, row};

/// Allocations of at least so many bytes are recorded: a driver takes a hundred microseconds for one.
pub const LARGE: u64 = 1 << 20;
/// The number of large allocations from pools that are recorded. Pools are fast, so a program can make many.
const MOST_OF_POOLS: u32 = 4096;
/// After that many, allocations from pools are recorded from this size on.
const LARGE_OF_POOLS: u64 = 64 << 20;
/// The number of rows that count one place each; the rows after them count a whole device.
const MOST_PLACES: u32 = 48;

static THREADS: AtomicU32 = AtomicU32::new(0);
static PLACES: AtomicU32 = AtomicU32::new(0);
static OF_POOLS: AtomicU32 = AtomicU32::new(0);
static LOCK: Lock = Lock::new();

/// Returns true if an allocation of so many bytes, from a pool or not, is recorded as a call.
pub fn is_recorded(id: FnId, bytes: u64, is_of_pool: bool) -> bool {
    if settings::get().asks_for_allocations(id) {
        return true;
    }
    let is_due = || !is_of_pool || bytes >= LARGE_OF_POOLS || OF_POOLS.fetch_add(1, Relaxed) < MOST_OF_POOLS;
    settings::get().is_recorded(id) && bytes >= LARGE && is_due()
}

/// Counts an allocation that succeeded.
#[inline(always)]
pub fn count(caller: usize, address: u64, bytes: u64) {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block, and each word is read at once.
    let (own, cells) = unsafe { ((*thread).epoch, (*thread).cells) };
    let is_joined = own == epoch() && cells != 0;
    if let Some(chunk) = chunks::find(address).filter(|chunk| is_joined && counted::is_known(chunk))
        && let Some(row) = counted::row_of(caller, chunk.device.load(Relaxed))
        && count_in(row, cells, chunk, address, bytes)
    {
        return;
    }
    count_slowly(thread, caller, address, bytes);
}

#[cold]
#[inline(never)]
fn count_slowly(thread: *mut Thread, caller: usize, address: u64, bytes: u64) {
    guarded(|| {
        if !join(thread) {
            return;
        }
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let cells = unsafe { (*thread).cells };
        let is_counted = chunk_of(address).is_some_and(|chunk| {
            let row = make_row(caller, chunk.device.load(Relaxed));
            row.is_some_and(|row| bytes < 1 << 40 && count_in(row, cells, chunk, address, bytes))
        });
        if !is_counted {
            word(0).fetch_add(1, Relaxed);
            word(1).fetch_add(bytes, Relaxed);
        }
    });
}

/// Notes the address of an allocation that is recorded as a call. If that does not fit, all frees of unknown memory are recorded.
pub fn note_recorded(address: u64) {
    guarded(|| {
        if !join(thread()) {
            return;
        }
        match chunks::find_or_add(address).and_then(|chunk| chunk.word(address)) {
            Some(place) => counted::freed(place.swap(known::THERE | known::EVENT, AcqRel)),
            None => counted::HAS_LOST.store(true, Relaxed),
        }
    });
}

/// Returns the row of a place on a device, adding it if there is none.
fn make_row(caller: usize, device: u64) -> Option<usize> {
    if let row @ Some(_) = counted::row_of(caller, device) {
        return row;
    }
    let [own, others] = counted::keys(caller, device);
    let has_room = PLACES.fetch_add(1, Relaxed) < MOST_PLACES;
    if has_room {
        libraries::know(caller);
    } else {
        counted::IS_FULL.store(true, Relaxed);
    }
    let key = if has_room { own } else { others };
    counted::rows(key).find(|row| {
        let taken = part(*row, row::KEY).compare_exchange(0, key, AcqRel, Acquire);
        taken.is_ok() || taken == Err(key)
    })
}

/// Returns the chunk of an address, after asking the driver for its device if that is not known.
fn chunk_of(address: u64) -> Option<&'static Chunk> {
    let chunk = chunks::find_or_add(address)?;
    if counted::is_known(chunk) {
        return Some(chunk);
    }
    let (device, context) = queries::owner(address).unwrap_or((queries::device(), 0));
    let new = key(0, Some(device)) >> 48;
    static FIRST: AtomicU64 = AtomicU64::new(0);
    if FIRST.compare_exchange(0, new, Relaxed, Relaxed).is_err_and(|first| first != new) {
        HAS_SEVERAL.store(true, Relaxed);
    }
    counted::belongs_to(device, context);
    chunk.context.store(context, Relaxed);
    chunk.asked.store(clock::roughly(), Relaxed);
    chunk.device.store(new, Relaxed);
    Some(chunk)
}

/// Gives this thread counters, and the process a table if it has none. For use in `guarded`.
fn join(thread: *mut Thread) -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    let is_joined = || unsafe { (*thread).epoch == epoch() && (*thread).cells != 0 };
    if is_on() && is_joined() {
        return true;
    }
    if settings::get().record.is_none() || !process::attach() {
        return false;
    }
    if !is_on() {
        LOCK.with(make);
    }
    if !is_on() {
        return false;
    }
    let number = THREADS.fetch_add(1, Relaxed) as usize;
    let own = || ptr::from_ref(word(UNFOLLOWED + ROWS * ROW + number * ROWS)) as usize;
    let cells = if number < CELLS { own() } else { SHARED_CELLS };
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread).cells = cells };
    traced::wake(Needs::Made);
    queries::describe_devices(about::describe);
    true
}

fn make() {
    let Some(file) = current::current().filter(|_| !is_on()) else { return };
    // The old chunks are those of a parent, or of an earlier record of this process.
    if EPOCH.swap(0, AcqRel) != 0 {
        chunks::forget();
    }
    let Some(table) = about::counted(file) else { return };
    for count in [&THREADS, &PLACES, &OF_POOLS] {
        count.store(0, Relaxed);
    }
    counted::IS_FULL.store(false, Relaxed);
    counted::HAS_LOST.store(false, Relaxed);
    TABLE.store(table, Release);
    EPOCH.store(file.epoch, Release);
}
