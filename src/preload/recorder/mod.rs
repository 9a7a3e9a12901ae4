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

pub use arguments::{Arguments, Store, StoredArguments};
pub use detail::{Detail, append_item_to_call};
pub use notes::*;
pub use repeats::{note_listener_added, note_world_changed};
pub use used::{NotedUse, has_joined_record, is_noting, pause};
pub use work::is_tracked;

use self::arguments::Handle;
use self::relevance::{Relevance, relevance};
use self::repeats::{CallShape, RunExit, RunLookup, RunSlot};
use self::work::EXTRA_WORK;
use crate::driver::queries;
use crate::sys::arch::{Thread, stack_height, thread};
use crate::sys::every_call::{libraries_generation, recording_epoch};
use crate::sys::guard::guarded;
use core::cell::Cell;
use core::ptr;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::FiredFault;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, slot_word};

/// Largest number of bytes of a fault's name in a record. Longer names are cut.
const MOST_NAME_BYTES: usize = 160;
/// Mask for the low 48 bits of a word, which hold an address.
const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// A call while it is being recorded. It stays where it was constructed, because moving it costs as much as recording the call.
pub struct CallRecord<'a> {
    id: FnId,
    store: &'a dyn Store,
    /// Address of the call's slot; null before the call is in the record, and after the call has returned.
    slot: *mut Slot,
    /// First word of the slot while the call is pending.
    word: u64,
    /// Number of the slot in the stream of the thread.
    number: u64,
    epoch: u64,
    /// Time when the call was forwarded, in ticks, if steps ran before that; otherwise unused.
    start: u64,
    /// [`slot::INJECTED`] if a fault changes the result that the program sees; otherwise 0.
    injected: u8,
    caller: usize,
    /// Height of the stack in the frame of the caller: see [`stack_height`].
    height: usize,
    /// The run in which the call is counted if it fails like the others; `None` if it has a slot of its own.
    run: Option<RunSlot>,
    stack: StackState,
    /// True for a copy between two ranges that still exist: if such a copy succeeds, no further steps run.
    is_plain: bool,
    handle: Cell<Option<Handle>>,
}

/// State of the recording of a call's stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StackState {
    /// The stack is not recorded. It will be if a stack is due for calls of this kind.
    IfDue,
    /// The stack is not recorded yet. It will be recorded in any case.
    Wanted,
    Recorded,
    /// The stack is not recorded, and neither are the details from before the call was forwarded, because the call was in flight
    /// in a run.
    LeftRun,
}

/// Joins this thread to the record, after creating the record if there is none. If that fails, counts the call as lost and
/// returns false.
#[cold]
#[inline(never)]
fn join_record_slowly() -> bool {
    let mut attached = false;
    guarded(|| {
        attached = process::join_or_begin_record();
        if !attached {
            process::count_call_before_record();
        }
    });
    attached
}

impl<'a> CallRecord<'a> {
    /// Creates a call that is not in the record yet.
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

    /// Returns true if the call is in the record with a slot of its own, and has not returned.
    #[inline(always)]
    pub fn has_begun(&self) -> bool {
        !self.slot.is_null() || self.run.is_some()
    }

    /// Returns true if the call is in the record, even after it has returned.
    pub fn is_recorded(&self) -> bool {
        self.number != 0 || self.word != 0
    }

    /// Makes the slot of the call show that a fault changed the result that the program sees.
    pub fn mark_injected(&mut self) {
        self.injected = slot::INJECTED;
    }

    /// Adds the fault that is injected into the call, with the fault's name.
    pub fn add_hit(&self, hit: &FiredFault, name: &str) {
        let mut bytes = [0; 32 + MOST_NAME_BYTES];
        let length = name.len().min(MOST_NAME_BYTES);
        bytes[..32].copy_from_slice(cupeer_spec::record::plain_bytes(hit));
        bytes[32..32 + length].copy_from_slice(&name.as_bytes()[..length]);
        append_item_to_call(self.number, slot::detail::HIT, &bytes[..32 + length]);
    }

