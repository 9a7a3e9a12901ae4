//! Records calls that have returned already: those that used shared memory or order such uses, and large copies to and from the host.
//!
//! Of the former, a thread notes [`MOST`] at first. Then none of the process is noted for a while, and [`FEW`] of each thread again,
//! and so on; each pause is twice as long as the one before. Marks say between which of them some may be missing.

use super::arguments::{Arguments, Store};
use super::{ADDRESS, Recorded, clock, detail, know, process, stream};
use crate::sys::arch::thread;
use crate::sys::clock::roughly;
use crate::sys::every_call::epoch;
use core::cell::Cell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId};
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, used, word};

/// So many notes of a thread come before the first pause.
const MOST: u32 = 4096;
/// So many before each later one.
const FEW: u32 = 512;
/// So many of all threads do.
const MOST_OF_ALL: u32 = 1 << 16;
/// Threads count their notes for all so many at a time.
const SOME: u32 = 64;
/// So long is the first pause, in nanoseconds.
const PAUSE: u64 = 1_000_000_000;
/// Pauses are at most so often as long as the one before.
const MOST_PAUSES: u32 = 20;

/// Whether calls are noted.
static IS_ON: AtomicBool = AtomicBool::new(true);
/// Whether the next note is the first one behind a pause.
static IS_BEHIND_PAUSE: AtomicBool = AtomicBool::new(false);
/// When a pause ends.
static UNTIL: AtomicU64 = AtomicU64::new(0);
static PAUSES: AtomicU32 = AtomicU32::new(0);
/// The notes of all threads since the last pause.
static ALL: AtomicU32 = AtomicU32::new(0);

/// Whether calls are noted now.
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

/// Begins a pause. What is not known cannot be judged.
pub fn pause() {
    if IS_ON.swap(false, AcqRel) {
        let pauses = PAUSES.fetch_add(1, Relaxed).min(MOST_PAUSES);
        UNTIL.store(roughly() + (PAUSE << pauses), Release);
    }
}

/// Counts a note of this thread. Says whether it is the last one before a pause.
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

/// How many bytes of arguments each function has whose slot has no room for them; else 0.
static WIDE: [u8; FUNCTION_COUNT] = {
    let mut wide = [0; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        if FUNCTIONS[index].is_wide() {
            wide[index] = FUNCTIONS[index].stored() as u8;
        }
        index += 1;
    }
    wide
};

/// Whether this thread writes to the record already.
#[inline(always)]
pub fn has_stream() -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).epoch == epoch() }
}

/// A call that has succeeded and is no call for anybody: it only used shared memory, or orders such uses.
pub struct Use {
    args: [u8; MOST_ARGS],
    shape: u64,
}

impl Use {
    #[inline(always)]
    pub fn new() -> Self {
        Use { args: [0; MOST_ARGS], shape: 0 }
    }

    /// Takes the arguments, some time before they are written: copying at once what was just stored in parts takes long.
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

    /// Puts it into the record, with this current context and device. Returns its number there.
    pub fn append(&self, id: FnId, caller: usize, (start, end): (u64, u64), current: u64) -> Option<u64> {
        let thread = thread();
        if !has_stream() && !process::attach() {
            return None;
        }
        know(thread, caller);
        let is_last = count();
        let mut marks = if is_last { used::LAST } else { 0 };
        if IS_BEHIND_PAUSE.load(Relaxed) && IS_BEHIND_PAUSE.swap(false, Relaxed) {
            marks |= used::RESUMED;
        }
        let wide = WIDE[id as usize].into();
        let slots = detail::slots_of_current(wide);
        let taken = stream::take(thread, 1 + slots);
        if let Some(taken) = &taken {
            let (first, number) = (taken.place as *mut Slot, taken.number);
            // SAFETY: the slots lie in this thread's window, and nobody else was given them.
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

impl Recorded<'_> {
    /// Adds with which current context and device a call that is in the record used shared memory, and returns its number. For use in
    /// `guarded`.
    pub fn add_current(&self, current: u64) -> u64 {
        detail::short(self.number, &[(slot::detail::CURRENT, &current.to_le_bytes())]);
        self.number
    }

    /// Puts a call into the record that has succeeded: when it was forwarded, and when it returned.
    pub fn append(&mut self, caller: usize, start: u64, end: u64) {
        let store = self.store;
        self.begin(store, caller, true, false);
        if !self.has_begun() {
            return;
        }
        self.finish(store, 0, true);
        let before = stream::fill(thread());
        if let Some(slot) = stream::place_of(self.number as u32) {
            // SAFETY: the slot is in this thread's window, which is mapped for good, and before the next one.
            unsafe { ((*slot).start, (*slot).end) = (start, end) };
        }
        stream::filled(thread(), before);
    }
}
