//! Keeps the last asynchronous copies and memsets, and notes those that use memory when this is exported: they came before that.
//!
//! All are dropped when a call of any thread may wait for work, tell somebody that work is done, or put other work behind it, so that
//! nothing is noted in doubt. Calls are looked at until [`traced::count_early`] has counted enough of them since the last export.

use super::order::{self, Stream, part_of, uses_shared};
use super::{Arguments, Function, Noted, behind_patch, is_again};
use crate::driver::questions;
use crate::fault::{forward::ArgumentWords, inject};
use crate::job;
use crate::recorder::{self, Use, clock};
use crate::resolve::{needs, traced};
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Release, SeqCst},
    fence,
};
use cupeer_model::Call;
use cupeer_spec::effect::{AddressSpace, Effect};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, FnSpec};
use cupeer_spec::record::slot::{MOST_ARGS, detail};

/// So many are kept.
const MOST: usize = 8;

/// A copy or a memset.
struct Kept {
    id: FnId,
    caller: usize,
    used: Use,
    /// The start and the bytes of what it uses.
    ranges: [(u64, u64); 2],
    stream: u64,
    context: u64,
    /// The current context and device, and its flags.
    current: u64,
}

impl Kept {
    fn uses(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.ranges.iter().any(|&(at, length)| at < end && start < at.saturating_add(length))
    }
}

/// The last calls, the oldest first, and [`DROPPED`] when the last one was kept.
struct Ring {
    all: [Option<Kept>; MOST],
    dropped: u32,
}

impl Ring {
    const NEW: Ring = Ring { all: [const { None }; MOST], dropped: 0 };

    fn keep(&mut self, kept: Kept, dropped: u32) {
        if self.dropped != dropped {
            *self = Ring { dropped, ..Ring::NEW };
        }
        self.all.rotate_left(1);
        self.all[MOST - 1] = Some(kept);
    }

    /// Takes those out that use some memory.
    fn take(&mut self, (start, bytes): (u64, u64), dropped: u32) -> [Option<Kept>; MOST] {
        if self.dropped != dropped {
            return Ring::NEW.all;
        }
        self.all.each_mut().map(|kept| kept.take_if(|kept| kept.uses(start, bytes)))
    }
}

struct Shared(UnsafeCell<Ring>);

// SAFETY: the ring is reached through `with_ring` alone, which lets one thread in.
unsafe impl Sync for Shared {}

static RING: Shared = Shared(UnsafeCell::new(Ring::NEW));
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// How often all were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// Does something with the ring. Drops all instead if another thread, or what a signal handler has interrupted, does.
fn with_ring(work: impl FnOnce(&mut Ring)) {
    if IS_HELD.swap(true, Acquire) {
        return drop_all();
    }
    // SAFETY: the thread that has found the flag unset is alone with the ring until it is unset again.
    work(unsafe { &mut *RING.0.get() });
    IS_HELD.store(false, Release);
}

fn drop_all() {
    DROPPED.fetch_add(1, SeqCst);
}

/// Whether calls of a function have to do with this.
const fn concerns(function: &FnSpec) -> bool {
    !matches!(part_of(function), order::Part::Nothing | order::Part::Ends(_))
}

/// Whether they are kept: their work may not be done when they return.
const fn keeps(function: &FnSpec) -> bool {
    let mut index = 0;
    while index < function.effects().len() {
        if let Effect::Copies(copied) = function.effects()[index] {
            return function.is_asynchronous() || !matches!(copied.sides, AddressSpace::Anything);
        }
        index += 1;
    }
    if function.rows().is_some() {
        return function.is_asynchronous();
    }
    function.begins()[0].is_some() && function.host_copy().is_none()
}

/// Whether calls of each function are kept, and whether all are dropped nevertheless.
static KEEPS: [(bool, bool); FUNCTION_COUNT] = {
    let mut all = [(false, true); FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let function = &FUNCTIONS[index];
        let drops = !keeps(function) || !function.is_asynchronous() || function.writes_to_host_later();
        all[index] = (keeps(function), drops);
        index += 1;
    }
    all
};

