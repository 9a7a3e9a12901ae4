//! Records calls that have already returned: those that used shared memory or order such uses, and large copies to and from the host.
//!
//! Each thread notes up to [`MOST_BEFORE_FIRST_PAUSE`] uses and orderings. Then the process pauses, each thread notes up to
//! [`MOST_BETWEEN_PAUSES`], and so on. Each pause is twice as long as the one before. Marks show between which notes some may be
//! missing.

use super::arguments::{Arguments, Store};
use super::work::EXTRA_WORK;
use super::{ADDRESS_MASK, CallRecord, clock, describe_caller_library, detail, process, stream};
use crate::sys::arch::thread;
use crate::sys::clock::roughly_now;
use crate::sys::every_call::recording_epoch;
use core::cell::Cell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, slot_word, used};

/// Largest number of uses that a thread notes before the first pause.
const MOST_BEFORE_FIRST_PAUSE: u32 = 4096;
/// Largest number of uses that a thread notes between two pauses.
const MOST_BETWEEN_PAUSES: u32 = 512;
/// Number of uses that all threads together note before the next pause.
const MOST_OF_ALL: u32 = 1 << 16;
/// Number of uses after which a thread adds them to the count of all threads.
const NOTES_PER_STEP: u32 = 64;
/// Length of the first pause, in which no uses are noted, in nanoseconds; each later one is twice as long.
const FIRST_PAUSE: u64 = 1_000_000_000;
/// Number of pauses after which the length of a pause no longer doubles.
const MOST_DOUBLINGS: u32 = 20;

/// True if uses are noted; false during a pause.
static IS_NOTING: AtomicBool = AtomicBool::new(true);
/// True after a pause until the first use is noted.
static IS_FIRST_AFTER_PAUSE: AtomicBool = AtomicBool::new(false);
/// Time at which the pause ends, as [`roughly_now`] returns it; 0 if there is no pause.
static PAUSE_ENDS: AtomicU64 = AtomicU64::new(0);
/// Number of pauses of the process so far.
static PAUSES: AtomicU32 = AtomicU32::new(0);
/// Number of uses that all threads noted since the last pause, counted in steps of [`NOTES_PER_STEP`].
static NOTES_OF_ALL: AtomicU32 = AtomicU32::new(0);

/// Returns true if uses are noted now. Ends a pause whose time is over.
#[inline(always)]
pub fn is_noting() -> bool {
    IS_NOTING.load(Acquire) || end_pause_if_over()
}

#[cold]
#[inline(never)]
fn end_pause_if_over() -> bool {
    let until = PAUSE_ENDS.load(Acquire);
    if until == 0 || roughly_now() < until || PAUSE_ENDS.compare_exchange(until, 0, AcqRel, Relaxed).is_err() {
        return false;
    }
    NOTES_OF_ALL.store(0, Relaxed);
    IS_FIRST_AFTER_PAUSE.store(true, Relaxed);
    IS_NOTING.store(true, Release);
    true
}

/// Begins a pause. The report judges no use during a pause.
pub fn pause() {
    if IS_NOTING.swap(false, AcqRel) {
        let pauses = PAUSES.fetch_add(1, Relaxed).min(MOST_DOUBLINGS);
        PAUSE_ENDS.store(roughly_now() + (FIRST_PAUSE << pauses), Release);
    }
}

/// Counts a use that this thread notes. Returns true if it is the last one before a pause.
fn count_note() -> bool {
    let pauses = PAUSES.load(Relaxed);
    // SAFETY: only this thread and its signal handlers use the block, and one that a handler counts may be missing.
    let number = unsafe {
        let (before, number) = (*thread()).noted;
        let number = if before == pauses { number + 1 } else { 1 };
        (*thread()).noted = (pauses, number);
        number
    };
    let is_many = number % NOTES_PER_STEP == 1 && NOTES_OF_ALL.fetch_add(NOTES_PER_STEP, Relaxed) >= MOST_OF_ALL;
    is_many || number >= if pauses == 0 { MOST_BEFORE_FIRST_PAUSE } else { MOST_BETWEEN_PAUSES }
}

