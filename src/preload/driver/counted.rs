//! Counts allocations in a table of the record, and keeps a word for each allocation. Every allocation and every free runs
//! through this code.

use super::chunks::{self, Chunk};
use super::{contexts, queries};
use crate::sys::arch::thread;
use crate::sys::clock;
use crate::sys::every_call::recording_epoch;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::counted::{ROW, ROWS, UNFOLLOWED, WORDS, pack_live, parse_row_key, row, unpack_live};
use cupeer_spec::record::slot::MOST_ARGS;

/// The word of an allocation: the bits below, the allocation's row in the table, and its size in bytes in the highest bits.
pub mod known {
    /// Bit: the allocation exists.
    pub const THERE: u64 = 1;
    /// Bit: the call that made the allocation is in the record, and the allocation is not counted.
    pub const EVENT: u64 = 2;
    /// Bit: the allocation was exported.
    pub const SHARED: u64 = 4;
    pub const ROW_SHIFT: u32 = 8;
    pub const SIZE_SHIFT: u32 = 16;
}

/// Table of counts, in the mapped record; null if there is none.
pub static TABLE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// Epoch of the recording that contains the table; 0 if there is none.
pub static EPOCH: AtomicU64 = AtomicU64::new(0);
/// True once the process used memory of several devices.
pub static HAS_SEVERAL: AtomicBool = AtomicBool::new(false);
/// True if no row is left for a further caller. Then the callers without a row share one row per device.
pub static IS_FULL: AtomicBool = AtomicBool::new(false);
/// True if no word could be stored for an allocation whose call is in the recording.
pub static HAS_LOST: AtomicBool = AtomicBool::new(false);
/// Time for which the driver's answer about a chunk is valid if the process uses several devices, in nanoseconds.
const VALID_FOR: u64 = 100_000_000;

/// Placeholder for the address of a thread's own array of counts: the thread has no array, and uses the shared counts.
pub const SHARED_CELLS: usize = 1;

/// Returns true if this process has a table, so that its allocations and frees are counted.
#[inline(always)]
pub fn is_counting() -> bool {
    let own = EPOCH.load(Acquire);
    own != 0 && own == recording_epoch()
}

/// Returns the word of the table with an index. For use while [`is_counting`] returns true.
#[inline(always)]
pub fn table_word(index: usize) -> &'static AtomicU64 {
    debug_assert!(index < WORDS);
    // SAFETY: the table has that many words, is never unmapped, and is used only as atomics.
    unsafe { &*TABLE.load(Acquire).add(index) }
}

#[inline(always)]
pub fn row_part(row: usize, part: usize) -> &'static AtomicU64 {
    table_word(UNFOLLOWED + row * ROW + part)
}

/// Returns true if this thread forwards a call about an allocation whose own call is in the record.
pub fn is_about_recorded_memory() -> bool {
    // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
    unsafe { (*thread()).memory & known::EVENT != 0 }
}

/// Returns true if the device of a chunk is known, and the driver's answer is recent enough.
#[inline(always)]
pub fn has_known_device(chunk: &Chunk) -> bool {
    let is_fresh = || clock::roughly_now().wrapping_sub(chunk.queried_at.load(Relaxed)) < VALID_FOR;
    chunk.device.load(Relaxed) != 0 && (!HAS_SEVERAL.load(Relaxed) || is_fresh())
}

/// Returns the key of a row for a caller on a device, and the key of the row for all callers on the device that have no row of
/// their own.
#[inline(always)]
pub fn row_keys(caller: usize, device: u64) -> [u64; 2] {
    [caller as u64 & ((1 << 48) - 1) | device << 48, device << 48]
}

/// Returns the row of a caller on a device, or the row that callers without a row share.
#[inline(always)]
pub fn row_of(caller: usize, device: u64) -> Option<usize> {
    let [own, others] = row_keys(caller, device);
    find(own).or_else(|| if IS_FULL.load(Relaxed) { find(others) } else { None })
}

/// Returns the rows in which a key may be, in the order of the search.
#[inline(always)]
pub fn rows_to_probe(key: u64) -> impl Iterator<Item = usize> {
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - ROWS.ilog2())) as usize;
    (first..first + ROWS).map(|row| row % ROWS)
}

#[inline(always)]
pub fn find(key: u64) -> Option<usize> {
    for row in rows_to_probe(key) {
        match row_part(row, row::KEY).load(Acquire) {
            known if known == key => return Some(row),
            0 => return None,
            _ => {}
        }
    }
    None
}

