//! Tracks calls that repeat: which of them have their stacks recorded, and which failures share one slot.
//!
//! Each thread keeps two counts:
//!
//! - The calls of a *kind*: function, result, and call site. The first [`STACKS_PER_KIND`] have their stacks recorded. Later ones do
//!   in four cases: the number of the call is a power of two; it is the first one in a block, so that a block that
//!   outlives the others has the stacks of its calls; the stack height differs from that of the last recorded stack,
//!   because all calls through the runtime come from one place; or there is a Python interpreter, where heights do not
//!   tell calls apart either. Findings name the Python line, so there each success with a stack and each failure that a
//!   rule may explain has its own.
//! - The calls of a *run*: those that fail in the same way. From [`FAILURES_BEFORE_RUN`] on, they are only counted, in one slot
//!   ([`cupeer_spec::record::slot::RepeatedCalls`]) behind the last one that was recorded and judged, its *example*. A call that
//!   turns out to differ from the run gets its own slot.
//!
//! **A run hides nothing.** A call is counted in a run only if nothing that a rule tests can differ from the example:
//!
//! - It has the same thread, function, result, return address, stack height, arguments, and NULL pointers. If more
//!   than its arguments may explain the example (`has_varying_explanation`), addresses must be the same as well; otherwise
//!   they may differ.
//! - For functions that share or release, the current context is the same.
//! - If more than its arguments may explain it, the process has shared and released nothing since the example, and the
//!   example is younger than [`JUDGED_AGAIN_AFTER`]: other processes of the job may have.
//! - No listener for findings was added since the example.
//! - In a process with a Python interpreter, no rule may explain it except by its arguments.
//! - No fault concerns it, and no rule stops the program.
//! - Its number in the run is not a power of two.
//!
//! Otherwise, it becomes the next example. Functions with arrays or texts have no runs, because reading them takes
//! system calls, and neither do copies, because their devices come from the driver.

use super::{ADDRESS_MASK, clock, speed, stream};
use crate::driver::queries;
use crate::settings;
use crate::sys::arch::{Thread, thread};
use crate::sys::every_call::recording_epoch;
use crate::sys::guard::guarded;
use crate::sys::python;
use crate::sys::repeats::{self, CallKind, FailureRun as Known, coldest, find};
use crate::sys::signals;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release, compiler_fence};
use cupeer_rules::decide::has_varying_explanation;
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, Group};
use cupeer_spec::record::slot::{self, MOST_ARGS, RepeatedCalls, slot_word};

/// Number of calls of each kind whose stacks are all recorded.
const STACKS_PER_KIND: u64 = 16;
/// Number of calls that fail in the same way before later ones are only counted in a run.
const FAILURES_BEFORE_RUN: u64 = 64;
/// Time after which another call of a run is recorded and judged, if other processes can change its explanation, in nanoseconds.
const JUDGED_AGAIN_AFTER: u64 = 100_000_000;
/// Number of calls of a run after which the next call is recorded as an example in any case.
const MOST_BETWEEN_EXAMPLES: u64 = 1 << 30;

/// The parts of a function's calls by which one run differs from another.
#[derive(Clone, Copy)]
struct KeyParts {
    /// Number of words of the arguments that are compared.
    words: usize,
    /// A bit for each byte of the arguments that is part of an address: see [`cupeer_spec::function::FnSpec::address_byte_mask`].
    addresses: u64,
    /// True if calls in different contexts belong to different runs.
    has_context: bool,
}

/// The key parts of each function, in the order of the function table.
static KEY_PARTS: [KeyParts; FUNCTION_COUNT] = {
    let mut parts = [KeyParts { words: 0, addresses: 0, has_context: false }; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let function = &FUNCTIONS[i];
        let words = function.stored_args_size().div_ceil(8);
        parts[i] = KeyParts {
            words: if words < MOST_ARGS / 8 { words } else { MOST_ARGS / 8 },
            addresses: function.address_byte_mask(),
            has_context: function.shares() || function.is_in(Group::Release),
        };
        i += 1;
    }
    parts
};

