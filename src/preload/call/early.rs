//! Keeps the last asynchronous copies and memsets. If the memory that they use is exported later, they are noted as uses of
//! shared memory from before the export.
//!
//! A call of any thread that may wait for work, announce the end of work, or put other work behind it drops all kept calls: only
//! certain uses are noted. Calls are examined until [`traced::count_early`] counted enough of them since the last export.

use super::order::{self, Role, Stream, uses_shared};
use super::{Arguments, EntryState, Function, behind_patch, is_again};
use crate::driver::queries;
use crate::driver::shelf::Shelf;
use crate::fault::{forward::ArgumentWords, inject};
use crate::job;
use crate::recorder::{self, Use, clock};
use crate::resolve::{needs, traced};
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_model::Call;
use cupeer_spec::effect::{AddressSpace, Effect};
use cupeer_spec::function::{FUNCTIONS, FnId, FnSpec};
use cupeer_spec::record::slot::{MOST_ARGS, detail};

/// Maximum number of calls that are kept.
const MOST: usize = 8;

/// Copy or memset that was called before the memory that it uses is exported.
struct EarlyUse {
    id: FnId,
    caller: usize,
    used: Use,
    /// Start address and length in bytes of each range of memory that the call uses; zeros for a missing range.
    ranges: [(u64, u64); 2],
    stream: u64,
    context: u64,
    /// Current context and device, with the flags of the call: see [`order::context_and_flags`].
    current: u64,
}

impl EarlyUse {
    fn uses(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.ranges.iter().any(|&(at, length)| at < end && start < at.saturating_add(length))
    }
}

/// The last calls, the oldest first.
struct Ring {
    all: [Option<EarlyUse>; MOST],
    /// Value of [`DROPPED`] when the last call was kept.
    dropped: u32,
}

impl Ring {
    const NEW: Ring = Ring { all: [const { None }; MOST], dropped: 0 };

    fn keep(&mut self, kept: EarlyUse, dropped: u32) {
        if self.dropped != dropped {
            *self = Ring { dropped, ..Ring::NEW };
        }
        self.all.rotate_left(1);
        self.all[MOST - 1] = Some(kept);
    }

    /// Takes out the calls that use a range of memory. Returns none if calls were dropped since.
    fn take(&mut self, (start, bytes): (u64, u64), dropped: u32) -> [Option<EarlyUse>; MOST] {
        if self.dropped != dropped {
            return Ring::NEW.all;
        }
        self.all.each_mut().map(|kept| kept.take_if(|kept| kept.uses(start, bytes)))
    }
}

static RING: Shelf<Ring> = Shelf::new(Ring::NEW);
/// Number of times that all kept calls were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// Runs `work` on the ring. If another thread uses the ring, or a call that this signal handler interrupted does, drops all kept
/// calls instead.
fn with_ring(work: impl FnOnce(&mut Ring)) {
    match RING.take() {
        Some(mut ring) => work(&mut ring),
        None => drop_all(),
    }
}

#[cold]
#[inline(never)]
fn drop_all() {
    DROPPED.fetch_add(1, SeqCst);
}

/// Returns true if calls of a function are examined.
const fn concerns(function: &FnSpec) -> bool {
    !matches!(Role::of(function), Role::Nothing | Role::Ends(_))
}

/// Returns true if calls of a function are kept: their work may be pending when they return.
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

/// Returns true if a call of a function drops all calls that were kept before it.
const fn drops(function: &FnSpec) -> bool {
    !keeps(function) || !function.is_asynchronous() || function.writes_to_host_later()
}

