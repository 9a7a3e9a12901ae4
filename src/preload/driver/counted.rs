//! Counts allocations in a table of the record, and tracks each of them: the code that every allocation and free goes through.
//!
//! `recorder::counted` creates the table. Each counter is an atomic; a thread has an array of its own for the number of allocations.

use super::chunks::{self, Chunk};
use super::{contexts, queries};
use crate::sys::arch::thread;
use crate::sys::clock;
use crate::sys::every_call::epoch;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::counted::{ROW, ROWS, UNFOLLOWED, WORDS, live, of_key, of_live, row};
use cupeer_spec::record::slot::MOST_ARGS;

/// The word of an allocation: bits, its row, and its size above.
pub mod known {
    /// The allocation exists.
    pub const THERE: u64 = 1;
    /// Its call is in the record, and it is not counted.
    pub const EVENT: u64 = 2;
    /// It was exported.
    pub const SHARED: u64 = 4;
    pub const ROW_SHIFT: u32 = 8;
    pub const SIZE_SHIFT: u32 = 16;
}

/// The table, and the record that it is in.
pub static TABLE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
pub static EPOCH: AtomicU64 = AtomicU64::new(0);
/// True once the process used memory of several devices.
pub static HAS_SEVERAL: AtomicBool = AtomicBool::new(false);
/// True if all rows are taken.
pub static IS_FULL: AtomicBool = AtomicBool::new(false);
/// True if there was no room to note an allocation whose call is in the record.
pub static HAS_LOST: AtomicBool = AtomicBool::new(false);
/// Time for which an answer of the driver is valid if the process uses several devices, in nanoseconds.
const LONG: u64 = 100_000_000;

/// In place of the address of a thread's own array: it has none.
pub const SHARED_CELLS: usize = 1;

/// Returns true if this process has a table, so that its frees are examined.
#[inline(always)]
pub fn is_on() -> bool {
    let own = EPOCH.load(Acquire);
    own != 0 && own == epoch()
}

/// A word of the table. For use while [`is_on`].
#[inline(always)]
pub fn word(index: usize) -> &'static AtomicU64 {
    debug_assert!(index < WORDS);
    // SAFETY: the table has that many words, is never unmapped, and is used only as atomics.
    unsafe { &*TABLE.load(Acquire).add(index) }
}

#[inline(always)]
pub fn part(row: usize, part: usize) -> &'static AtomicU64 {
    word(UNFOLLOWED + row * ROW + part)
}

/// Returns true if this thread forwards a call about an allocation whose own call is in the record.
pub fn is_known_event() -> bool {
    // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
    unsafe { (*thread()).memory & known::EVENT != 0 }
}

/// Returns true if the device of a chunk is known, and the answer is recent enough.
#[inline(always)]
pub fn is_known(chunk: &Chunk) -> bool {
    let is_fresh = || clock::roughly().wrapping_sub(chunk.asked.load(Relaxed)) < LONG;
    chunk.device.load(Relaxed) != 0 && (!HAS_SEVERAL.load(Relaxed) || is_fresh())
}

/// The keys of a caller on a device, and of all callers there that have no row.
#[inline(always)]
pub fn keys(caller: usize, device: u64) -> [u64; 2] {
    [caller as u64 & ((1 << 48) - 1) | device << 48, device << 48]
}

/// The row of a caller on a device, or the row that the others share.
#[inline(always)]
pub fn row_of(caller: usize, device: u64) -> Option<usize> {
    let [own, others] = keys(caller, device);
    find(own).or_else(|| if IS_FULL.load(Relaxed) { find(others) } else { None })
}

/// The rows that may have a key, in their order.
#[inline(always)]
pub fn rows(key: u64) -> impl Iterator<Item = usize> {
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - ROWS.ilog2())) as usize;
    (first..first + ROWS).map(|row| row % ROWS)
}

#[inline(always)]
pub fn find(key: u64) -> Option<usize> {
    for row in rows(key) {
        match part(row, row::KEY).load(Acquire) {
            known if known == key => return Some(row),
            0 => return None,
            _ => {}
        }
    }
    None
}

