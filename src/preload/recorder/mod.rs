//! The record of this process, in the format of `cupeer_spec::record`, written so that it survives any end.
//!
//! The path of a call: [`CallRecord::begin`] writes it into the thread's own window before it is forwarded, and
//! [`CallRecord::finish`] adds the result. Both write to memory that no other thread writes to, and make no system call.
//! Everything else is off that path:
//!
//! - The file: `process` begins it, `file` has its header and its blocks, and `stream` the window of each thread.
//! - The choice of calls: `relevance` decides on calls that are rarely recorded, `work` lists the steps per function, and
//!   `repeats` finds failures that are only counted. `used` adds calls that turn out to matter after they returned, and
//!   `counted` counts small allocations.
//! - The parts of a call: `arguments`, `detail`, `content`, and the memory that was left (`exhausted`).
//! - Facts about the process: `about` writes them; `libraries`, `functions_of_python`, `forked`, `outlived`, and `notes`
//!   find them. `early` keeps marks until the record begins.
//! - The time: `clock` and `speed`.
//!
//! Reading the clock is safe except under PR_SET_TSC, which makes both the processor's counter and the kernel's vDSO clock fatal.

pub mod about;
mod arguments;
pub mod clock;
pub mod content;
pub mod counted;
mod current;
pub mod detail;
mod early;
pub mod exhausted;
pub mod file;
pub mod forked;
mod functions_of_python;
mod libraries;
mod notes;
pub mod outlived;
pub mod process;
mod relevance;
mod repeats;
pub mod speed;
mod stream;
mod used;
mod work;

pub use arguments::{Arguments, Store, Stored};
pub use detail::{Detail, item_of};
pub use notes::*;
pub use repeats::{listener_added, world_changed};
pub use used::{Use, has_stream, is_noting, pause};
pub use work::is_tracked;

use self::arguments::Handle;
use self::relevance::{Relevance, relevance};
use self::repeats::{CallShape, RunExit, RunLookup, RunSlot};
use self::work::EXTRA_WORK;
use crate::driver::queries;
use crate::sys::arch::{Thread, stack_height, thread};
use crate::sys::every_call::{epoch, libraries_generation};
use crate::sys::guard::guarded;
use core::cell::Cell;
use core::ptr;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::Hit;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, word};

/// The longest name of a fault: longer ones are cut.
const MOST_NAME: usize = 160;
/// The low 48 bits of a word: an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// A call on its way through the record. It stays where it was constructed, because moving it costs as much as recording it.
pub struct CallRecord<'a> {
    id: FnId,
    store: &'a dyn Store,
    /// The slot; null before the call is in the record, and after it has returned.
    slot: *mut Slot,
    /// The first word of the slot while the call is pending.
    word: u64,
    /// The number of the slot in its stream.
    number: u64,
    epoch: u64,
    /// The time when it was forwarded, if steps ran before that.
    start: u64,
    /// [`slot::INJECTED`] if a fault changes what the program sees.
    injected: u8,
    caller: usize,
    /// The height of the stack.
    height: usize,
    /// The run that it is in flight in.
    run: Option<RunSlot>,
    stack: StackState,
    /// True for a copy between memory that exists: if it succeeds, no further steps run.
    is_plain: bool,
    handle: Cell<Option<Handle>>,
}

/// The state of the stack of a call in the record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StackState {
    /// Not recorded. It will be if a stack is due for calls of this kind.
    IfDue,
    /// Not recorded. It will be in any case.
    Wanted,
    Recorded,
    /// Not recorded, and neither are the details that are added before a call is forwarded, because it was in flight in a run.
    LeftRun,
}

/// Makes this thread one of the record, or counts the call as lost. Returns false without a record.
#[cold]
#[inline(never)]
fn begin_slowly() -> bool {
    let mut attached = false;
    guarded(|| {
        attached = process::attach();
        if !attached {
            process::miss();
        }
    });
    attached
}