/// Examines a call before it is forwarded: keeps the call, drops all kept calls, or both.
#[cold]
#[inline(never)]
fn examine(id: FnId, entry: EntryState, arguments: &dyn Arguments, (keeps, drops): (bool, bool)) {
    traced::count_early();
    let caller = entry.caller;
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let is_planned = inject::may_concern(id, &|all| *all = words);
    let is_kept = keeps && entry.entered == id as u32 + 1 && !is_planned;
    if !is_kept || drops {
        drop_all();
    }
    if !is_kept || is_again(thread(), id, caller) || uses_shared(id, &words, arguments) {
        return;
    }
    let dropped = DROPPED.load(SeqCst);
    let caller = behind_patch(id, caller);
    guarded(|| {
        let context = queries::context();
        if context == 0 {
            return;
        }
        let (stream, mut used) = (Stream::of(id, &words), Use::new());
        let current = order::context_and_flags(id, arguments, context, &stream, (clock::now(), false));
        if current & detail::CAPTURED != 0 {
            return;
        }
        used.take(arguments, false);
        let (ranges, stream) = (ranges(id, used.args()), stream.name(context));
        let kept = EarlyUse { id, caller, used, ranges, stream, context, current };
        with_ring(|ring| ring.keep(kept, dropped));
    });
}

fn ranges(function: FnId, args: &[u8; MOST_ARGS]) -> [(u64, u64); 2] {
    let call = Call { function, result: 0, args, shape: 0, elements: &[] };
    let mut all = call.used().map(|(_, start, bytes)| (start, bytes));
    [(); 2].map(|()| all.next().unwrap_or_default())
}

/// Returns true if a call of a function may wait, before it returns, for work that was kept since the call began; or if the call
/// is kept itself.
const fn may_wait(function: &FnSpec) -> bool {
    concerns(function) && !matches!(Role::of(function), Role::Launches)
}

/// Drops all kept calls after a call that allocates, opens, or ends an object, because such a call may wait for work.
pub fn drop_if_it_waits(id: FnId) {
    let may_wait = |effect: &Effect| matches!(effect, Effect::Ends(_) | Effect::Opens(_));
    if needs::is_early() && (id.spec().allocates().is_some() || id.spec().effects().iter().any(may_wait)) {
        drop_all();
    }
}

/// Notes the kept calls that use the range `memory`, which a call exports. `at` is the time at which that call began. For use in
/// `guarded`.
pub fn note_exported(memory: (u64, u64), at: u64) {
    let mut taken = Ring::NEW.all;
    let dropped = DROPPED.load(SeqCst);
    with_ring(|ring| taken = ring.take(memory, dropped));
    if !needs::is_early() {
        drop_all();
    }
    traced::watch_early();
    let mut all = taken.iter().flatten();
    if !all.clone().all(|kept| job::order::note_used(kept.stream, kept.context, at).is_some()) {
        return recorder::pause();
    }
    // From here on, a call that waits for these uses is noted itself. An earlier call of this kind dropped them.
    fence(SeqCst);
    if DROPPED.load(SeqCst) == dropped && recorder::is_noting() {
        for kept in all.by_ref() {
            kept.used.append(kept.id, kept.caller, (at, at), kept.current);
        }
    }
}

/// Runs a call, and examines it before and after. While no calls are kept any more, this takes two loads.
#[inline(always)]
pub fn around<F: Function>(entry: EntryState, arguments: &impl Fn() -> F, run: impl FnOnce() -> i32) -> i32 {
    let is_examined = || (const { concerns(&FUNCTIONS[F::ID as usize]) }) && needs::is_early();
    let keeps_and_drops = const { (keeps(&FUNCTIONS[F::ID as usize]), drops(&FUNCTIONS[F::ID as usize])) };
    if is_examined() {
        examine(F::ID, entry, &arguments(), keeps_and_drops);
    }
    let result = run();
    if (const { may_wait(&FUNCTIONS[F::ID as usize]) })
        && needs::is_early()
        && (result != 0 || !keeps_and_drops.0)
    {
        drop_all();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, caller: usize) -> EarlyUse {
        let ranges = [(start, 16), (0, 0)];
        EarlyUse {
            id: FnId::cuMemsetD8Async,
            caller,
            used: Use::new(),
            ranges,
            stream: 1,
            context: 2,
            current: 2,
        }
    }

    fn callers(all: &[Option<EarlyUse>]) -> Vec<usize> {
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