/// Counts an allocation in a row. Returns false if there is no room for it.
#[inline(always)]
pub fn count_in(row: usize, cells: usize, chunk: &'static Chunk, address: u64, bytes: u64) -> bool {
    let Some(place) = chunk.word(address) else { return false };
    part(row, row::LIVE).fetch_add(live(bytes, 1), Relaxed);
    let new = known::THERE | (row as u64) << known::ROW_SHIFT | bytes << known::SIZE_SHIFT;
    let old = place.load(Relaxed);
    place.store(new, Relaxed);
    if old != 0 {
        // Its free was not seen.
        freed(old);
    }
    if cells == SHARED_CELLS {
        part(row, row::MADE).fetch_add(1, Relaxed);
    } else {
        // SAFETY: the thread's own array in the table, which is never unmapped; only this thread writes to it.
        let cell = unsafe { &*(cells as *const AtomicU64).add(row) };
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }
    true
}

/// The word of an address, if its chunk is known.
#[inline(always)]
fn place(address: u64) -> Option<&'static AtomicU64> {
    chunks::find(address)?.word(address)
}

/// Returns the word of the allocation at an address; 0 if it is not known.
#[inline(always)]
pub fn at(address: u64) -> u64 {
    place(address).map_or(0, |word| word.load(Relaxed))
}

/// Forgets the allocation at an address, which is about to be freed. Returns its word.
#[inline(always)]
pub fn take(address: u64) -> u64 {
    let Some(place) = place(address) else { return 0 };
    let known = place.load(Relaxed);
    if known != 0 {
        place.store(0, Relaxed);
        freed(known);
    }
    known
}

/// Removes an allocation from the count of its row.
#[inline(always)]
pub fn freed(known: u64) {
    if known & (known::THERE | known::EVENT) == known::THERE {
        let row = (known >> known::ROW_SHIFT) as usize % ROWS;
        let before = part(row, row::LIVE).fetch_sub(live(known >> known::SIZE_SHIFT, 1), Relaxed);
        // The peak was reached right before a free, or is the present count.
        let (bytes, peak) = (of_live(before).0, part(row, row::PEAK));
        if bytes > peak.load(Relaxed) {
            peak.fetch_max(bytes, Relaxed);
        }
    }
}

/// Restores an allocation that the driver could not free.
#[cold]
#[inline(never)]
pub fn put_back(address: u64, known: u64) {
    if known == 0 || !is_on() {
        return;
    }
    if let Some(place) = place(address) {
        if known & known::EVENT == 0 {
            let row = (known >> known::ROW_SHIFT) as usize % ROWS;
            part(row, row::LIVE).fetch_add(live(known >> known::SIZE_SHIFT, 1), Relaxed);
        }
        place.store(known, Relaxed);
    }
}

/// Notes that an allocation was exported: its free matters to others.
pub fn note_export(address: u64) {
    if is_on()
        && let Some(place) = place(address)
        && place.load(Relaxed) != 0
    {
        place.fetch_or(known::SHARED, Relaxed);
    }
}

/// The primary contexts that counted memory belongs to, of the first devices; 0 for none. Each release of a primary context reads this: UCX
/// makes one per message.
static PRIMARIES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Notes the device and the context of counted memory.
pub fn belongs_to(device: i32, context: u64) {
    if let Some(primary) = PRIMARIES.get(device as usize)
        && contexts::device_of_created(context).is_none()
    {
        primary.store(context, Relaxed);
    }
}

/// Returns the context with counted memory that a call is about to end; 0 if there is none. Makes no driver query, which could fail.
pub fn to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> u64 {
    let Some(end) = id.spec().ends_context().filter(|_| is_on()) else { return 0 };
    let named = queries::number(id, args, end.by);
    if end.object != Object::Primary {
        return named;
    }
    PRIMARIES.get(named as usize).map_or(0, |primary| primary.load(Relaxed))
}

/// Forgets the memory of a context that ended: the driver has none at its addresses any more.
pub fn context_ended(context: u64) {
    if is_on() && context != 0 {
        PRIMARIES.iter().for_each(|primary| _ = primary.compare_exchange(context, 0, Relaxed, Relaxed));
        chunks::each(|chunk| {
            let was_its_own = chunk.context.load(Relaxed) == context;
            let is_gone = |address| queries::memory_at(address).map_or(was_its_own, |range| range.is_none());
            chunk.take(is_gone, freed);
            if was_its_own {
                chunk.device.store(0, Relaxed);
            }
        });
    }
}

/// Returns the size and the number of the counted allocations that exist on a device.
pub fn on_device(device: i32) -> (u64, u64) {
    if !is_on() {
        return (0, 0);
    }
    let is_there = |row: &usize| of_key(part(*row, row::KEY).load(Relaxed)).1 == Some(device);
    let all = (0..ROWS).filter(is_there).map(|row| of_live(part(row, row::LIVE).load(Relaxed)));
    all.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}