    /// Puts the call into the record. `store` is the argument of `new` by its type. `is_hit` is true if the call must be recorded
    /// even if it is not relevant. `is_own` is true if no fault or denied pair affects the call.
    #[inline(always)]
    pub fn begin<S: Store + ?Sized>(&mut self, store: &S, caller: usize, is_hit: bool, is_own: bool) {
        let (thread, id) = (thread(), self.id);
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let own = || unsafe { (*thread).epoch };
        if own() != recording_epoch() && !join_record_slowly() {
            return;
        }
        let relevance =
            if EXTRA_WORK[id as usize].is_rare { relevance(id, self.store, &self.handle) } else { Relevance::Call };
        if relevance == Relevance::None && !is_hit {
            return;
        }
        // The epoch of the thread is 0 if no thread of the process has recorded a call yet.
        if own() == 0 && !join_record_slowly() {
            return;
        }
        if (EXTRA_WORK[id as usize].shares || is_hit) && !process::give_name_before_call() {
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
        describe_caller_library(thread, caller);
        let Some(taken) = stream::take(thread, 1) else { return };
        let (slot, number) = (taken.place as *mut Slot, taken.number);
        let word = slot_word(slot::PENDING, 1, id as u16, number as u32);
        (self.slot, self.word, self.number, self.epoch) = (slot, word, number, own());
        // SAFETY: the slot is in this thread's window, and nobody else was given it.
        unsafe {
            let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
            store.store(&mut arguments, false);
            (*slot).caller = caller as u64 & ADDRESS_MASK | arguments.shape;
            (*slot).result = 0;
            (*slot).end = 0;
            (*slot).start = clock::now();
            stream::publish(slot, word);
        }
        stream::restore_filling(thread, taken.before);
        if let Relevance::Copy { devices, is_gone } = relevance {
            self.is_plain = !is_gone;
            self.add_devices(devices);
        }
    }

    /// Returns the arguments of the call in `N` bytes, and the shape of each argument.
    fn store_arguments<const N: usize>(&self, succeeded: bool) -> ([u8; N], u64) {
        let mut bytes = [0; N];
        let mut arguments = Arguments::new(&mut bytes, &self.handle);
        self.store.store(&mut arguments, succeeded);
        let shape = arguments.shape;
        (bytes, shape)
    }

    /// Counts the call in a run if it is similar to the calls of the run. Returns true if the call is in flight in a run.
    #[inline(never)]
    fn join_run(&mut self, thread: *mut Thread) -> bool {
        let (args, shape) = self.store_arguments(false);
        let call = CallShape { id: self.id, caller: self.caller, height: self.height, args: &args, shape };
        match repeats::join_run(thread, &call) {
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

    /// Ends a call that was in flight in a run. Returns true if the call differs from the run, and more steps must run for it.
    #[cold]
    #[inline(never)]
    fn finish_run(&mut self, run: RunSlot, result: i32, succeeded: bool) -> bool {
        let end = clock::now();
        match run.leave_and_count(thread(), result, end) {
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

    /// Returns true if the call was only counted in a run.
    pub fn was_counted(&self) -> bool {
        self.caller != 0 && self.word == 0 && self.number != 0 && self.stack != StackState::LeftRun
    }

    /// Adds the two devices of a copy. Also adds its arguments if they do not fit in the slot and no later step adds them.
    #[cold]
    #[inline(never)]
    fn add_devices(&mut self, devices: [i32; 2]) {
        let bytes = devices.map(i32::to_le_bytes);
        let devices = (slot::detail::DEVICES, bytes.as_flattened());
        let wide = EXTRA_WORK[self.id as usize].wide as usize;
        if self.is_plain && wide != 0 {
            let (args, _) = self.store_arguments::<MOST_ARGS>(false);
            detail::append_short(self.number, &[devices, (slot::detail::ARGUMENTS, &args[..wide])]);
        } else {
            detail::append_short(self.number, &[devices]);
        }
        self.set_start_to_now();
        if speed::is_due(self.start) {
            guarded(speed::note_moment);
        }
    }

    /// Runs the steps before a tracked call is forwarded: adds its stack, and passes its arguments to `note`.
    pub fn before_call(&mut self, caller: usize, note: impl FnOnce(FnId, &[u8; MOST_ARGS])) {
        if let Some(mut run) = self.run {
            // For a call in flight in a run, these steps run only if the call may release something. Other calls need them only
            // if they turn out to differ from the run.
            if self.id.spec().is_release() {
                let args = run.args().unwrap_or_else(|| self.store_arguments(false).0);
                guarded(|| note(self.id, &args));
                run.set_start_to_now(thread());
                self.start = run.start;
                self.run = Some(run);
            }
            return;
        }
        let work = EXTRA_WORK[self.id as usize];
        let wide = work.wide as usize;
        let args = if wide != 0 {
            self.store_arguments(false).0
        } else {
            let mut args = [0; MOST_ARGS];
            // The arguments come from the slot, because storing them again would compute two fingerprints for a handle.
            // SAFETY: the slot is this call's.
            args[..ARGS].copy_from_slice(&unsafe { (*self.slot).args });
            args
        };
        guarded(|| {
            let is_due = work.frames && repeats::is_stack_due(self.id, 0, self.number, (caller, self.height));
            let has_stack = is_due || self.stack == StackState::Wanted && work.frames;
            if has_stack {
                self.stack = StackState::Recorded;
            }
            if has_stack || wide != 0 {
                Detail::add_to_call(self.number, |detail| {
                    if wide != 0 {
                        detail.add_item(slot::detail::ARGUMENTS, 0, &args[..wide]);
                    }
                    if has_stack {
                        detail.add_frames(caller);
                    }
                });
            }
            note(self.id, &args);
        });
        self.set_start_to_now();
    }

    /// Sets the start time of the call to now, after the steps before the call.
    #[cold]
    #[inline(never)]
    fn set_start_to_now(&mut self) {
        self.start = clock::now();
        // SAFETY: the slot is this call's.
        self.change_slot(|slot| unsafe { (*slot).start = self.start });
    }

    /// Adds the result of the call. Returns true if more steps must run for the call.
    #[inline(always)]
    pub fn finish<S: Store + ?Sized>(&mut self, store: &S, result: i32, succeeded: bool) -> bool {
        if self.slot.is_null() {
            let run = self.run.take().filter(|_| self.epoch == recording_epoch());
            return run.is_some_and(|run| self.finish_run(run, result, succeeded));
        }
        let end = clock::now();
        // A child that was forked during the call has another record.
        if self.epoch != recording_epoch() {
            self.slot = ptr::null_mut();
            return false;
        }
        let work = EXTRA_WORK[self.id as usize];
        let is_tracked = work.is_tracked && !self.is_plain;
        let has_more = is_tracked || work.has_details || !succeeded || !queries::has_described_devices();
        // SAFETY: the slot is this call's.
        let is_finished = self.change_slot(|slot| unsafe {
            if succeeded && work.writes {
                let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
                store.store(&mut arguments, true);
                (*slot).caller = (*slot).caller & ADDRESS_MASK | arguments.shape;
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

    /// Changes the slot of the call if the window still holds it. Details of the call, or nested calls, may have used up the
    /// window: an emptied window holds the old bytes, but with later numbers. Signal handlers cannot use it up in between.
    /// Returns false if the slot is lost.
    #[inline(always)]
    fn change_slot(&self, change: impl FnOnce(*mut Slot)) -> bool {
        let thread = thread();
        let before = stream::mark_filling(thread);
        let has_slot = self.epoch == recording_epoch()
            && (stream::window(thread).has_slot_number(self.slot as usize, self.number)
                || stream::is_in_ring(self.slot, self.number));
        if has_slot {
            change(self.slot);
        }
        stream::restore_filling(thread, before);
        has_slot
    }

    /// Ends a call from which an exception or a cancellation returned to the program.
    #[cold]
    #[inline(never)]
    fn finish_unwound(&mut self) {
        let end = clock::now();
        match self.run.take() {
            Some(run) if self.epoch == recording_epoch() => {
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

    /// Records the end of a call whose slot is no longer in the window.
    #[cold]
    #[inline(never)]
    fn finish_late(&mut self, result: i32, succeeded: bool, end: u64) {
        self.append_end(slot::LATE_END | self.injected, 0, (self.number, end), result, succeeded);
    }

    /// Adds a separate slot for the end of a call whose own slot is lost. Returns the number of the new slot.
    fn append_end(
        &self,
        state: u8,
        caller: usize,
        (start, end): (u64, u64),
        result: i32,
        succeeded: bool,
    ) -> Option<u64> {
        let (args, shape) = self.store_arguments(succeeded);
        let mut number = None;
        guarded(|| {
            number = stream::append(state, self.id as u16, |slot| {
                (slot.start, slot.end, slot.result) = (start, end, result);
                (slot.args, slot.caller) = (args, caller as u64 & ADDRESS_MASK | shape);
            });
        });
        number
    }

    /// Returns true if the call is in the record, and steps run before and after it.
    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        is_tracked(self.id) && self.has_begun() && !self.is_plain
    }

    /// Returns the time when a tracked call was forwarded, in ticks of the record's clock.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the low 32 bits of the slot's number, shifted to the high half of a word; 0 without a slot.
    #[inline(always)]
    pub fn number_in_high_half(&self) -> u64 {
        self.word & !u64::from(u32::MAX)
    }

    pub fn id(&self) -> FnId {
        self.id
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the arguments of the call. The outputs are included if the call `succeeded`.
    pub fn arguments(&self, succeeded: bool) -> StoredArguments {
        let (bytes, shape) = self.store_arguments(succeeded);
        StoredArguments { bytes, shape, handle: self.handle.get().map(|handle| handle.bytes) }
    }

    /// Adds the details that `fill` makes, and returns them. For use in `guarded`.
    pub fn add(&self, fill: impl FnOnce(&mut Detail)) -> Detail {
        Detail::add_to_call(self.number, fill)
    }

    /// Adds the details that were left out before the call was forwarded: the stack, if one is due and missing, and arguments
    /// that do not fit in the slot. Returns true if the record contains the call's stack now.
    pub fn add_missing_details(&self, result: i32, args: &[u8; MOST_ARGS], detail: &mut Detail) -> bool {
        let work = EXTRA_WORK[self.id as usize];
        if self.stack == StackState::LeftRun && work.wide != 0 {
            detail.add_item(slot::detail::ARGUMENTS, 0, &args[..work.wide as usize]);
        }
        let due =
            |carries: bool| carries && repeats::is_stack_due(self.id, result, self.number, (self.caller, self.height));
        let is_due = match self.stack {
            // The stack is recorded already, but the call still counts as one of its kind.
            StackState::Recorded => {
                due(result != 0);
                false
            }
            StackState::Wanted => true,
            StackState::LeftRun => due(work.frames || result != 0),
            StackState::IfDue => due(result != 0),
        };
        if is_due {
            detail.add_frames(self.caller);
        }
        is_due || self.stack == StackState::Recorded
    }

    /// Counts the failure after all steps, so that the next similar call may only be counted in a run. For use in
    /// `guarded`.
    pub fn note_failure(&self, result: i32, args: &StoredArguments) {
        let StoredArguments { bytes: args, shape, .. } = args;
        let call = CallShape { id: self.id, caller: self.caller, height: self.height, args, shape: *shape };
        repeats::note_failure(&call, result, self.number);
    }
}

impl Drop for CallRecord<'_> {
    /// A call that is still pending when it is dropped was left by an exception or a cancellation.
    #[inline(always)]
    fn drop(&mut self) {
        if self.has_begun() {
            self.finish_unwound();
        }
    }
}

/// Ends a call of this thread that a jump (`longjmp`) left, if it still has its slot. The call is that of `function` whose slot
/// number has the low half `half`. If the program had only switched stacks, and the call returns after all, its own end replaces
/// this one.
pub fn finish_call_left_by_jump(function: u32, half: u32) {
    let pending = slot_word(slot::PENDING, 1, function as u16, half);
    if !has_joined_record() {
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

/// Makes sure that the record describes the library that contains a caller's address.
#[inline(always)]
fn describe_caller_library(thread: *mut Thread, caller: usize) {
    // SAFETY: the block belongs to this thread and its signal handlers. These may write to it at any time, so no reference to it is
    // made, and each word is read by itself.
    let (start, length, generation, again) = unsafe {
        let known = &raw const (*thread).known;
        let start = || (&raw const (*known).0).read_volatile();
        let length = || (&raw const (*known).1).read_volatile();
        (start(), length(), (&raw const (*thread).known_generation).read_volatile(), start())
    };
    // If a signal handler ran in between, the start and the length may belong to two libraries.
    if caller.wrapping_sub(start) >= length || generation != libraries_generation() || again != start {
        libraries::describe_and_remember(caller);
    }
}
