//! Tracks calls that repeat: which of them have their stacks recorded, and which failures share one slot.
//!
//! Each thread keeps two counts:
//!
//! - The calls of a *kind*: function, result, and call site. The first [`FEW`] have their stacks recorded. Later ones do
//!   in four cases: the number of the call is a power of two; it is the first one in a block, so that a block that
//!   outlives the others has the stacks of its calls; the stack height differs from that of the last recorded stack,
//!   because all calls through the runtime come from one place; or there is a Python interpreter, where heights do not
//!   tell calls apart either. Findings name the Python line, so there each success with a stack and each failure that a
//!   rule may explain has its own.
//! - The calls of a *run*: those that fail in the same way. From [`LIMIT`] on, they are only counted, in one slot
//!   ([`cupeer_spec::record::slot::Run`]) behind the last one that was recorded and judged, its *example*. A call that
//!   turns out to differ from the run gets its own slot.
//!
//! **A run hides nothing.** A call is counted in a run only if nothing that a rule tests can differ from the example:
//!
//! - It has the same thread, function, result, return address, stack height, arguments, and NULL pointers. If more
//!   than its arguments may explain the example (`depends_on_more`), addresses must be the same as well; otherwise
//!   they may differ.
//! - For functions that share or release, the current context is the same.
//! - If more than its arguments may explain it, the process has shared and released nothing since the example, and the
//!   example is younger than [`REST`]: other processes of the job may have.
//! - No listener for findings was added since the example.
//! - In a process with a Python interpreter, no rule may explain it except by its arguments.
//! - No fault concerns it, and no rule stops the program.
//! - Its number in the run is not a power of two.
//!
//! Otherwise, it becomes the next example. Functions with arrays or texts have no runs, because reading them takes
//! system calls, and neither do copies, because their devices come from the driver.

use super::{ADDRESS, clock, speed, stream};
use crate::driver::queries;
use crate::settings;
use crate::sys::arch::{Thread, thread};
use crate::sys::every_call::epoch;
use crate::sys::guard::guarded;
use crate::sys::python;
use crate::sys::repeats::{self, Kind, Run as Known, coldest, find};
use crate::sys::signals;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release, compiler_fence};
use cupeer_rules::decide::depends_on_more;
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, Group};
use cupeer_spec::record::slot::{self, MOST_ARGS, Run, word};

/// The number of calls of a kind whose stacks are all recorded.
const FEW: u64 = 16;
/// The number of calls that fail in the same way before they become a run.
const LIMIT: u64 = 64;
/// The nanoseconds after which another call of a run is judged, if other processes can change what explains it.
const REST: u64 = 100_000_000;
/// The number of calls of a run after which another one is an example, in any case.
const MOST: u64 = 1 << 30;

/// The parts of a function's calls that tell its runs apart.
#[derive(Clone, Copy)]
struct KeyParts {
    /// The number of words of its arguments.
    words: usize,
    /// The bytes of these that are addresses, as [`cupeer_spec::function::FnSpec::addresses`] has them.
    addresses: u64,
    /// True if the current context is part of the key.
    has_context: bool,
}

/// In the order of the function table.
static KEY_PARTS: [KeyParts; FUNCTION_COUNT] = {
    let mut parts = [KeyParts { words: 0, addresses: 0, has_context: false }; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let function = &FUNCTIONS[i];
        let words = function.stored().div_ceil(8);
        parts[i] = KeyParts {
            words: if words < MOST_ARGS / 8 { words } else { MOST_ARGS / 8 },
            addresses: function.addresses(),
            has_context: function.shares() || function.is_in(Group::Release),
        };
        i += 1;
    }
    parts
};

/// Changes when something happens that may explain a failure in another way.
static WORLD: AtomicU64 = AtomicU64::new(0);
/// Changes when a listener for findings is added.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// Notes that the process shared or released something, which may explain failures in another way.
pub fn world_changed() {
    WORLD.fetch_add(1, Relaxed);
}

/// Notes that a listener for findings was added, which must receive findings about calls that continue to fail.
pub fn listener_added() {
    LISTENERS.fetch_add(1, Relaxed);
    world_changed();
}

/// Returns the state of the world that a run depends on. `has_other_causes` is that of its failures.
fn world(has_other_causes: bool) -> u64 {
    if has_other_causes { WORLD.load(Relaxed) } else { LISTENERS.load(Relaxed) }
}

