//! Records calls that have already returned: those that used shared memory or order such uses, and large copies to and from the host.
//!
//! Each thread notes up to [`MOST`] uses and orderings. Then the process pauses, each thread notes up to [`FEW`], and so on. Each
//! pause is twice as long as the one before. Marks show between which notes some may be missing.

use super::arguments::{Arguments, Store};
use super::work::EXTRA_WORK;
use super::{ADDRESS, CallRecord, clock, detail, know_library, process, stream};
use crate::sys::arch::thread;
use crate::sys::clock::roughly;
use crate::sys::every_call::epoch;
use core::cell::Cell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, used, word};

/// The most notes of a thread before the first pause.
const MOST: u32 = 4096;
/// The most notes of a thread before each later pause.
const FEW: u32 = 512;
/// The most notes of all threads before a pause.
const MOST_OF_ALL: u32 = 1 << 16;
/// The number of its notes after which a thread adds them to the count of all threads.
const SOME: u32 = 64;
/// The length of the first pause, in nanoseconds.
const PAUSE: u64 = 1_000_000_000;
/// The number of times that the length of pauses doubles.
const MOST_PAUSES: u32 = 20;

/// False during a pause.
static IS_ON: AtomicBool = AtomicBool::new(true);
/// True until the first note after a pause.
static IS_BEHIND_PAUSE: AtomicBool = AtomicBool::new(false);
/// The time at which the pause ends; 0 without a pause.
static UNTIL: AtomicU64 = AtomicU64::new(0);
static PAUSES: AtomicU32 = AtomicU32::new(0);
/// The notes of all threads since the last pause.
static ALL: AtomicU32 = AtomicU32::new(0);

/// Returns true if calls are noted now.
#[inline(always)]
pub fn is_noting() -> bool {
    IS_ON.load(Acquire) || is_pause_over()
}

#[cold]
#[inline(never)]
fn is_pause_over() -> bool {
    let until = UNTIL.load(Acquire);
    if until == 0 || roughly() < until || UNTIL.compare_exchange(until, 0, AcqRel, Relaxed).is_err() {
        return false;
    }
    ALL.store(0, Relaxed);
    IS_BEHIND_PAUSE.store(true, Relaxed);
    IS_ON.store(true, Release);
    true
}

/// Begins a pause. The report does not judge what happens in it.
pub fn pause() {
    if IS_ON.swap(false, AcqRel) {
        let pauses = PAUSES.fetch_add(1, Relaxed).min(MOST_PAUSES);
        UNTIL.store(roughly() + (PAUSE << pauses), Release);
    }
}

/// Counts a note of this thread. Returns true if it is the last one before a pause.
fn count() -> bool {
    let pauses = PAUSES.load(Relaxed);
    // SAFETY: only this thread and its signal handlers use the block, and one that a handler counts may be missing.
    let number = unsafe {
        let (before, number) = (*thread()).noted;
        let number = if before == pauses { number + 1 } else { 1 };
        (*thread()).noted = (pauses, number);
        number
    };
    let is_many = number % SOME == 1 && ALL.fetch_add(SOME, Relaxed) >= MOST_OF_ALL;
    is_many || number >= if pauses == 0 { MOST } else { FEW }
}

/// Returns true if this thread has written to the record.
#[inline(always)]
pub fn has_stream() -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).epoch == epoch() }
}

/// A call that succeeded, and only used shared memory or orders such uses.
pub struct Use {
    args: [u8; MOST_ARGS],
    shape: u64,
}

impl Use {
    #[inline(always)]
    pub fn new() -> Self {
        Use { args: [0; MOST_ARGS], shape: 0 }
    }

    /// Takes the arguments, some time before [`append`](Use::append) writes them: a processor is slow to copy bytes that it has just
    /// stored in smaller parts.
    #[inline(always)]
    pub fn take(&mut self, store: &dyn Store, has_returned: bool) {
        let handle = Cell::new(None);
        let mut arguments = Arguments::new(&mut self.args, &handle);
        store.store(&mut arguments, has_returned);
        self.shape = arguments.shape;
    }

    pub fn args(&self) -> &[u8; MOST_ARGS] {
        &self.args
    }

    /// Puts it into the record, with the current context and device. Returns the number of its slot.
    pub fn append(&self, id: FnId, caller: usize, (start, end): (u64, u64), current: u64) -> Option<u64> {
        let thread = thread();
        if !has_stream() && !process::attach() {
            return None;
        }
        know_library(thread, caller);
        let is_last = count();
        let mut marks = if is_last { used::LAST } else { 0 };
        if IS_BEHIND_PAUSE.load(Relaxed) && IS_BEHIND_PAUSE.swap(false, Relaxed) {
            marks |= used::RESUMED;
        }
        let wide = EXTRA_WORK[id as usize].wide.into();
        let slots = detail::slots_of_current(wide);
        let taken = stream::take(thread, 1 + slots);
        if let Some(taken) = &taken {
            let (first, number) = (taken.place as *mut Slot, taken.number);
            // SAFETY: the slots are in this thread's window, and nobody else was given them.
            unsafe {
                ((*first).start, (*first).end) = (start, if is_last { clock::now() } else { end });
                ((*first).caller, (*first).result) = (caller as u64 & ADDRESS | self.shape, marks);
                (*first).args.copy_from_slice(&self.args[..ARGS]);
                detail::current(first.add(1), number, current, &self.args, wide);
                stream::publish(first, word(slot::USED, 1, id as u16, number as u32));
                let detail = word(slot::DETAIL, slots as u8, u16::MAX, number as u32 + 1);
                stream::publish(first.add(1), detail);
            }
            stream::filled(thread, taken.before);
        }
        if is_last {
            pause();
        }
        taken.map(|taken| taken.number)
    }
}

impl CallRecord<'_> {
    /// Adds the current context and device with which a recorded call used shared memory, and returns its number. For use in
    /// `guarded`.
    pub fn add_current(&self, current: u64) -> u64 {
        detail::short(self.number, &[(slot::detail::CURRENT, &current.to_le_bytes())]);
        self.number
    }

    /// Records a call that succeeded, with the times when it was forwarded and when it returned.
    pub fn append(&mut self, caller: usize, start: u64, end: u64) {
        let store = self.store;
        self.begin(store, caller, true, false);
        if !self.has_begun() {
            return;
        }
        self.finish(store, 0, true);
        // SAFETY: the slot is in this thread's window, which is mapped for good, and before the next one.
        stream::change_slot(self.number as u32, |slot| unsafe {
            ((*slot).start, (*slot).end) = (start, end)
        });
    }
}
