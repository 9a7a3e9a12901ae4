//! Calls that are not recorded unless they fail: most copies, launches, and frees, before and after a process shares memory.

use super::{
    Arguments, Function, Noted, after, behind_patch, is_again, order, take_steps, through_host, with_failure,
};
use crate::driver::places;
use crate::fault::forward::ArgumentWords;
use crate::job::gone;
use crate::recorder::{Recorded, content};
use crate::resolve::needs::{self, Needs};
use crate::resolve::{driver, linked};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use core::sync::atomic::{AtomicU32, Ordering};
use cupeer_rules::RULES;
use cupeer_spec::effect::Launched;
use cupeer_spec::function::{FUNCTIONS, FnId};
use cupeer_spec::results::Result as Code;

/// Runs a call that may not matter: at once if its addresses show that, as those of most copies and launches of a process that shares
/// do; else by its steps.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
pub unsafe fn straight_on<F: Function, const EXPORT: bool>(noted: Noted, arguments: impl Fn() -> F) -> i32 {
    /// Not part of what the others run through.
    #[cold]
    #[inline(never)]
    unsafe fn aside<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F) -> i32 {
        // SAFETY: as promised.
        unsafe { take_steps::<F, EXPORT>(noted, arguments) }
    }
    let passed = arguments();
    // Each of the two gets its own copy, so that those that need none stay in registers.
    let Some(real) = next::<F, EXPORT>(noted, &passed) else {
        // SAFETY: as promised.
        return unsafe { aside::<F, EXPORT>(noted, &arguments()) };
    };
    if order::may_concern(&passed) {
        // SAFETY: the address is this function's.
        return unsafe { noted_after(noted.caller, &arguments(), real) };
    }
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        has_failed(F::ID, noted.caller, &arguments(), result);
    }
    result
}

/// Forwards a call that may use shared memory.
///
/// # Safety
///
/// `real` is the address of its function.
#[cold]
#[inline(never)]
unsafe fn noted_after<F: Function>(caller: usize, arguments: &F, real: usize) -> i32 {
    let since = order::begins(arguments);
    // SAFETY: as promised.
    let result = unsafe { arguments.forward(real) };
    if result != 0 {
        has_failed(F::ID, caller, arguments, result);
    } else if since != 0 && !is_again(thread(), F::ID, caller) {
        order::note_in(F::ID, caller, arguments, since, order::stream_of(arguments), None);
    }
    result
}

/// Forwards a call of which nothing else is to be seen.
pub fn forward(id: FnId, caller: usize, arguments: &dyn Arguments, forward: impl FnOnce() -> i32) -> i32 {
    let since = since_use(id, arguments);
    let result = forward();
    if result != 0 {
        failed_use(id, caller, arguments, result);
    } else if since != 0 {
        order::note(id, caller, arguments, since, None);
    }
    result
}

/// When a call begins that is to be noted, on the clock of the record; 0 if it is not, or is noted elsewhere.
pub fn since_use(id: FnId, arguments: &dyn Arguments) -> u64 {
    let since = order::since(id, arguments);
    if since == 0 || !needs::has_done(Needs::Shared) {
        return since;
    }
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    // What is copied by a large one is recorded as well.
    let is_large = id.spec().host_copy().is_some_and(|copied| words[copied.size] >= content::SMALLEST);
    if is_large { 0 } else { since }
}

/// The driver's function that such a call goes on to. `None` if it takes its steps.
#[inline(always)]
fn next<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F) -> Option<usize> {
    if noted.entered != F::ID as u32 + 1 || !needs::is_only_awake(F::ID) || may_matter(arguments) {
        return None;
    }
    // What a large one copies is looked into.
    if through_host::large_copy(arguments).is_some() {
        return None;
    }
    let real = driver::real(F::ID);
    // A tool behind us may call the same function: the steps know that it is the same call.
    (!EXPORT || linked::known(F::ID, noted.caller) == Some(real)).then_some(real)
}

/// Whether a call can use memory that is gone, or go from one device to another. A few loads.
#[inline(always)]
fn may_matter<F: Function>(arguments: &F) -> bool {
    if let Some((by, size, element)) = const { FUNCTIONS[F::ID as usize].uses_one_range() } {
        return gone::may_be_used(arguments.word(by), arguments.word(size).saturating_mul(element));
    }
    if let Some(copied) = const { FUNCTIONS[F::ID as usize].copies_one_range() } {
        let (to, from, bytes) =
            (arguments.word(copied.to), arguments.word(copied.from), arguments.word(copied.size));
        return gone::may_one_be_used(to, Some(from), bytes)
            || needs::has_done(Needs::Reach)
                && !(needs::has_done(Needs::Shared) && places::are_on_one_device(from, to));
    }
    let passes = |Launched { function, parameters, extra }: Launched| {
        let extra = extra.map_or(0, |extra| arguments.word(extra));
        gone::may_be_passed(arguments.word(function), arguments.word(parameters), extra)
    };
    // Of rows and batches, nobody looks further.
    gone::has_any() && const { FUNCTIONS[F::ID as usize].launches() }.is_none_or(passes)
}

/// What follows when such a call has failed.
#[cold]
#[inline(never)]
pub fn has_failed(id: FnId, caller: usize, arguments: &dyn Arguments, result: i32) {
    if !is_again(thread(), id, caller) {
        failed_use(id, caller, arguments, result);
    }
}

/// Records a copy, memset, free, or change of a graph that has failed, and that nothing made worth recording before. So nothing of
/// this is done for those that succeed. Rules look at what fails all the time and is never explained only now and then.
#[cold]
#[inline(never)]
pub fn failed_use(id: FnId, caller: usize, arguments: &dyn Arguments, result: i32) {
    /// So many that no rule explains are all looked at; of the later ones, those whose number is a power of two.
    const MANY: u32 = 64;
    static UNEXPLAINED: AtomicU32 = AtomicU32::new(0);
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let settings = settings::get();
    // The nodes of a graph are not read unless some may use memory that is gone.
    let may_use = || {
        id.spec().uses_or_frees()
            || id.spec().records().is_some()
            || id.spec().uses_graph().is_some() && gone::has_any()
    };
    // A context is recorded only if there is no memory for it.
    let has_no_room = id.spec().has_context() && result == Code::OUT_OF_MEMORY as i32;
    let is_told = has_no_room && settings.record.is_some() || id.spec().allocates().is_some();
    if !is_told && !may_use() || !has_no_room && !settings.is_recorded(id) {
        return;
    }
    let is_due = |known: u32| known < MANY || known.is_power_of_two();
    let is_told = is_told && is_due(TOLD.fetch_add(1, Ordering::Relaxed));
    let known = UNEXPLAINED.load(Ordering::Relaxed);
    let may_be_explained =
        settings.check.is_some() && is_due(known) && RULES.iter().any(|rule| rule.explains(id, result));
    let caller = behind_patch(id, caller);
    let mut record = Recorded::new(id, arguments);
    with_failure((id, caller, result), arguments, &mut |call| {
        let mut is_explained = false;
        if may_be_explained {
            guarded(|| is_explained = after::is_explained(&record, call));
        }
        if !is_explained && !is_told {
            UNEXPLAINED.store(known.saturating_add(1), Ordering::Relaxed);
        }
        record.begin(arguments, caller, true, true);
        if record.finish(arguments, result, false) && (is_explained || is_told) {
            guarded(|| after::follow(&record, call));
        }
    });
}