/// Counter that increases when something happens that may give a failure another explanation.
static WORLD: AtomicU64 = AtomicU64::new(0);
/// Counter that increases when a listener for findings is added.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// Ends the runs of failures that may now have another explanation, because the process shared or released something.
pub fn note_world_changed() {
    WORLD.fetch_add(1, Relaxed);
}

/// Ends all runs, because a listener for findings was added: it must receive findings about calls that continue to
/// fail.
pub fn note_listener_added() {
    LISTENERS.fetch_add(1, Relaxed);
    note_world_changed();
}

/// Returns the counter that must not change while a run continues. `has_other_causes` is true if more than the arguments may
/// explain the failures of the run.
fn world_of_run(has_other_causes: bool) -> u64 {
    if has_other_causes { WORLD.load(Relaxed) } else { LISTENERS.load(Relaxed) }
}

/// The properties of a call by which one run differs from another.
pub struct CallShape<'a> {
    pub id: FnId,
    /// Return address of the call.
    pub caller: usize,
    /// Height of the stack in the caller's frame.
    pub height: usize,
    pub args: &'a [u8; MOST_ARGS],
    /// Two bits per argument, as they are before the call is forwarded.
    pub shape: u64,
}

/// Returns the hash that results from adding a word to a hash.
#[inline(always)]
fn hash_step(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64 ^ (product >> 64) as u64).rotate_left(29)
}

/// Returns a mask with a byte of ones for each set bit, at the same position.
#[inline(always)]
fn byte_mask(bits: u8) -> u64 {
    let one_each = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (one_each.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101) * 0xff
}

impl CallShape<'_> {
    /// Returns the two possible keys of this call's run: one that ignores the values of addresses, and one that includes them.
    fn keys(&self) -> [u64; 2] {
        let parts = &KEY_PARTS[self.id as usize];
        let context = if parts.has_context { current_context() } else { 0 };
        let place = hash_step(self.caller as u64, self.height as u64);
        let begin = hash_step(hash_step(self.id as u64 + 1, place), self.shape ^ context);
        let (mut any, mut exact) = (begin, !begin);
        for (i, bytes) in self.args.as_chunks().0.iter().take(parts.words).enumerate() {
            let word = u64::from_le_bytes(*bytes);
            any = hash_step(any, word & !byte_mask((parts.addresses >> (8 * i)) as u8));
            exact = hash_step(exact, word);
        }
        [any | 1, exact & !1 | 2]
    }
}

/// Returns the current context. Only the first query is guarded, because it looks up the driver's function. Later queries read a
/// thread-local variable, in less time than a guard takes.
#[inline(always)]
fn current_context() -> u64 {
    static IS_LOOKED_UP: AtomicBool = AtomicBool::new(false);
    if IS_LOOKED_UP.load(Relaxed) {
        return queries::context();
    }
    let mut context = 0;
    guarded(|| context = queries::context());
    IS_LOOKED_UP.store(true, Relaxed);
    context
}

/// The slot of a run in which a call is in flight.
#[derive(Clone, Copy)]
pub struct RunSlot {
    place: *mut RepeatedCalls,
    pub number: u64,
    /// Address of the thread's data about the run.
    known: *mut Known,
    /// Result with which all calls of the run fail.
    result: i32,
    /// Time when the call is forwarded, in ticks.
    pub start: u64,
}

/// Result of looking for the run of a call: see [`join_run`].
pub enum RunLookup {
    /// The call is in flight in a run. It is only counted if it fails like the others.
    InRun(RunSlot),
    /// The call belongs to a run, but must be recorded as its next example.
    Example,
    /// The call belongs to no run.
    None,
}