impl<'a> CallRecord<'a> {
    /// A call that is not in the record.
    #[inline(always)]
    pub fn new(id: FnId, store: &'a dyn Store) -> Self {
        CallRecord {
            id,
            store,
            slot: ptr::null_mut(),
            word: 0,
            number: 0,
            epoch: 0,
            start: 0,
            injected: 0,
            caller: 0,
            height: 0,
            run: None,
            stack: StackState::IfDue,
            is_plain: false,
            handle: Cell::new(None),
        }
    }

    /// Returns true if it is in the record, and has not returned.
    #[inline(always)]
    pub fn has_begun(&self) -> bool {
        !self.slot.is_null() || self.run.is_some()
    }

    /// Returns true if it is in the record, even after it has returned.
    pub fn is_recorded(&self) -> bool {
        self.number != 0 || self.word != 0
    }

    /// Notes that a fault changes what the program sees.
    pub fn mark_injected(&mut self) {
        self.injected = slot::INJECTED;
    }

    /// Adds the fault that was injected into it, or is about to be.
    pub fn add_hit(&self, hit: &Hit, name: &str) {
        let mut bytes = [0; 32 + MOST_NAME];
        let length = name.len().min(MOST_NAME);
        bytes[..32].copy_from_slice(cupeer_spec::record::bytes(hit));
        bytes[32..32 + length].copy_from_slice(&name.as_bytes()[..length]);
        item_of(self.number, slot::detail::HIT, &bytes[..32 + length]);
    }

    /// Puts it into the record. `store` is the argument of `new` by its type, `is_hit` means that it is recorded even if it is not
    /// relevant, and `is_own` that no fault or denied pair concerns it.
    #[inline(always)]
    pub fn begin<S: Store + ?Sized>(&mut self, store: &S, caller: usize, is_hit: bool, is_own: bool) {
        let (thread, id) = (thread(), self.id);
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let own = || unsafe { (*thread).epoch };
        if own() != epoch() && !begin_slowly() {
            return;
        }
        let relevance = if EXTRA_WORK[id as usize].is_rare {
            relevance(id, self.store, &self.handle)
        } else {
            Relevance::Call
        };
        if relevance == Relevance::None && !is_hit {
            return;
        }
        // No thread of the process has recorded a call yet.
        if own() == 0 && !begin_slowly() {
            return;
        }
        if (EXTRA_WORK[id as usize].shares || is_hit) && !process::show_before_call() {
            return;
        }
        (self.caller, self.height) = (caller, stack_height());
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let runs = unsafe { (*thread).runs };
        if runs >> (id as u32 % u32::BITS) & 1 != 0 && is_own && self.join_run(thread) {
            return;
        }
        if is_hit {
            self.stack = StackState::Wanted;
        }
        know_library(thread, caller);
        let Some(taken) = stream::take(thread, 1) else { return };
        let (slot, number) = (taken.place as *mut Slot, taken.number);
        let word = word(slot::PENDING, 1, id as u16, number as u32);
        (self.slot, self.word, self.number, self.epoch) = (slot, word, number, own());
        // SAFETY: the slot is in this thread's window, and nobody else was given it.
        unsafe {
            let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
            store.store(&mut arguments, false);
            (*slot).caller = caller as u64 & ADDRESS | arguments.shape;
            (*slot).result = 0;
            (*slot).end = 0;
            (*slot).start = clock::now();
            stream::publish(slot, word);
        }
        stream::filled(thread, taken.before);
        if let Relevance::Copy { devices, is_gone } = relevance {
            self.is_plain = !is_gone;
            self.add_devices(devices);
        }
    }

    /// Stores its arguments in so many bytes. Returns them with their shape.
    fn stored<const N: usize>(&self, succeeded: bool) -> ([u8; N], u64) {
        let mut bytes = [0; N];
        let mut arguments = Arguments::new(&mut bytes, &self.handle);
        self.store.store(&mut arguments, succeeded);
        let shape = arguments.shape;
        (bytes, shape)
    }

