//! Keeps the last asynchronous copies and memsets. If the memory that they use is exported later, they are noted as uses of
//! shared memory from before the export.
//!
//! A call of any thread that may wait for work, announce the end of work, or put other work behind it drops all kept calls: only
//! certain uses are noted. Calls are examined until [`traced::count_early`] counted enough of them since the last export.

use super::order::{self, Role, Stream, uses_shared_memory};
use super::{Arguments, EntryState, Function, caller_behind_patch, is_nested_call};
use crate::driver::queries;
use crate::driver::shelf::ExclusiveValue;
use crate::fault::{forward::ArgumentWords, inject};
use crate::job;
use crate::recorder::{self, NotedUse, clock};
use crate::resolve::{needs, traced};
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_model::Call;
use cupeer_spec::effect::{AddressSpace, Effect};
use cupeer_spec::function::{FUNCTIONS, FnId, FnSpec};
use cupeer_spec::record::slot::{MOST_ARGS, detail};

/// Number of calls that are kept: a new call replaces the oldest.
const MOST: usize = 8;

/// Copy or memset that was called before the memory that it uses is exported.
struct EarlyUse {
    id: FnId,
    caller: usize,
    used: NotedUse,
    /// Start address and length in bytes of each range of memory that the call uses; zeros for a missing range.
    ranges: [(u64, u64); 2],
    stream: u64,
    context: u64,
    /// Current context and device, with the flags of the call: see [`order::pack_context_and_flags`].
    current: u64,
}

impl EarlyUse {
    fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.ranges.iter().any(|&(at, length)| at < end && start < at.saturating_add(length))
    }
}

/// The copies and memsets that are kept, the oldest first.
struct RecentUses {
    all: [Option<EarlyUse>; MOST],
    /// Value of [`DROPPED`] when the last call was kept.
    dropped: u32,
}

impl RecentUses {
    const NEW: RecentUses = RecentUses { all: [const { None }; MOST], dropped: 0 };

    fn push(&mut self, kept: EarlyUse, dropped: u32) {
        if self.dropped != dropped {
            *self = RecentUses { dropped, ..RecentUses::NEW };
        }
        self.all.rotate_left(1);
        self.all[MOST - 1] = Some(kept);
    }

    /// Takes out the kept calls that use a range of memory. Returns none if all kept calls were dropped since the last
    /// one was added.
    fn take_overlapping(&mut self, (start, bytes): (u64, u64), dropped: u32) -> [Option<EarlyUse>; MOST] {
        if self.dropped != dropped {
            return RecentUses::NEW.all;
        }
        self.all.each_mut().map(|kept| kept.take_if(|kept| kept.overlaps(start, bytes)))
    }
}

static RING: ExclusiveValue<RecentUses> = ExclusiveValue::new(RecentUses::NEW);
/// Number of times that all kept calls were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// Runs `work` on the ring. If another thread uses the ring, or a call that this signal handler interrupted does, drops all kept
/// calls instead.
fn with_recent_uses(work: impl FnOnce(&mut RecentUses)) {
    match RING.take() {
        Some(mut ring) => work(&mut ring),
        None => drop_kept_uses(),
    }
}

#[cold]
#[inline(never)]
fn drop_kept_uses() {
    DROPPED.fetch_add(1, SeqCst);
}

/// Returns true if calls of a function are examined.
const fn is_examined_function(function: &FnSpec) -> bool {
    !matches!(Role::of(function), Role::Nothing | Role::Ends(_))
}

/// Returns true if calls of a function are kept: their work may be pending when they return.
const fn is_kept_function(function: &FnSpec) -> bool {
    let mut index = 0;
    while index < function.effects().len() {
        if let Effect::Copies(copied) = function.effects()[index] {
            return function.is_asynchronous() || !matches!(copied.sides, AddressSpace::Anything);
        }
        index += 1;
    }
    if function.rows_structure().is_some() {
        return function.is_asynchronous();
    }
    function.start_arguments()[0].is_some() && function.host_copy().is_none()
}

/// Returns true if a call of a function drops all calls that were kept before it.
const fn is_dropping_function(function: &FnSpec) -> bool {
    !is_kept_function(function) || !function.is_asynchronous() || function.writes_to_host_later()
}

