//! Tracks calls that repeat: how often their stacks are taken, and which failures share one entry.
//!
//! Two counts are kept in the thread's own block:
//!
//! - The calls of a *kind*: function, result, and call site. The first [`FEW`] carry their stacks. After that, the
//!   following calls carry theirs: those whose number is a power of two; the first one in each block, so that a block
//!   that outlives the others has the stacks of its calls; and any whose stack height differs from that of the last
//!   stack taken, because all calls through the runtime come from one place. In a process with a Python interpreter,
//!   where heights do not tell calls apart either, each success that carries a stack and each failure that a rule may
//!   explain has its own, because findings name its line.
//! - The calls of a *run*: those that fail in the same way. From [`LIMIT`] on, they are counted in one slot
//!   ([`cupeer_spec::record::slot::Run`]) behind the last one that was recorded and judged, its *example*, and nothing
//!   else is done for them. A call that turns out to differ from the run gets its own entry.
//!
//! **The omitted facts are known.** A call is counted in a run only if nothing that a rule tests may differ from the
//! example:
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
//! system calls; nor do copies, because the driver is asked for their devices.

use super::{clock, speed, stream};
use crate::driver::questions;
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

/// How many calls of a kind carry their stacks before this becomes rare.
const FEW: u64 = 16;
/// How many calls that fail in the same way are events of their own.
const LIMIT: u64 = 64;
/// After so many nanoseconds, another call of a run is judged, where others may have changed what explains it.
const REST: u64 = 100_000_000;
/// After so many calls, another one of a run is an event of its own, in any case.
const MOST: u64 = 1 << 30;

/// What of a function's arguments tells one call from another.
#[derive(Clone, Copy)]
struct Telling {
    /// The words that they have.
    words: usize,
    /// The bytes that are addresses, as [`cupeer_spec::function::FnSpec::addresses`] has them.
    addresses: u64,
    /// Whether the current context does.
    context: bool,
}

/// In the order of the table.
static TELLING: [Telling; FUNCTION_COUNT] = {
    let mut telling = [Telling { words: 0, addresses: 0, context: false }; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let function = &FUNCTIONS[i];
        let words = function.stored().div_ceil(8);
        telling[i] = Telling {
            words: if words < MOST_ARGS / 8 { words } else { MOST_ARGS / 8 },
            addresses: function.addresses(),
            context: function.shares() || function.is_in(Group::Release),
        };
        i += 1;
    }
    telling
};

/// Changes when something happens that may explain a failure otherwise.
static WORLD: AtomicU64 = AtomicU64::new(0);
/// Changes when somebody begins to listen to findings.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// What was shared or given back may explain failures otherwise.
pub fn world_changed() {
    WORLD.fetch_add(1, Relaxed);
}

/// Whoever listens from now on is to hear of what fails again.
pub fn listened() {
    LISTENERS.fetch_add(1, Relaxed);
    world_changed();
}

/// The state of the world for a run.
fn world(is_more: bool) -> u64 {
    if is_more { WORLD.load(Relaxed) } else { LISTENERS.load(Relaxed) }
}

/// What a call passes.
pub struct Passed<'a> {
    pub id: FnId,
    /// Its return address.
    pub caller: usize,
    /// Where the stack stands.
    pub height: usize,
    pub args: &'a [u8; MOST_ARGS],
    /// What is known of each before the call.
    pub shape: u64,
}

/// A hash that goes on from another one.
#[inline(always)]
fn step(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64 ^ (product >> 64) as u64).rotate_left(29)
}

/// The bytes of a word that a bit each stands for.
#[inline(always)]
fn spread(bits: u8) -> u64 {
    let one_each = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (one_each.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101) * 0xff
}

impl Passed<'_> {
    /// The hashes under which a run of such calls is known: whatever addresses they pass, and with these addresses.
    fn keys(&self) -> [u64; 2] {
        let telling = &TELLING[self.id as usize];
        let context = if telling.context { current_context() } else { 0 };
        let place = step(self.caller as u64, self.height as u64);
        let begin = step(step(self.id as u64 + 1, place), self.shape ^ context);
        let (mut any, mut exact) = (begin, !begin);
        for (i, bytes) in self.args.as_chunks().0.iter().take(telling.words).enumerate() {
            let word = u64::from_le_bytes(*bytes);
            any = step(any, word & !spread((telling.addresses >> (8 * i)) as u8));
            exact = step(exact, word);
        }
        [any | 1, exact & !1 | 2]
    }
}