    /// Counts it in a run if it looks like the calls of one. Returns true if it does.
    #[inline(never)]
    fn join_run(&mut self, thread: *mut Thread) -> bool {
        let (args, shape) = self.stored(false);
        let call = CallShape { id: self.id, caller: self.caller, height: self.height, args: &args, shape };
        match repeats::join(thread, &call) {
            RunLookup::InRun(run) => {
                // SAFETY: only this thread and its signal handlers use the block.
                self.epoch = unsafe { (*thread).epoch };
                (self.number, self.start) = (run.number, run.start);
                self.run = Some(run);
                true
            }
            RunLookup::Example => {
                self.stack = StackState::Wanted;
                false
            }
            RunLookup::None => false,
        }
    }

    /// Ends a call that was in flight in a run. Returns true if it turned out to differ, and more steps must run for it.
    #[cold]
    #[inline(never)]
    fn finish_run(&mut self, run: RunSlot, result: i32, succeeded: bool) -> bool {
        let end = clock::now();
        match run.end(thread(), result, end) {
            RunExit::Counted => return false,
            RunExit::LostSlot { is_alike } => {
                self.finish_late(result, succeeded, end);
                if is_alike {
                    return false;
                }
            }
            RunExit::Differs => {
                let added = self.append_end(slot::RETURNED, self.caller, (run.start, end), result, succeeded);
                self.number = added.unwrap_or(0);
                if added.is_none() {
                    return false;
                }
            }
        }
        self.stack = StackState::LeftRun;
        let work = EXTRA_WORK[self.id as usize];
        work.is_tracked || work.has_details || !succeeded
    }

    /// Returns true if it was only counted in a run.
    pub fn was_counted(&self) -> bool {
        self.caller != 0 && self.word == 0 && self.number != 0 && self.stack != StackState::LeftRun
    }

    /// Adds the devices of a copy, and its arguments if they do not fit in the slot and no later step adds them.
    #[cold]
    #[inline(never)]
    fn add_devices(&mut self, devices: [i32; 2]) {
        let bytes = devices.map(i32::to_le_bytes);
        let devices = (slot::detail::DEVICES, bytes.as_flattened());
        let wide = EXTRA_WORK[self.id as usize].wide as usize;
        if self.is_plain && wide != 0 {
            let (args, _) = self.stored::<MOST_ARGS>(false);
            detail::short(self.number, &[devices, (slot::detail::ARGUMENTS, &args[..wide])]);
        } else {
            detail::short(self.number, &[devices]);
        }
        self.restart();
        if speed::is_due(self.start) {
            guarded(speed::note);
        }
    }

    /// Runs the steps before a tracked call is forwarded: adds its stack, and passes its arguments to `note`.
    pub fn before_call(&mut self, caller: usize, note: impl FnOnce(FnId, &[u8; MOST_ARGS])) {
        if let Some(mut run) = self.run {
            // A call that releases nothing needs these steps only if it turns out to differ from its run.
            if self.id.spec().gives_back() {
                let args = run.args().unwrap_or_else(|| self.stored(false).0);
                guarded(|| note(self.id, &args));
                run.restart(thread());
                self.start = run.start;
                self.run = Some(run);
            }
            return;
        }
        let work = EXTRA_WORK[self.id as usize];
        let wide = work.wide as usize;
        let args = if wide != 0 {
            self.stored(false).0
        } else {
            let mut args = [0; MOST_ARGS];
            // Storing the arguments again would take two fingerprints for a handle.
            // SAFETY: the slot is this call's.
            args[..ARGS].copy_from_slice(&unsafe { (*self.slot).args });
            args
        };
        guarded(|| {
            let is_due = work.frames && repeats::is_due(self.id, 0, self.number, (caller, self.height));
            let has_stack = is_due || self.stack == StackState::Wanted && work.frames;
            if has_stack {
                self.stack = StackState::Recorded;
            }
            if has_stack || wide != 0 {
                Detail::about(self.number, |detail| {
                    if wide != 0 {
                        detail.item(slot::detail::ARGUMENTS, 0, &args[..wide]);
                    }
                    if has_stack {
                        detail.frames(caller);
                    }
                });
            }
            note(self.id, &args);
        });
        self.restart();
    }