/// Looks for the run of a call. If the call may be counted there, shows it as in flight in the run's slot.
pub fn join_run(thread: *mut Thread, call: &CallShape) -> RunLookup {
    let keys = call.keys();
    // SAFETY: only this thread and its signal handlers use the block; `turn` tells if a handler replaces an entry meanwhile.
    let (repeats, turn) = unsafe {
        let repeats = (*thread).repeats.cast::<repeats::Repeats>();
        if repeats.is_null() {
            return RunLookup::None;
        }
        (repeats, &raw const (*repeats).turn)
    };
    // SAFETY: the runs are this thread's and never unmapped; handlers of the thread may write the word at any time.
    let before = unsafe { turn.read_volatile() };
    compiler_fence(SeqCst);
    // SAFETY: the runs are this thread's and never unmapped. If a handler replaces an entry meanwhile, `turn` differs below.
    let runs = unsafe { &mut (*repeats).runs };
    let known = keys.iter().find_map(|key| find(runs, *key).map(core::ptr::from_mut));
    let Some(known) = known else { return RunLookup::None };
    // SAFETY: the entry is one of the thread's own runs. If a handler replaces it meanwhile, `turn` differs below.
    let (place, number, epoch_then, world_then, due, count, result) = unsafe {
        let Known { place, number, epoch, world, due, count, result, .. } = &*known;
        (*place, *number, *epoch, *world, *due, *count, *result)
    };
    compiler_fence(SeqCst);
    // SAFETY: the runs are this thread's and never unmapped; handlers of the thread may write the word at any time.
    if unsafe { turn.read_volatile() } != before || place == 0 || epoch_then != recording_epoch() {
        return RunLookup::None;
    }
    let next = count + 1;
    if next.is_power_of_two() || next % MOST_BETWEEN_EXAMPLES == 0 {
        return RunLookup::Example;
    }
    let (has_other_causes, start) = (due != u64::MAX, clock::now());
    if world_of_run(has_other_causes) != world_then || start >= due {
        return RunLookup::None;
    }
    let run = RunSlot { place: place as *mut RepeatedCalls, number, known, result, start };
    if !run.show_in_flight(thread) {
        return RunLookup::None;
    }
    // SAFETY: the entry is one of the thread's own runs, and its call in flight is this one.
    unsafe { (*known).args = *call.args };
    RunLookup::InRun(run)
}

impl RunSlot {
    /// Runs `work` with the run's slot. Returns false if the slot no longer holds the run.
    fn with(&self, thread: *mut Thread, work: impl FnOnce(*mut RepeatedCalls)) -> bool {
        let before = stream::mark_filling(thread);
        let is_there = stream::window(thread).has_slot_number(self.place as usize, self.number);
        if is_there {
            work(self.place);
        }
        stream::restore_filling(thread, before);
        is_there
    }

    /// Shows the call as in flight. Returns false if another call is in flight in the run: one of a signal handler, or one that
    /// was left by a jump.
    fn show_in_flight(&self, thread: *mut Thread) -> bool {
        let mut is_first = false;
        let is_there = self.with(thread, |run| {
            // SAFETY: the slot is this thread's, mapped and aligned; its calls are only used as an atomic.
            unsafe {
                let calls = AtomicU64::from_ptr(&raw mut (*run).calls);
                if calls.load(Relaxed) & 1 == 0 {
                    (&raw mut (*run).since).write_volatile(self.start);
                    is_first = calls.fetch_or(1, Release) & 1 == 0;
                }
            }
        });
        is_there && is_first
    }

    /// Returns the stored arguments of the call. They are kept, because storing a handle again would compute two fingerprints.
    /// Returns `None` if another run replaced this one.
    pub fn args(&self) -> Option<[u8; MOST_ARGS]> {
        // SAFETY: only this thread and its signal handlers use the block; nobody else has a call of this run in flight.
        let (number, args) = unsafe { ((*self.known).number, (*self.known).args) };
        (number == self.number).then_some(args)
    }