/// The current context. Only the first query is guarded, because it looks the driver's function up: later ones read a variable of
/// the thread, in less time than a guard takes.
#[inline(always)]
fn current_context() -> u64 {
    static IS_LOOKED_UP: AtomicBool = AtomicBool::new(false);
    if IS_LOOKED_UP.load(Relaxed) {
        return questions::context();
    }
    let mut context = 0;
    guarded(|| context = questions::context());
    IS_LOOKED_UP.store(true, Relaxed);
    context
}

/// A call that is about to be forwarded, counted in a run.
#[derive(Clone, Copy)]
pub struct Joined {
    place: *mut Run,
    /// The number of the run's slot.
    pub number: u64,
    known: *mut Known,
    result: i32,
    /// When it is forwarded.
    pub start: u64,
}

/// Whether a call is of a run.
pub enum Join {
    /// It is, if it fails as the others.
    Is(Joined),
    /// It is, and is to be an event of its own.
    Example,
    Not,
}

/// Looks for the run of a call.
pub fn join(thread: *mut Thread, passed: &Passed) -> Join {
    let keys = passed.keys();
    // SAFETY: only this thread and its signal handlers use the block; what its signal handlers replace meanwhile, `turn` tells.
    let (repeats, turn) = unsafe {
        let repeats = (*thread).repeats.cast::<repeats::Repeats>();
        if repeats.is_null() {
            return Join::Not;
        }
        (repeats, &raw const (*repeats).turn)
    };
    // SAFETY: the runs are this thread's and never unmapped; the word is read as it is, whoever of the thread's handlers
    // writes it.
    let before = unsafe { turn.read_volatile() };
    compiler_fence(SeqCst);
    // SAFETY: the runs are this thread's and never unmapped. What its signal handlers replace meanwhile is refused below.
    let runs = unsafe { &mut (*repeats).runs };
    let known = keys.iter().find_map(|key| find(runs, *key).map(core::ptr::from_mut));
    let Some(known) = known else { return Join::Not };
    // SAFETY: the entry is one of the thread's own runs. What its signal handlers replace meanwhile is refused below.
    let (place, number, epoch_then, world_then, due, count, result) = unsafe {
        let Known { place, number, epoch, world, due, count, result, .. } = &*known;
        (*place, *number, *epoch, *world, *due, *count, *result)
    };
    compiler_fence(SeqCst);
    // SAFETY: the runs are this thread's and never unmapped; the word is read as it is, whoever of the thread's handlers
    // writes it.
    if unsafe { turn.read_volatile() } != before || place == 0 || epoch_then != epoch() {
        return Join::Not;
    }
    let next = count + 1;
    if next.is_power_of_two() || next % MOST == 0 {
        return Join::Example;
    }
    let (is_more, start) = (due != u64::MAX, clock::now());
    if world(is_more) != world_then || start >= due {
        return Join::Not;
    }
    let joined = Joined { place: place as *mut Run, number, known, result, start };
    if !joined.begin(thread) {
        return Join::Not;
    }
    // SAFETY: the entry is one of the thread's own runs, and the call of it that is in flight now is this one.
    unsafe { (*known).args = *passed.args };
    Join::Is(joined)
}

impl Joined {
    /// Does something with the run where its slot is still there. Says whether it is.
    fn with(&self, thread: *mut Thread, work: impl FnOnce(*mut Run)) -> bool {
        let before = stream::fill(thread);
        let is_there = stream::window(thread).has(self.place as usize, self.number);
        if is_there {
            work(self.place);
        }
        stream::filled(thread, before);
        is_there
    }

    /// Shows it as in flight. Not where another one is: one of a signal handler's, or one that was left by a jump.
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

    /// The arguments of the call: to store a handle takes two fingerprints. `None` where the entry was replaced.
    pub fn args(&self) -> Option<[u8; MOST_ARGS]> {
        // SAFETY: only this thread and its signal handlers use the block; nobody else has a call of this run in flight.
        let (number, args) = unsafe { ((*self.known).number, (*self.known).args) };
        (number == self.number).then_some(args)
    }

    /// What was done up to now is not the call's time.
    pub fn restart(&mut self, thread: *mut Thread) {
        self.start = clock::now();
        self.with(thread, |run| {
            // SAFETY: the slot is this thread's, mapped and aligned, and its call in flight is this one.
            unsafe { (&raw mut (*run).since).write_volatile(self.start) };
        });
    }

    /// Says that it is in flight no more, and what else becomes of it is to be told apart.
    pub fn leave(&self, thread: *mut Thread) -> Left {
        self.close(thread, None)
    }

