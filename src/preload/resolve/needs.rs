//! Decides which functions' calls run through `call`: functions that the settings name, functions that armed fault
//! plans test, and functions that matter because of the history of the process. `traced` changes the last two.

use super::{entries, used};
use crate::settings;
use crate::sys::every_call::{follows_plans, is_behind};
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_spec::effect::{AddressSpace, Effect};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, Library};

/// Condition on the history of a process before which calls of a function cannot matter, and are not recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Got access to memory of another device or process: a copy goes from one device to another.
    Reach,
    /// Shared something: freed memory may be shared.
    Shared,
    /// Been forked after the driver was initialized, which then does not work. Its calls are looked at to know of both.
    Fork,
    /// Closed, unmapped, or freed shared memory: used memory may be gone.
    Gone,
    /// Shares memory, or an event.
    Event,
    /// Allocated memory, which is counted until it is freed.
    Made,
}

/// The condition of each function, in the order of the table.
static NEEDS: [Needs; FUNCTION_COUNT] = {
    let mut needs = [Needs::Nothing; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let function = &FUNCTIONS[i];
        let mut j = 0;
        while j < function.effects().len() {
            match function.effects()[j] {
                Effect::Copies(copied) if !matches!(copied.sides, AddressSpace::Peers) => {
                    needs[i] = Needs::Reach
                }
                Effect::Ends(end) if function.ends_often() && !end.object.is_context() => {
                    needs[i] = Needs::Shared
                }
                Effect::Begins => needs[i] = Needs::Fork,
                Effect::Records(_)
                | Effect::Completes(_)
                | Effect::Follows(_)
                | Effect::Drops(_)
                | Effect::Awaits(_)
                | Effect::Signals(_)
                | Effect::Posts(_)
                | Effect::Runs(_) => needs[i] = Needs::Event,
                Effect::Uses(_) | Effect::UsesEach(_) | Effect::Launches(_) | Effect::Replays(_) => {
                    needs[i] = Needs::Gone
                }
                Effect::Instantiates(..) | Effect::Alters(_) | Effect::Discards(_) => {
                    needs[i] = Needs::Shared
                }
                _ => {}
            }
            j += 1;
        }
        i += 1;
    }
    needs
};

/// True for each condition that the process meets, by its number.
pub(super) static DONE: [AtomicBool; 7] = [
    AtomicBool::new(true),
    AtomicBool::new(false),
    AtomicBool::new(false),
    AtomicBool::new(true),
    AtomicBool::new(false),
    AtomicBool::new(false),
    AtomicBool::new(false),
];

/// See [`Needs`].
#[inline(always)]
pub fn needs(id: FnId) -> Needs {
    NEEDS[id as usize]
}

/// Returns true if calls of a function can matter, because of the history of the process. Until then, they go
/// straight to the driver.
#[inline(always)]
pub fn is_awake(id: FnId) -> bool {
    let needs = needs(id);
    // Copies between devices use memory as well, and those between a device and the host may take the place of one.
    has_done(needs)
        || needs == Needs::Reach && has_done(Needs::Gone)
        || has_done(Needs::Shared) && id.spec().may_use_shared()
        || has_done(Needs::Made) && id.spec().frees().is_some()
}

/// The reason why calls of each function run through `call`.
static REASONS: [AtomicU8; FUNCTION_COUNT] = [const { AtomicU8::new(WANTED) }; FUNCTION_COUNT];
/// For a log, a fault plan, a denied pair, or because it is the first call.
const WANTED: u8 = 0;
/// Only because the history of the process makes it matter.
const ONLY_AWAKE: u8 = 1;
/// For that, and because plans may be armed while the job is running.
const FOLLOWING: u8 = 2;

/// Returns true if only the history of the process makes calls of a function matter: no log, denied pair, or fault
/// plan, even if it was armed a moment ago.
#[inline(always)]
pub fn is_only_awake(id: FnId) -> bool {
    match REASONS[id as usize].load(Relaxed) {
        ONLY_AWAKE => true,
        reason => reason == FOLLOWING && !is_behind(),
    }
}

/// Decides anew why calls of a function run through `call`. The first call matters because it is the first one.
pub(super) fn decide_again(id: FnId) {
    let is_wanted = || {
        settings::get().is_traced(id, false) || PLANS[id as usize].load(SeqCst) > 0 || used::is_awaited(id)
    };
    // Other threads do the same: the last writer checks again.
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
pub fn has_done(done: Needs) -> bool {
    DONE[done as usize].load(Relaxed)
}

/// Number of calls that use memory or order work that are examined before memory is shared, and again after each
/// export.
pub(super) const EARLY: i32 = 4096;
/// Number of those calls that remain.
pub(super) static EARLY_LEFT: AtomicI32 = AtomicI32::new(EARLY);

/// Returns true if such calls are examined although they may not matter: see `call::early`.
#[inline(always)]
pub fn is_early() -> bool {
    EARLY_LEFT.load(Relaxed) > 0
}

/// Number of armed plans that test each function.
pub(super) static PLANS: [AtomicU32; FUNCTION_COUNT] = [const { AtomicU32::new(0) }; FUNCTION_COUNT];

/// Returns true if calls of a function run through `call`.
pub fn is_traced(id: FnId) -> bool {
    let settings = settings::get();
    // The kinds of handles are learned before there is anything to look for.
    let is_noted = settings.check.is_some()
        && (id.spec().changes_kernels() || id.spec().changes_graphs() && is_awake(id));
    let spec = id.spec();
    let is_early = is_early()
        && (needs(id) == Needs::Event || spec.may_use_shared() || spec.frees().is_some())
        && spec.library == Library::Cuda
        && settings.is_recorded(id);
    let is_context = settings.record.is_some() && id.spec().has_context();
    let is_followed = follows_plans() && id.spec().library == Library::Cuda;
    settings.is_traced(id, is_awake(id))
        || is_noted
        || is_early
        || is_context
        || is_followed
        || PLANS[id as usize].load(SeqCst) > 0
}

/// Returns true if calls of a function of the runtime must come to us, and our constructor has set its entry.
pub fn is_wanted(id: FnId) -> bool {
    entries::export(id as usize) != 0 && is_traced(id)
}

/// Returns true if calls that bypass us are missed: of the driver always, and of NVML if any of its functions is
/// traced. For the runtime it is false, because the driver's calls behind it are seen.
pub fn is_missed(library: Library) -> bool {
    let is_wanted = || FnId::all().any(|id| id.spec().library == library && is_traced(id));
    match library {
        Library::Cuda => true,
        Library::Nvml => is_wanted(),
        Library::Cudart => false,
    }
}