    /// Sets the start time of the call to now, after the steps before the call.
    pub fn set_start_to_now(&mut self, thread: *mut Thread) {
        self.start = clock::now();
        self.with(thread, |run| {
            // SAFETY: the slot is this thread's, mapped and aligned, and its call in flight is this one.
            unsafe { (&raw mut (*run).since).write_volatile(self.start) };
        });
    }

    /// Removes the call from the run without counting it.
    pub fn leave(&self, thread: *mut Thread) -> RunExit {
        self.close(thread, None)
    }

    /// Removes the call from the run, and counts the call if it failed like the others.
    pub fn leave_and_count(&self, thread: *mut Thread, result: i32, end: u64) -> RunExit {
        let took = end.saturating_sub(self.start);
        let is_alike = result == self.result && took <= u64::from(u32::MAX);
        self.close(thread, is_alike.then_some((end, took)))
    }

    /// Removes the call from the run. `counted` is the time when the call returned and its duration, in ticks; `None` if the call
    /// is not counted.
    fn close(&self, thread: *mut Thread, counted: Option<(u64, u64)>) -> RunExit {
        let is_alike = counted.is_some();
        let is_there = self.with(thread, |run| {
            // SAFETY: the slot is this thread's, mapped and aligned; its calls are only used as an atomic, and nobody else
            // changes a run with a call in flight.
            unsafe {
                let calls = AtomicU64::from_ptr(&raw mut (*run).calls);
                let before = calls.load(Relaxed);
                if let Some((end, took)) = counted {
                    (&raw mut (*run).end).write_volatile(end);
                    (&raw mut (*run).total).write_volatile((*run).total.saturating_add(took));
                    (&raw mut (*run).longest).write_volatile((*run).longest.max(took as u32));
                }
                calls.store((before & !1) + if is_alike { 2 } else { 0 }, Release);
            }
        });
        if is_alike {
            // SAFETY: only this thread and its signal handlers use the block; a lost count does no harm.
            unsafe {
                (*self.known).count += 1;
                (*self.known).heat = (*self.known).heat.saturating_add(1);
            }
        }
        match (is_there, is_alike) {
            (true, true) => RunExit::Counted,
            (true, false) => RunExit::Differs,
            (false, is_alike) => RunExit::LostSlot { is_alike },
        }
    }
}

/// The result of ending a call that was in flight in a run.
pub enum RunExit {
    /// The call is counted in the run.
    Counted,
    /// The call differs from the run, and needs a slot of its own.
    Differs,
    /// The run's slot is no longer in the window, so the record still shows the call as in flight. `is_alike` is true if the call
    /// failed like the others.
    LostSlot { is_alike: bool },
}

/// Returns true if failures of a function can be counted in runs.
fn has_runs(id: FnId) -> bool {
    let function = &FUNCTIONS[id as usize];
    let has_more = function.args().iter().any(|arg| arg.stored_size() == 0) || function.is_device_work();
    // A rule that stops or aborts the program must do so at each call.
    let stops = |check: &settings::Check| !check.abort_on.is_empty() || !check.stop_on.is_empty();
    !has_more && !settings::get().check.as_ref().is_some_and(stops)
}