    /// Counts it where it has failed as the others did; else it is in flight no more.
    pub fn end(&self, thread: *mut Thread, result: i32, end: u64) -> Left {
        let took = end.saturating_sub(self.start);
        let is_alike = result == self.result && took <= u64::from(u32::MAX);
        self.close(thread, is_alike.then_some((end, took)))
    }

    /// `counted` is when it returned and how long it took, where it is counted.
    fn close(&self, thread: *mut Thread, counted: Option<(u64, u64)>) -> Left {
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
            // SAFETY: only this thread and its signal handlers use the block; a count that goes astray is only a count.
            unsafe {
                (*self.known).count += 1;
                (*self.known).heat = (*self.known).heat.saturating_add(1);
            }
        }
        match (is_there, is_alike) {
            (true, true) => Left::Counted,
            (true, false) => Left::Apart,
            (false, is_alike) => Left::Gone { is_alike },
        }
    }
}

/// What became of a call that was in flight in a run.
pub enum Left {
    /// It is counted.
    Counted,
    /// It is another one, and has no event yet.
    Apart,
    /// The run's slot has left the window, and says that it is in flight.
    Gone { is_alike: bool },
}

/// Whether runs are told of a function at all.
fn has_runs(id: FnId) -> bool {
    let function = &FUNCTIONS[id as usize];
    let has_more = function.args().iter().any(|arg| arg.stored() == 0) || function.is_work();
    // Who is stopped or aborted by a rule is so at each call.
    let stops = |check: &settings::Check| !check.abort_on.is_empty() || !check.stop_on.is_empty();
    !has_more && !settings::get().check.as_ref().is_some_and(stops)
}

/// Notes a failure that was recorded and judged, as an event with this number. For use in `guarded`.
pub fn failed(passed: &Passed, result: i32, number: u64) {
    let (thread, id) = (thread(), passed.id);
    if !has_runs(id) {
        return;
    }
    let is_more = depends_on_more(id, result);
    if is_more && has_lines() {
        return;
    }
    let key = passed.keys()[usize::from(is_more)];
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
        let mut known = Known {
            key,
            place: 0,
            number: 0,
            epoch: epoch(),
            world: world(is_more),
            due: if is_more { speed::after(REST) } else { u64::MAX },
            count,
            result,
            heat: 1,
            args: [0; MOST_ARGS],
        };
        if count >= LIMIT {
            let Some(taken) = stream::take(thread, 1) else { return };
            (known.place, known.number) = (taken.place, taken.number);
            let run = taken.place as *mut Run;
            // SAFETY: the slot lies in this thread's window, and nobody else was given it.
            unsafe {
                let now = clock::now();
                run.write(Run {
                    word: 0,
                    call: number,
                    end: now,
                    caller: passed.caller as u64 & ((1 << 48) - 1),
                    calls: 0,
                    total: 0,
                    since: 0,
                    longest: 0,
                    result,
                });
                stream::publish(run.cast(), word(slot::RUN, 1, id as u16, taken.number as u32));
            }
            stream::filled(thread, taken.before);
            // SAFETY: only this thread and its signal handlers use the block.
            unsafe { (*thread).runs |= 1 << (id as u32 % 32) };
        }
        let Some(repeats) = repeats::of(thread) else { return };
        let place = match find(&mut repeats.runs, key) {
            Some(place) => {
                known.heat = place.heat;
                core::ptr::from_mut(place)
            }
            None => core::ptr::from_mut(coldest(&mut repeats.runs, key)),
        };
        repeats.turn += 1;
        // SAFETY: an entry of this thread's block.
        unsafe { place.write(known) };
    });
}

/// Whether stacks have lines of Python, which the place of a call does not tell.
fn has_lines() -> bool {
    settings::get().python && python::native().is_some()
}

/// Whether a call of a kind is to carry its stack. `result` is that of a failure, and 0 of what is about to be forwarded; `number`
/// is that of its slot.
pub fn is_due(id: FnId, result: i32, number: u64, (caller, height): (usize, usize)) -> bool {
    // All calls of an interpreter come from one place.
    if has_lines() && (result == 0 || depends_on_more(id, result)) {
        return true;
    }
    let thread = thread();
    let key = step(step(id as u64 + 1, caller as u64), result as u32 as u64) | 1;
    let Some(repeats) = repeats::of(thread) else { return true };
    // Where the window was left since the slot was taken, a ring overwrites the call before those that follow: its stack is
    // not theirs.
    let window = stream::window(thread);
    let part = step(step(window.first() | u64::from(number < window.first()) << 63, epoch()), height as u64);
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
