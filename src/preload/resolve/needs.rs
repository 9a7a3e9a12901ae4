//! Decides which functions' calls run through `call`: functions that the settings name, functions that armed fault
//! plans test, and functions that matter because of the history of the process. `traced` changes the last two.

use super::{entries, used};
use crate::settings;
use crate::sys::every_call::{follows_plans, has_unseen_plan_changes};
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_spec::effect::{AddressSpace, Effect};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, Library};

/// A condition on the history of a process. Before it is met, calls of a function cannot matter, and are not recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HistoryCondition {
    /// No condition: calls always matter.
    Nothing,
    /// The process got access to memory of another device or process, so that a copy can go from one device to another.
    Reach,
    /// The process shared something, so that freed memory may be shared.
    Shared,
    /// The process was forked after the driver was initialized, and cannot use the driver. Calls are examined to notice both.
    Fork,
    /// The process closed, unmapped, or freed shared memory, so that a call may use memory that is gone.
    Gone,
    /// The process shares memory or an event, so that the order of uses matters.
    Event,
    /// The process allocated memory, which is counted until it is freed.
    Made,
}

/// The condition of each function, in the order of the table.
static NEEDS: [HistoryCondition; FUNCTION_COUNT] = {
    let mut needs = [HistoryCondition::Nothing; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let function = &FUNCTIONS[i];
        let mut j = 0;
        while j < function.effects().len() {
            match function.effects()[j] {
                Effect::Copies(copied) if !matches!(copied.sides, AddressSpace::Peers) => {
                    needs[i] = HistoryCondition::Reach
                }
                Effect::Ends(end) if function.ends_often() && !end.object.is_context() => {
                    needs[i] = HistoryCondition::Shared
                }
                Effect::Begins => needs[i] = HistoryCondition::Fork,
                Effect::Records(_)
                | Effect::Completes(_)
                | Effect::Follows(_)
                | Effect::Drops(_)
                | Effect::Awaits(_)
                | Effect::Signals(_)
                | Effect::Posts(_)
                | Effect::Runs(_) => needs[i] = HistoryCondition::Event,
                Effect::Uses(_) | Effect::UsesEach(_) | Effect::Launches(_) | Effect::Replays(_) => {
                    needs[i] = HistoryCondition::Gone
                }
                Effect::Instantiates(..) | Effect::Alters(_) | Effect::Discards(_) => {
                    needs[i] = HistoryCondition::Shared
                }
                _ => {}
            }
            j += 1;
        }
        i += 1;
    }
    needs
};

/// True for each condition that the process meets, indexed by [`HistoryCondition`].
pub(super) static DONE: [AtomicBool; 7] = [
    AtomicBool::new(true),
    AtomicBool::new(false),
    AtomicBool::new(false),
    AtomicBool::new(true),
    AtomicBool::new(false),
    AtomicBool::new(false),
    AtomicBool::new(false),
];

/// Returns the condition that calls of a function need before they can matter.
#[inline(always)]
pub fn condition_of(id: FnId) -> HistoryCondition {
    NEEDS[id as usize]
}

/// Returns true if calls of a function can matter because of the history of the process. If false, calls go straight to the
/// driver.
#[inline(always)]
pub fn can_calls_matter(id: FnId) -> bool {
    let needs = condition_of(id);
    // Copies between devices use memory as well, and copies between a device and the host may replace one between devices.
    has_met(needs)
        || needs == HistoryCondition::Reach && has_met(HistoryCondition::Gone)
        || has_met(HistoryCondition::Shared) && id.spec().can_use_shared_memory()
        || has_met(HistoryCondition::Made) && id.spec().freed_memory_argument().is_some()
}