/// Looks at a call before it is forwarded: keeps it, or drops all.
#[cold]
#[inline(never)]
fn before(id: FnId, noted: Noted, arguments: &dyn Arguments) {
    traced::count_early();
    let caller = noted.caller;
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let is_planned = inject::may_concern(id, &|all| *all = words);
    let (keeps, drops) = KEEPS[id as usize];
    let is_kept = keeps && noted.entered == id as u32 + 1 && !is_planned;
    if !is_kept || drops {
        drop_all();
    }
    if !is_kept || is_again(thread(), id, caller) || uses_shared(id, &words, arguments) {
        return;
    }
    let dropped = DROPPED.load(SeqCst);
    let caller = behind_patch(id, caller);
    guarded(|| {
        let context = questions::context();
        if context == 0 {
            return;
        }
        let (stream, mut used) = (Stream::of(id, &words), Use::new());
        let current = order::current(id, arguments, context, &stream, (clock::now(), false));
        if current & detail::CAPTURED != 0 {
            return;
        }
        used.take(arguments, false);
        let (ranges, stream) = (ranges(id, used.args()), stream.name(context));
        let kept = Kept { id, caller, used, ranges, stream, context, current };
        with_ring(|ring| ring.keep(kept, dropped));
    });
}

fn ranges(function: FnId, args: &[u8; MOST_ARGS]) -> [(u64, u64); 2] {
    let call = Call { function, result: 0, args, shape: 0, elements: &[] };
    let mut all = call.used().map(|(_, start, bytes)| (start, bytes));
    [(); 2].map(|()| all.next().unwrap_or_default())
}

/// Whether calls of a function may wait for work that was kept since they began, or are kept.
const fn may_wait(function: &FnSpec) -> bool {
    concerns(function) && !matches!(part_of(function), order::Part::Launches)
}

/// Looks at a call after it has returned.
#[cold]
#[inline(never)]
fn after(id: FnId, result: i32) {
    if result != 0 || !KEEPS[id as usize].0 {
        drop_all();
    }
}

/// Looks at a call that changes what is there: one that allocates, opens, or ends something may wait for work.
pub fn followed(id: FnId) {
    let may_wait = |effect: &Effect| matches!(effect, Effect::Ends(_) | Effect::Opens(_));
    if needs::is_early() && (id.spec().allocates().is_some() || id.spec().effects().iter().any(may_wait)) {
        drop_all();
    }
}

/// Notes what used memory that was exported by a call which began `at` a time. For use in `guarded`.
pub fn exported(memory: (u64, u64), at: u64) {
    let mut taken = Ring::NEW.all;
    let dropped = DROPPED.load(SeqCst);
    with_ring(|ring| taken = ring.take(memory, dropped));
    if !needs::is_early() {
        drop_all();
    }
    traced::look_early();
    let mut all = taken.iter().flatten();
    if !all.clone().all(|kept| job::order::used(kept.stream, kept.context, at).is_some()) {
        return recorder::pause();
    }
    // A call that waits for them from here on is noted, and an earlier one has dropped them.
    fence(SeqCst);
    if DROPPED.load(SeqCst) == dropped && recorder::is_noting() {
        for kept in all.by_ref() {
            kept.used.append(kept.id, kept.caller, (at, at), kept.current);
        }
    }
}

/// Runs a call, and looks at it before and after. Two loads later on.
#[inline(always)]
pub fn around<F: Function>(noted: Noted, arguments: &impl Fn() -> F, run: impl FnOnce() -> i32) -> i32 {
    let is_looked_at = || (const { concerns(&FUNCTIONS[F::ID as usize]) }) && needs::is_early();
    if is_looked_at() {
        before(F::ID, noted, &arguments());
    }
    let result = run();
    if (const { may_wait(&FUNCTIONS[F::ID as usize]) }) && needs::is_early() {
        after(F::ID, result);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, caller: usize) -> Kept {
        let ranges = [(start, 16), (0, 0)];
        Kept {
            id: FnId::cuMemsetD8Async,
            caller,
            used: Use::new(),
            ranges,
            stream: 1,
            context: 2,
            current: 2,
        }
    }

    fn callers(all: &[Option<Kept>]) -> Vec<usize> {
        all.iter().flatten().map(|kept| kept.caller).collect()
    }

    #[test]
    fn the_last_uses_of_memory_are_taken_once() {
        let mut ring = Ring::NEW;
        (0..10).for_each(|number| ring.keep(kept(0x1000 + number % 2 * 0x100, number as usize), 0));
        assert_eq!(callers(&ring.take((0x1008, 0x10), 0)), [2, 4, 6, 8]);
        assert_eq!(callers(&ring.take((0x1010, 0xf0), 0)), [0; 0]);
        assert_eq!(callers(&ring.take((0x1000, 0x200), 0)), [3, 5, 7, 9]);
    }

    #[test]
    fn dropped_ones_are_not_taken() {
        let mut ring = Ring::NEW;
        ring.keep(kept(0x1000, 1), 0);
        assert_eq!(callers(&ring.take((0x1000, 1), 1)), [0; 0]);
        ring.keep(kept(0x1000, 2), 1);
        assert_eq!(callers(&ring.take((0x1000, 1), 1)), [2]);
    }
}