/// Examines a call before it is forwarded: keeps the call, drops all kept calls, or both.
#[cold]
#[inline(never)]
fn examine_before_forwarding(id: FnId, entry: EntryState, arguments: &dyn Arguments, (keeps, drops): (bool, bool)) {
    traced::count_early();
    let caller = entry.caller;
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let is_planned = inject::may_concern(id, &|all| *all = words);
    let is_kept = keeps && entry.entered == id as u32 + 1 && !is_planned;
    if !is_kept || drops {
        drop_kept_uses();
    }
    if !is_kept || is_nested_call(thread(), id, caller) || uses_shared_memory(id, &words, arguments) {
        return;
    }
    let dropped = DROPPED.load(SeqCst);
    let caller = caller_behind_patch(id, caller);
    guarded(|| {
        let context = queries::context();
        if context == 0 {
            return;
        }
        let (stream, mut used) = (Stream::of(id, &words), NotedUse::new());
        let current = order::pack_context_and_flags(id, arguments, context, &stream, (clock::now(), false));
        if current & detail::CAPTURED != 0 {
            return;
        }
        used.store_arguments(arguments, false);
        let (ranges, stream) = (used_ranges(id, used.args()), stream.unique_name(context));
        let kept = EarlyUse { id, caller, used, ranges, stream, context, current };
        with_recent_uses(|ring| ring.push(kept, dropped));
    });
}

fn used_ranges(function: FnId, args: &[u8; MOST_ARGS]) -> [(u64, u64); 2] {
    let call = Call { function, result: 0, args, shape: 0, elements: &[] };
    let mut all = call.used_ranges().map(|(_, start, bytes)| (start, bytes));
    [(); 2].map(|()| all.next().unwrap_or_default())
}

/// Returns true if a call of a function may wait, before it returns, for work that was kept since the call began; or if the call
/// is kept itself.
const fn can_wait_for_kept_uses(function: &FnSpec) -> bool {
    is_examined_function(function) && !matches!(Role::of(function), Role::Launches)
}

/// Drops all kept calls after a call that allocates, opens, or ends an object, because such a call may wait for work.
pub fn drop_uses_if_call_can_wait(id: FnId) {
    let may_wait = |effect: &Effect| matches!(effect, Effect::Ends(_) | Effect::Opens(_));
    if needs::is_examining_early_calls()
        && (id.spec().allocated_memory().is_some() || id.spec().effects().iter().any(may_wait))
    {
        drop_kept_uses();
    }
}

/// Records the kept calls that use the range `memory`, which a call exports. `at` is the time at which that call
/// began. For use in `guarded`.
pub fn note_uses_before_export(memory: (u64, u64), at: u64) {
    let mut taken = RecentUses::NEW.all;
    let dropped = DROPPED.load(SeqCst);
    with_recent_uses(|ring| taken = ring.take_overlapping(memory, dropped));
    if !needs::is_examining_early_calls() {
        drop_kept_uses();
    }
    traced::restart_early_examination();
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

/// Runs a call, and examines it before and after. Once calls are not examined any more, this costs two loads.
#[inline(always)]
pub fn run_and_keep_early_uses<F: Function>(
    entry: EntryState,
    arguments: &impl Fn() -> F,
    run: impl FnOnce() -> i32,
) -> i32 {
    let is_examined =
        || (const { is_examined_function(&FUNCTIONS[F::ID as usize]) }) && needs::is_examining_early_calls();
    let keeps_and_drops =
        const { (is_kept_function(&FUNCTIONS[F::ID as usize]), is_dropping_function(&FUNCTIONS[F::ID as usize])) };
    if is_examined() {
        examine_before_forwarding(F::ID, entry, &arguments(), keeps_and_drops);
    }
    let result = run();
    if (const { can_wait_for_kept_uses(&FUNCTIONS[F::ID as usize]) })
        && needs::is_examining_early_calls()
        && (result != 0 || !keeps_and_drops.0)
    {
        drop_kept_uses();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, caller: usize) -> EarlyUse {
        let ranges = [(start, 16), (0, 0)];
        EarlyUse { id: FnId::cuMemsetD8Async, caller, used: NotedUse::new(), ranges, stream: 1, context: 2, current: 2 }
    }

    fn callers(all: &[Option<EarlyUse>]) -> Vec<usize> {
        all.iter().flatten().map(|kept| kept.caller).collect()
    }

    #[test]
    fn the_last_uses_of_memory_are_taken_once() {
        let mut ring = RecentUses::NEW;
        (0..10).for_each(|number| ring.push(kept(0x1000 + number % 2 * 0x100, number as usize), 0));
        assert_eq!(callers(&ring.take_overlapping((0x1008, 0x10), 0)), [2, 4, 6, 8]);
        assert_eq!(callers(&ring.take_overlapping((0x1010, 0xf0), 0)), [0; 0]);
        assert_eq!(callers(&ring.take_overlapping((0x1000, 0x200), 0)), [3, 5, 7, 9]);
    }

    #[test]
    fn dropped_ones_are_not_taken() {
        let mut ring = RecentUses::NEW;
        ring.push(kept(0x1000, 1), 0);
        assert_eq!(callers(&ring.take_overlapping((0x1000, 1), 1)), [0; 0]);
        ring.push(kept(0x1000, 2), 1);
        assert_eq!(callers(&ring.take_overlapping((0x1000, 1), 1)), [2]);
    }
}