/// The reason why calls of each function run through `call`.
static REASONS: [AtomicU8; FUNCTION_COUNT] = [const { AtomicU8::new(WANTED) }; FUNCTION_COUNT];
/// Calls must be logged, tested for a fault or a denied pair, or noted because the first call has not come yet.
const WANTED: u8 = 0;
/// Calls matter only because of the history of the process.
const ONLY_AWAKE: u8 = 1;
/// Calls matter because of the history of the process, and because plans may be armed while the job is running.
const FOLLOWING: u8 = 2;

/// Returns true if calls of a function matter only because of the history of the process: no log, denied pair, or fault plan
/// concerns them, even a plan that was armed a moment ago.
#[inline(always)]
pub fn is_needed_by_history_only(id: FnId) -> bool {
    match REASONS[id as usize].load(Relaxed) {
        ONLY_AWAKE => true,
        reason => reason == FOLLOWING && !has_unseen_plan_changes(),
    }
}

/// Determines again why calls of a function run through `call`. Until the first call, the reason is that the first call must be
/// noted.
pub(super) fn update_reason(id: FnId) {
    let is_wanted = || {
        settings::get().is_traced(id, false) || PLANS[id as usize].load(SeqCst) > 0 || used::is_first_call_awaited(id)
    };
    // Other threads may do the same at once: the last writer checks again.
    loop {
        let now = is_wanted();
        let other = if follows_plans() { FOLLOWING } else { ONLY_AWAKE };
        REASONS[id as usize].store(if now { WANTED } else { other }, SeqCst);
        if is_wanted() == now {
            break;
        }
    }
}

/// Returns true if the process meets a condition.
#[inline(always)]
pub fn has_met(done: HistoryCondition) -> bool {
    DONE[done as usize].load(Relaxed)
}

/// Number of calls that are examined before any memory is shared, and again after each export. These are calls that use memory or
/// order work.
pub(super) const EARLY: i32 = 4096;
/// Number of such calls that are still to be examined.
pub(super) static EARLY_LEFT: AtomicI32 = AtomicI32::new(EARLY);

/// Returns true if calls that use memory or order work are examined although no memory is shared yet: see `call::early`.
#[inline(always)]
pub fn is_examining_early_calls() -> bool {
    EARLY_LEFT.load(Relaxed) > 0
}

/// Number of armed fault plans that test each function.
pub(super) static PLANS: [AtomicU32; FUNCTION_COUNT] = [const { AtomicU32::new(0) }; FUNCTION_COUNT];

/// Returns true if calls of a function run through `call`.
pub fn is_traced(id: FnId) -> bool {
    let settings = settings::get();
    // The types of handles must be known before any of them is examined.
    let is_noted =
        settings.check.is_some() && (id.spec().changes_kernels() || id.spec().changes_graphs() && can_calls_matter(id));
    let spec = id.spec();
    let is_early = is_examining_early_calls()
        && (condition_of(id) == HistoryCondition::Event
            || spec.can_use_shared_memory()
            || spec.freed_memory_argument().is_some())
        && spec.library == Library::Cuda
        && settings.is_recorded(id);
    let is_context = settings.record.is_some() && id.spec().can_lack_context_memory();
    let is_followed = follows_plans() && id.spec().library == Library::Cuda;
    settings.is_traced(id, can_calls_matter(id))
        || is_noted
        || is_early
        || is_context
        || is_followed
        || PLANS[id as usize].load(SeqCst) > 0
}

/// Returns true if calls of a function of the runtime must come to us, and our constructor has set our entry for the function.
pub fn is_runtime_entry_needed(id: FnId) -> bool {
    entries::export(id as usize) != 0 && is_traced(id)
}

/// Returns true if calls of a library that bypass us would be missed: always for the driver, and for NVML if any of its functions
/// is traced. False for the runtime, because its calls of the driver are seen.
pub fn is_watched_library(library: Library) -> bool {
    let is_wanted = || FnId::all().any(|id| id.spec().library == library && is_traced(id));
    match library {
        Library::Cuda => true,
        Library::Nvml => is_wanted(),
        Library::Cudart => false,
    }
}