/// Returns true if this thread has joined the record of the process.
#[inline(always)]
pub fn has_joined_record() -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).epoch == recording_epoch() }
}

/// A call that succeeded, and that did nothing to record except to use shared memory or to order such uses.
pub struct NotedUse {
    args: [u8; MOST_ARGS],
    shape: u64,
}

impl NotedUse {
    #[inline(always)]
    pub fn new() -> Self {
        NotedUse { args: [0; MOST_ARGS], shape: 0 }
    }

    /// Stores the arguments, some time before [`append`](NotedUse::append) copies them: a processor is slow to copy bytes that it has
    /// just stored in smaller parts.
    #[inline(always)]
    pub fn store_arguments(&mut self, store: &dyn Store, has_returned: bool) {
        let handle = Cell::new(None);
        let mut arguments = Arguments::new(&mut self.args, &handle);
        store.store(&mut arguments, has_returned);
        self.shape = arguments.shape;
    }

    pub fn args(&self) -> &[u8; MOST_ARGS] {
        &self.args
    }

    /// Puts the call into the record, with its times and with the context and device that were current. Returns the number of its
    /// slot; `None` if there is no room.
    pub fn append(&self, id: FnId, caller: usize, (start, end): (u64, u64), current: u64) -> Option<u64> {
        let thread = thread();
        if !has_joined_record() && !process::join_or_begin_record() {
            return None;
        }
        describe_caller_library(thread, caller);
        let is_last = count_note();
        let mut marks = if is_last { used::LAST } else { 0 };
        if IS_FIRST_AFTER_PAUSE.load(Relaxed) && IS_FIRST_AFTER_PAUSE.swap(false, Relaxed) {
            marks |= used::RESUMED;
        }
        let wide = EXTRA_WORK[id as usize].wide.into();
        let slots = detail::slots_for_context(wide);
        let taken = stream::take(thread, 1 + slots);
        if let Some(taken) = &taken {
            let (first, number) = (taken.place as *mut Slot, taken.number);
            // SAFETY: the slots are in this thread's window, and nobody else was given them.
            unsafe {
                ((*first).start, (*first).end) = (start, if is_last { clock::now() } else { end });
                ((*first).caller, (*first).result) = (caller as u64 & ADDRESS_MASK | self.shape, marks);
                (*first).args.copy_from_slice(&self.args[..ARGS]);
                detail::write_current_context(first.add(1), number, current, &self.args, wide);
                stream::publish(first, slot_word(slot::USED, 1, id as u16, number as u32));
                let detail = slot_word(slot::DETAIL, slots as u8, u16::MAX, number as u32 + 1);
                stream::publish(first.add(1), detail);
            }
            stream::restore_filling(thread, taken.before);
        }
        if is_last {
            pause();
        }
        taken.map(|taken| taken.number)
    }
}

impl CallRecord<'_> {
    /// Adds the context and the device that were current when this recorded call used shared memory. Returns the number of the
    /// call's slot. For use in `guarded`.
    pub fn add_current_context(&self, current: u64) -> u64 {
        detail::append_short(self.number, &[(slot::detail::CURRENT, &current.to_le_bytes())]);
        self.number
    }

    /// Records a call that has already succeeded. `start` and `end` are the times when it was forwarded and when it returned, in
    /// ticks.
    pub fn append(&mut self, caller: usize, start: u64, end: u64) {
        let store = self.store;
        self.begin(store, caller, true, false);
        if !self.has_begun() {
            return;
        }
        self.finish(store, 0, true);
        // SAFETY: the slot is in this thread's window, which is mapped for good, and before the next one.
        stream::change_slot(self.number as u32, |slot| unsafe { ((*slot).start, (*slot).end) = (start, end) });
    }
}