/// The parts of a call that tell runs apart.
pub struct CallShape<'a> {
    pub id: FnId,
    /// Its return address.
    pub caller: usize,
    /// The height of the stack.
    pub height: usize,
    pub args: &'a [u8; MOST_ARGS],
    /// The shape of the arguments before the call.
    pub shape: u64,
}

/// Returns a hash that continues another one with a word.
#[inline(always)]
fn hash_step(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64 ^ (product >> 64) as u64).rotate_left(29)
}

/// Returns the mask of the bytes of a word whose bits are set.
#[inline(always)]
fn byte_mask(bits: u8) -> u64 {
    let one_each = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (one_each.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101) * 0xff
}

impl CallShape<'_> {
    /// Returns the keys of runs of this call: one with any addresses, and one with these addresses.
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

/// Returns the current context. Only the first query is guarded, because it looks up the driver's function. Later ones read a variable
/// of the thread, in less time than a guard takes.
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

/// The slot of a run that a call is in flight in.
#[derive(Clone, Copy)]
pub struct RunSlot {
    place: *mut Run,
    pub number: u64,
    /// The thread's memory of the run.
    known: *mut Known,
    /// The result of the run.
    result: i32,
    /// The time when the call is forwarded.
    pub start: u64,
}

/// The result of [`join`].
pub enum RunLookup {
    /// The call is in flight in a run, and counts if it fails like the others.
    InRun(RunSlot),
    /// The call belongs to a run, and is its next example.
    Example,
    /// The call belongs to no run.
    None,
}

/// Looks for the run of a call, and shows the call as in flight there.
pub fn join(thread: *mut Thread, call: &CallShape) -> RunLookup {
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
    if unsafe { turn.read_volatile() } != before || place == 0 || epoch_then != epoch() {
        return RunLookup::None;
    }
    let next = count + 1;
    if next.is_power_of_two() || next % MOST == 0 {
        return RunLookup::Example;
    }
    let (has_other_causes, start) = (due != u64::MAX, clock::now());
    if world(has_other_causes) != world_then || start >= due {
        return RunLookup::None;
    }
    let run = RunSlot { place: place as *mut Run, number, known, result, start };
    if !run.begin(thread) {
        return RunLookup::None;
    }
    // SAFETY: the entry is one of the thread's own runs, and its call in flight is this one.
    unsafe { (*known).args = *call.args };
    RunLookup::InRun(run)
}

impl RunSlot {
    /// Runs `work` with the slot if it still holds the run. Returns false if it does not.
    fn with(&self, thread: *mut Thread, work: impl FnOnce(*mut Run)) -> bool {
        let before = stream::fill(thread);
        let is_there = stream::window(thread).has(self.place as usize, self.number);
        if is_there {
            work(self.place);
        }
        stream::filled(thread, before);
        is_there
    }