/// Counts a failed call that was recorded, in the slot with this number, and judged by the rules. From
/// [`FAILURES_BEFORE_RUN`] failures on, begins a run. For use in `guarded`.
pub fn note_failure(call: &CallShape, result: i32, number: u64) {
    let (thread, id) = (thread(), call.id);
    if !has_runs(id) {
        return;
    }
    let has_other_causes = has_varying_explanation(id, result);
    if has_other_causes && has_python() {
        return;
    }
    let key = call.keys()[usize::from(has_other_causes)];
    let Some(repeats) = repeats::of_thread(thread) else { return };
    let known = find(&mut repeats.runs, key).filter(|known| known.result == result);
    let count = known.map_or(1, |known| {
        (known.count, known.heat) = (known.count + 1, known.heat.saturating_add(1));
        known.count
    });
    if count > 1 && count < FAILURES_BEFORE_RUN {
        return;
    }
    signals::with_signals_blocked(|| {
        // Read before the slot is taken, which may take long, because others may change the world in that time.
        let world = world_of_run(has_other_causes);
        let due = if has_other_causes { speed::ticks_after(JUDGED_AGAIN_AFTER) } else { u64::MAX };
        let slot = if count >= FAILURES_BEFORE_RUN { begin_run(thread, call, result, number) } else { Some((0, 0)) };
        let (Some((place, number)), Some(repeats)) = (slot, repeats::of_thread(thread)) else { return };
        let (entry, heat) = match find(&mut repeats.runs, key) {
            Some(entry) => {
                let heat = entry.heat;
                (core::ptr::from_mut(entry), heat)
            }
            None => (core::ptr::from_mut(coldest(&mut repeats.runs, key)), 1),
        };
        let known = Known {
            key,
            place,
            number,
            epoch: recording_epoch(),
            world,
            due,
            count,
            result,
            heat,
            args: [0; MOST_ARGS],
        };
        repeats.turn += 1;
        // SAFETY: an entry of this thread's block.
        unsafe { entry.write(known) };
    });
}

/// Puts the slot of a new run into the record. `example` is the number of the slot of the run's last recorded call. Returns the
/// address and the number of the new slot.
fn begin_run(thread: *mut Thread, call: &CallShape, result: i32, example: u64) -> Option<(usize, u64)> {
    let taken = stream::take(thread, 1)?;
    let run = taken.place as *mut RepeatedCalls;
    // SAFETY: the slot is in this thread's window, and nobody else was given it.
    unsafe {
        run.write(RepeatedCalls {
            word: 0,
            call: example,
            end: clock::now(),
            caller: call.caller as u64 & ADDRESS_MASK,
            calls: 0,
            total: 0,
            since: 0,
            longest: 0,
            result,
        });
        stream::publish(run.cast(), slot_word(slot::RUN, 1, call.id as u16, taken.number as u32));
    }
    stream::restore_filling(thread, taken.before);
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread).runs |= 1 << (call.id as u32 % 32) };
    Some((taken.place, taken.number))
}

/// Returns true if stacks may contain Python lines, which return addresses do not tell apart.
fn has_python() -> bool {
    settings::get().python && python::find_native_interpreter().is_some()
}

/// Returns true if the stack of a call must be recorded. `result` is the result of a failed call, or 0 before a call is
/// forwarded. `number` is the number of the call's slot.
pub fn is_stack_due(id: FnId, result: i32, number: u64, (caller, height): (usize, usize)) -> bool {
    // All calls of an interpreter come from one return address.
    if has_python() && (result == 0 || has_varying_explanation(id, result)) {
        return true;
    }
    let thread = thread();
    let key = hash_step(hash_step(id as u64 + 1, caller as u64), result as u32 as u64) | 1;
    let Some(repeats) = repeats::of_thread(thread) else { return true };
    // If the thread has left the window since it took the slot, a ring will overwrite this call before the following calls, so
    // they need a stack of their own.
    let window = stream::window(thread);
    let part = hash_step(
        hash_step(window.first_number() | u64::from(number < window.first_number()) << 63, recording_epoch()),
        height as u64,
    );
    if let Some(kind) = find(&mut repeats.kinds, key) {
        (kind.count, kind.heat) = (kind.count + 1, kind.heat + 1);
        let is_stack_due = kind.count <= STACKS_PER_KIND || kind.count.is_power_of_two() || kind.part != part;
        if is_stack_due {
            kind.part = part;
        }
        return is_stack_due;
    }
    signals::with_signals_blocked(|| *coldest(&mut repeats.kinds, key) = CallKind { key, part, count: 1, heat: 1 });
    true
}