/// Counts an allocation in a row. `cells` is the address of the thread's own array, or [`SHARED_CELLS`]. Returns false if the
/// chunk has no word for the address.
#[inline(always)]
pub fn count_in(row: usize, cells: usize, chunk: &'static Chunk, address: u64, bytes: u64) -> bool {
    let Some(place) = chunk.word(address) else { return false };
    row_part(row, row::LIVE).fetch_add(pack_live(bytes, 1), Relaxed);
    let new = known::THERE | (row as u64) << known::ROW_SHIFT | bytes << known::SIZE_SHIFT;
    let old = place.load(Relaxed);
    place.store(new, Relaxed);
    if old != 0 {
        // The free of the earlier allocation was not seen.
        subtract(old);
    }
    if cells == SHARED_CELLS {
        row_part(row, row::MADE).fetch_add(1, Relaxed);
    } else {
        // SAFETY: the thread's own array in the table, which is never unmapped; only this thread writes to it.
        let cell = unsafe { &*(cells as *const AtomicU64).add(row) };
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }
    true
}

/// Returns the word for an address, if the chunk of the address is known.
#[inline(always)]
fn find_allocation_word(address: u64) -> Option<&'static AtomicU64> {
    chunks::find(address)?.word(address)
}

/// Returns the word of the allocation at an address; 0 if the allocation is not known.
#[inline(always)]
pub fn word_at(address: u64) -> u64 {
    find_allocation_word(address).map_or(0, |word| word.load(Relaxed))
}

/// Forgets the allocation at an address, which is about to be freed. Returns the word of the allocation; 0 if it is not known.
#[inline(always)]
pub fn take_allocation(address: u64) -> u64 {
    let Some(place) = find_allocation_word(address) else { return 0 };
    let known = place.load(Relaxed);
    if known != 0 {
        place.store(0, Relaxed);
        subtract(known);
    }
    known
}

/// Subtracts an allocation, by its word, from the count of its row.
#[inline(always)]
pub fn subtract(known: u64) {
    if known & (known::THERE | known::EVENT) == known::THERE {
        let row = (known >> known::ROW_SHIFT) as usize % ROWS;
        let before = row_part(row, row::LIVE).fetch_sub(pack_live(known >> known::SIZE_SHIFT, 1), Relaxed);
        // The peak was reached right before a free, or is the present count.
        let (bytes, peak) = (unpack_live(before).0, row_part(row, row::PEAK));
        if bytes > peak.load(Relaxed) {
            peak.fetch_max(bytes, Relaxed);
        }
    }
}

/// Restores an allocation that the driver could not free. `known` is the word that [`take_allocation`] returned.
#[cold]
#[inline(never)]
pub fn put_back(address: u64, known: u64) {
    if known == 0 || !is_counting() {
        return;
    }
    if let Some(place) = find_allocation_word(address) {
        if known & known::EVENT == 0 {
            let row = (known >> known::ROW_SHIFT) as usize % ROWS;
            row_part(row, row::LIVE).fetch_add(pack_live(known >> known::SIZE_SHIFT, 1), Relaxed);
        }
        place.store(known, Relaxed);
    }
}

/// Notes that an allocation was exported, so that its free matters to other processes.
pub fn note_export(address: u64) {
    if is_counting()
        && let Some(place) = find_allocation_word(address)
        && place.load(Relaxed) != 0
    {
        place.fetch_or(known::SHARED, Relaxed);
    }
}

/// Primary contexts of the first devices, by ordinal, if counted memory belongs to them; 0 for none. Each release of a primary
/// context reads this: UCX releases one per message.
static PRIMARIES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Stores the primary context of a device with counted memory, so that a release that ends the context is known to end
/// the memory.
pub fn note_context(device: i32, context: u64) {
    if let Some(primary) = PRIMARIES.get(device as usize)
        && contexts::device_of_created(context).is_none()
    {
        primary.store(context, Relaxed);
    }
}

/// Returns the context with counted memory that a call is about to end; 0 if no such context is known. Makes no driver
/// query, because a query could fail.
pub fn counted_context_to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> u64 {
    let Some(end) = id.spec().ended_context().filter(|_| is_counting()) else { return 0 };
    let named = queries::numeric_argument(id, args, end.by);
    if end.object != Object::Primary {
        return named;
    }
    PRIMARIES.get(named as usize).map_or(0, |primary| primary.load(Relaxed))
}

/// Forgets the allocations of a context that ended: the driver has no memory at their addresses any more.
pub fn forget_memory_of_context(context: u64) {
    if is_counting() && context != 0 {
        PRIMARIES.iter().for_each(|primary| _ = primary.compare_exchange(context, 0, Relaxed, Relaxed));
        chunks::each(|chunk| {
            let was_its_own = chunk.context.load(Relaxed) == context;
            let is_gone = |address| queries::allocation_range_at(address).map_or(was_its_own, |range| range.is_none());
            chunk.take_chosen(is_gone, subtract);
            if was_its_own {
                chunk.device.store(0, Relaxed);
            }
        });
    }
}

/// Returns the total size in bytes and the number of the counted allocations that exist on a device.
pub fn sum_on_device(device: i32) -> (u64, u64) {
    if !is_counting() {
        return (0, 0);
    }
    let is_there = |row: &usize| parse_row_key(row_part(*row, row::KEY).load(Relaxed)).1 == Some(device);
    let all = (0..ROWS).filter(is_there).map(|row| unpack_live(row_part(row, row::LIVE).load(Relaxed)));
    all.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}