    /// Shows the call as in flight. Returns false if another call is: one of a signal handler, or one that was left by a jump.
    fn begin(&self, thread: *mut Thread) -> bool {
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

    /// Returns the arguments of the call, because storing a handle again would take two fingerprints. `None` if the entry was replaced.
    pub fn args(&self) -> Option<[u8; MOST_ARGS]> {
        // SAFETY: only this thread and its signal handlers use the block; nobody else has a call of this run in flight.
        let (number, args) = unsafe { ((*self.known).number, (*self.known).args) };
        (number == self.number).then_some(args)
    }

    /// Lets the time of the call begin now, after the steps before it.
    pub fn restart(&mut self, thread: *mut Thread) {
        self.start = clock::now();
        self.with(thread, |run| {
            // SAFETY: the slot is this thread's, mapped and aligned, and its call in flight is this one.
            unsafe { (&raw mut (*run).since).write_volatile(self.start) };
        });
    }

    /// Ends the flight of the call without counting it.
    pub fn leave(&self, thread: *mut Thread) -> RunExit {
        self.close(thread, None)
    }

    /// Ends the flight of the call, and counts it if it failed like the others.
    pub fn end(&self, thread: *mut Thread, result: i32, end: u64) -> RunExit {
        let took = end.saturating_sub(self.start);
        let is_alike = result == self.result && took <= u64::from(u32::MAX);
        self.close(thread, is_alike.then_some((end, took)))
    }

    /// `counted` is the time when it returned and how long it took, if it counts.
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

/// The end of a call that was in flight in a run.
pub enum RunExit {
    /// It is counted in the run.
    Counted,
    /// It differs from the run, and needs a slot of its own.
    Differs,
    /// The slot has left the window, so the record still shows the call as in flight.
    LostSlot { is_alike: bool },
}

/// Returns true if failures of a function can form runs.
fn has_runs(id: FnId) -> bool {
    let function = &FUNCTIONS[id as usize];
    let has_more = function.args().iter().any(|arg| arg.stored() == 0) || function.is_work();
    // A rule that stops or aborts the program does so at each call.
    let stops = |check: &settings::Check| !check.abort_on.is_empty() || !check.stop_on.is_empty();
    !has_more && !settings::get().check.as_ref().is_some_and(stops)
}

/// Notes a failure that was recorded and judged, in the slot with this number. For use in `guarded`.
pub fn note_failure(call: &CallShape, result: i32, number: u64) {
    let (thread, id) = (thread(), call.id);
    if !has_runs(id) {
        return;
    }
    let has_other_causes = depends_on_more(id, result);
    if has_other_causes && has_python() {
        return;
    }
    let key = call.keys()[usize::from(has_other_causes)];
    let Some(repeats) = repeats::of(thread) else { return };
    let known = find(&mut repeats.runs, key).filter(|known| known.result == result);
    let count = known.map_or(1, |known| {
        (known.count, known.heat) = (known.count + 1, known.heat.saturating_add(1));
        known.count
    });
    if count > 1 && count < LIMIT {
        return;
    }
    signals::held_back(|| {
        // Read before the slot is taken, which may take long: others may change the world meanwhile.
        let world = world(has_other_causes);
        let due = if has_other_causes { speed::after(REST) } else { u64::MAX };
        let slot = if count >= LIMIT { begin_run(thread, call, result, number) } else { Some((0, 0)) };
        let (Some((place, number)), Some(repeats)) = (slot, repeats::of(thread)) else { return };
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
            epoch: epoch(),
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

/// Puts the slot of a run into the record, behind its example with this number. Returns its address and its number.
fn begin_run(thread: *mut Thread, call: &CallShape, result: i32, example: u64) -> Option<(usize, u64)> {
    let taken = stream::take(thread, 1)?;
    let run = taken.place as *mut Run;
    // SAFETY: the slot is in this thread's window, and nobody else was given it.
    unsafe {
        run.write(Run {
            word: 0,
            call: example,
            end: clock::now(),
            caller: call.caller as u64 & ADDRESS,
            calls: 0,
            total: 0,
            since: 0,
            longest: 0,
            result,
        });
        stream::publish(run.cast(), word(slot::RUN, 1, call.id as u16, taken.number as u32));
    }
    stream::filled(thread, taken.before);
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread).runs |= 1 << (call.id as u32 % 32) };
    Some((taken.place, taken.number))
}

/// Returns true if stacks have Python lines, which return addresses do not tell apart.
fn has_python() -> bool {
    settings::get().python && python::native().is_some()
}

/// Returns true if the stack of a call must be recorded. `result` is that of a failure, or 0 before a call is forwarded; `number` is
/// that of its slot.
pub fn is_due(id: FnId, result: i32, number: u64, (caller, height): (usize, usize)) -> bool {
    // All calls of an interpreter come from one place.
    if has_python() && (result == 0 || depends_on_more(id, result)) {
        return true;
    }
    let thread = thread();
    let key = hash_step(hash_step(id as u64 + 1, caller as u64), result as u32 as u64) | 1;
    let Some(repeats) = repeats::of(thread) else { return true };
    // If the thread has left the window since it took the slot, a ring overwrites this call before the following ones, so they need
    // a stack of their own.
    let window = stream::window(thread);
    let part = hash_step(
        hash_step(window.first() | u64::from(number < window.first()) << 63, epoch()),
        height as u64,
    );
    if let Some(kind) = find(&mut repeats.kinds, key) {
        (kind.count, kind.heat) = (kind.count + 1, kind.heat + 1);
        let is_due = kind.count <= FEW || kind.count.is_power_of_two() || kind.part != part;
        if is_due {
            kind.part = part;
        }
        return is_due;
    }
    signals::held_back(|| *coldest(&mut repeats.kinds, key) = Kind { key, part, count: 1, heat: 1 });
    true
}