    /// Lets the time of the call begin now, after the steps before it.
    #[cold]
    #[inline(never)]
    fn restart(&mut self) {
        self.start = clock::now();
        // SAFETY: the slot is this call's.
        self.change_slot(|slot| unsafe { (*slot).start = self.start });
    }

    /// Adds the result. Returns true if more steps must run for the call.
    #[inline(always)]
    pub fn finish<S: Store + ?Sized>(&mut self, store: &S, result: i32, succeeded: bool) -> bool {
        if self.slot.is_null() {
            let run = self.run.take().filter(|_| self.epoch == epoch());
            return run.is_some_and(|run| self.finish_run(run, result, succeeded));
        }
        let end = clock::now();
        // A child that was forked in the call has another record.
        if self.epoch != epoch() {
            self.slot = ptr::null_mut();
            return false;
        }
        let work = EXTRA_WORK[self.id as usize];
        let is_tracked = work.is_tracked && !self.is_plain;
        let has_more = is_tracked || work.has_details || !succeeded || !queries::has_described();
        // SAFETY: the slot is this call's.
        let is_finished = self.change_slot(|slot| unsafe {
            if succeeded && work.writes {
                let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
                store.store(&mut arguments, true);
                (*slot).caller = (*slot).caller & ADDRESS | arguments.shape;
            }
            (*slot).end = end;
            (*slot).result = result;
            stream::publish(slot, self.word & !0xff | u64::from(slot::RETURNED | self.injected));
        });
        self.slot = ptr::null_mut();
        if !is_finished {
            self.finish_late(result, succeeded, end);
        }
        has_more
    }

    /// Changes the slot, unless details of the call, or nested calls, have used up the window: an emptied window holds the old bytes, but
    /// with later numbers. Signal handlers cannot use it up meanwhile. Returns false if the call has lost its slot.
    #[inline(always)]
    fn change_slot(&self, change: impl FnOnce(*mut Slot)) -> bool {
        let thread = thread();
        let before = stream::fill(thread);
        let has_slot = self.epoch == epoch()
            && (stream::window(thread).has(self.slot as usize, self.number)
                || stream::is_in_ring(self.slot, self.number));
        if has_slot {
            change(self.slot);
        }
        stream::filled(thread, before);
        has_slot
    }

    /// Ends a call that an exception or a cancellation passes through.
    #[cold]
    #[inline(never)]
    fn unwound(&mut self) {
        let end = clock::now();
        match self.run.take() {
            Some(run) if self.epoch == epoch() => {
                if matches!(run.leave(thread()), RunExit::Differs) {
                    self.append_end(slot::UNWOUND, self.caller, (run.start, end), 0, false);
                }
            }
            Some(_) => {}
            None => {
                // SAFETY: the slot is this call's.
                self.change_slot(|slot| unsafe {
                    (*slot).end = end;
                    stream::publish(slot, self.word & !0xff | u64::from(slot::UNWOUND));
                });
            }
        }
    }

    /// Records the end of a call that has lost its slot.
    #[cold]
    #[inline(never)]
    fn finish_late(&mut self, result: i32, succeeded: bool, end: u64) {
        self.append_end(slot::LATE_END | self.injected, 0, (self.number, end), result, succeeded);
    }

    /// Adds a slot for the end of a call that has none. Returns its number.
    fn append_end(
        &self,
        state: u8,
        caller: usize,
        (start, end): (u64, u64),
        result: i32,
        succeeded: bool,
    ) -> Option<u64> {
        let (args, shape) = self.stored(succeeded);
        let mut number = None;
        guarded(|| {
            number = stream::append(state, self.id as u16, |slot| {
                (slot.start, slot.end, slot.result) = (start, end, result);
                (slot.args, slot.caller) = (args, caller as u64 & ADDRESS | shape);
            });
        });
        number
    }

