//! Counts the memory that the process allocates, in its record: by the return address of the call, and by device.
//!
//! Each small allocation and free changes a counter in mapped memory of the file, which survives the end of the process. Large
//! allocations are recorded calls; a word per address marks them, so that their frees are recorded as well.

use super::{about, current, libraries, process};
use crate::driver::chunks::{self, Chunk};
use crate::driver::counted::{
    self, EPOCH, HAS_SEVERAL, SHARED_CELLS, TABLE, count_in, is_counting, known, row_part, table_word,
};
use crate::driver::queries;
use crate::resolve::needs::HistoryCondition;
use crate::resolve::traced;
use crate::settings;
use crate::sys::arch::{Thread, thread};
use crate::sys::clock;
use crate::sys::every_call::recording_epoch;
use crate::sys::guard::guarded;
use crate::sys::lock::Lock;
use core::ptr;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::record::counted::{CELLS, ROW, ROWS, UNFOLLOWED, row, row_key};

/// Size from which an allocation is recorded as a call, in bytes. A driver takes a hundred microseconds for an allocation of this
/// size.
pub const LARGE: u64 = 1 << 20;
/// Number of large allocations from memory pools that are recorded at any large size. Pools are fast, so a program can make many.
const MOST_OF_POOLS: u32 = 4096;
/// Size from which an allocation from a pool is recorded after the first [`MOST_OF_POOLS`], in bytes.
const LARGE_OF_POOLS: u64 = 64 << 20;
/// Number of rows of the table that count one call site on one device each. Each row after them counts all other call sites on
/// one device.
const MOST_PLACES: u32 = 48;

static THREADS: AtomicU32 = AtomicU32::new(0);
static ROWS_OF_PLACES: AtomicU32 = AtomicU32::new(0);
static OF_POOLS: AtomicU32 = AtomicU32::new(0);
static LOCK: Lock = Lock::new();

/// Returns true if an allocation of this size is recorded as a call instead of only counted. `is_of_pool` is true for an
/// allocation from a memory pool.
pub fn is_recorded(id: FnId, bytes: u64, is_of_pool: bool) -> bool {
    if settings::get().records_all_allocations(id) {
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
    let is_joined = own == recording_epoch() && cells != 0;
    if let Some(chunk) = chunks::find(address).filter(|chunk| is_joined && counted::has_known_device(chunk))
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
        if !begin_counting(thread) {
            return;
        }
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let cells = unsafe { (*thread).cells };
        let is_counted = chunk_of(address).is_some_and(|chunk| {
            let row = make_row(caller, chunk.device.load(Relaxed));
            row.is_some_and(|row| bytes < 1 << 40 && count_in(row, cells, chunk, address, bytes))
        });
        if !is_counted {
            table_word(0).fetch_add(1, Relaxed);
            table_word(1).fetch_add(bytes, Relaxed);
        }
    });
}

/// Notes the address of an allocation that is recorded as a call, so that its free is recorded as well. If there is no room for
/// the note, all frees of unknown memory are recorded.
pub fn note_recorded(address: u64) {
    guarded(|| {
        if !begin_counting(thread()) {
            return;
        }
        match chunks::find_or_add(address).and_then(|chunk| chunk.word(address)) {
            Some(place) => counted::subtract(place.swap(known::THERE | known::EVENT, AcqRel)),
            None => counted::HAS_LOST.store(true, Relaxed),
        }
    });
}

/// Returns the index of the row that counts a call site on a device, after adding the row if there is none.
fn make_row(caller: usize, device: u64) -> Option<usize> {
    if let row @ Some(_) = counted::row_of(caller, device) {
        return row;
    }
    let [own, others] = counted::row_keys(caller, device);
    let has_room = ROWS_OF_PLACES.fetch_add(1, Relaxed) < MOST_PLACES;
    if has_room {
        libraries::describe_library_of(caller);
    } else {
        counted::IS_FULL.store(true, Relaxed);
    }
    let key = if has_room { own } else { others };
    counted::rows_to_probe(key).find(|row| {
        let taken = row_part(*row, row::KEY).compare_exchange(0, key, AcqRel, Acquire);
        taken.is_ok() || taken == Err(key)
    })
}

/// Returns the chunk that contains an address. If the device of the chunk is not known, asks the driver for it first.
fn chunk_of(address: u64) -> Option<&'static Chunk> {
    let chunk = chunks::find_or_add(address)?;
    if counted::has_known_device(chunk) {
        return Some(chunk);
    }
    let (device, context) =
        queries::device_and_context_of_memory(address).unwrap_or((queries::device_of_current_context(), 0));
    let new = row_key(0, Some(device)) >> 48;
    static FIRST: AtomicU64 = AtomicU64::new(0);
    if FIRST.compare_exchange(0, new, Relaxed, Relaxed).is_err_and(|first| first != new) {
        HAS_SEVERAL.store(true, Relaxed);
    }
    counted::note_context(device, context);
    chunk.context.store(context, Relaxed);
    chunk.queried_at.store(clock::roughly_now(), Relaxed);
    chunk.device.store(new, Relaxed);
    Some(chunk)
}

/// Gives this thread its counters, and the process its table if it has none. For use in `guarded`.
fn begin_counting(thread: *mut Thread) -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    let is_joined = || unsafe { (*thread).epoch == recording_epoch() && (*thread).cells != 0 };
    if is_counting() && is_joined() {
        return true;
    }
    if settings::get().record.is_none() || !process::join_or_begin_record() {
        return false;
    }
    if !is_counting() {
        LOCK.with(create_counter_table);
    }
    if !is_counting() {
        return false;
    }
    let number = THREADS.fetch_add(1, Relaxed) as usize;
    let own = || ptr::from_ref(table_word(UNFOLLOWED + ROWS * ROW + number * ROWS)) as usize;
    let cells = if number < CELLS { own() } else { SHARED_CELLS };
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread).cells = cells };
    traced::note_condition_met(HistoryCondition::Made);
    queries::describe_devices(about::add_driver_description);
    true
}

fn create_counter_table() {
    let Some(file) = current::current().filter(|_| !is_counting()) else { return };
    // The old chunks are those of a parent, or of an earlier record of this process.
    if EPOCH.swap(0, AcqRel) != 0 {
        chunks::forget();
    }
    let Some(table) = about::add_counter_table(file) else { return };
    for count in [&THREADS, &ROWS_OF_PLACES, &OF_POOLS] {
        count.store(0, Relaxed);
    }
    counted::IS_FULL.store(false, Relaxed);
    counted::HAS_LOST.store(false, Relaxed);
    TABLE.store(table, Release);
    EPOCH.store(file.epoch, Release);
}