    /// Returns true if it is in the record, and steps run before and after it.
    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        is_tracked(self.id) && self.has_begun() && !self.is_plain
    }

    /// Returns the time when a tracked call was forwarded, on the clock of the record.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the low half of its slot's number, as the upper half of a word; 0 without a slot.
    #[inline(always)]
    pub fn half(&self) -> u64 {
        self.word & !u64::from(u32::MAX)
    }

    pub fn id(&self) -> FnId {
        self.id
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns its arguments as they are after the call.
    pub fn arguments(&self, succeeded: bool) -> Stored {
        let (bytes, shape) = self.stored(succeeded);
        Stored { bytes, shape, handle: self.handle.get().map(|handle| handle.bytes) }
    }

    /// Adds the details that `fill` makes, and returns them. For use in `guarded`.
    pub fn add(&self, fill: impl FnOnce(&mut Detail)) -> Detail {
        Detail::about(self.number, fill)
    }

    /// Adds the details that were left out before the call: its stack, if one is due and missing, and arguments that do not fit in the
    /// slot. Returns true if the record has its stack now.
    pub fn add_rest(&self, result: i32, args: &[u8; MOST_ARGS], detail: &mut Detail) -> bool {
        let work = EXTRA_WORK[self.id as usize];
        if self.stack == StackState::LeftRun && work.wide != 0 {
            detail.item(slot::detail::ARGUMENTS, 0, &args[..work.wide as usize]);
        }
        let due = |carries: bool| {
            carries && repeats::is_due(self.id, result, self.number, (self.caller, self.height))
        };
        let is_due = match self.stack {
            // The call still counts as one of its kind.
            StackState::Recorded => {
                due(result != 0);
                false
            }
            StackState::Wanted => true,
            StackState::LeftRun => due(work.frames || result != 0),
            StackState::IfDue => due(result != 0),
        };
        if is_due {
            detail.frames(self.caller);
        }
        is_due || self.stack == StackState::Recorded
    }

    /// Notes that it failed, after all steps: the next call like it may be counted in a run. For use in `guarded`.
    pub fn note_failure(&self, result: i32, args: &Stored) {
        let Stored { bytes: args, shape, .. } = args;
        let call = CallShape { id: self.id, caller: self.caller, height: self.height, args, shape: *shape };
        repeats::note_failure(&call, result, self.number);
    }
}

impl Drop for CallRecord<'_> {
    /// A call that is still in the record was left by an exception or a cancellation.
    #[inline(always)]
    fn drop(&mut self) {
        if self.has_begun() {
            self.unwound();
        }
    }
}

/// Ends a call of this thread that was left by a jump, if it still has its slot: the call of this function whose slot number has this low
/// half. If the program had only switched stacks, and the call returns after all, its end replaces this one.
pub fn left_by_jump(function: u32, half: u32) {
    let pending = word(slot::PENDING, 1, function as u16, half);
    if !has_stream() {
        return;
    }
    let end = clock::now();
    // SAFETY: the slot is in this thread's window, which is mapped for good, and before the next one.
    stream::change_slot(half, |slot| unsafe {
        if (*slot).word == pending {
            (*slot).end = end;
            stream::publish(slot, pending & !0xff | u64::from(slot::UNWOUND));
        }
    });
}

/// Makes sure that the record describes the library of a caller.
#[inline(always)]
fn know_library(thread: *mut Thread, caller: usize) {
    // SAFETY: the block belongs to this thread and its signal handlers. These may write to it at any time, so no reference to it is
    // made, and each word is read by itself.
    let (start, length, generation, again) = unsafe {
        let known = &raw const (*thread).known;
        let start = || (&raw const (*known).0).read_volatile();
        let length = || (&raw const (*known).1).read_volatile();
        (start(), length(), (&raw const (*thread).known_generation).read_volatile(), start())
    };
    // If a handler ran in between, the start and the length may belong to two libraries.
    if caller.wrapping_sub(start) >= length || generation != libraries_generation() || again != start {
        libraries::know_slowly(caller);
    }
}
