//! Calls that are not recorded unless they fail: most copies, launches, and frees, before and after a process shares memory.

use super::{Arguments, Entered, Function, after, with_failure};
use crate::job::gone;
use crate::recorder::Recorded;
use crate::resolve::traced;
use crate::settings;
use crate::sys::guard::guarded;
use core::sync::atomic::{AtomicU32, Ordering};
use cupeer_rules::RULES;
use cupeer_spec::effect::Launched;
use cupeer_spec::function::{FUNCTIONS, FnId};

/// Whether only memory that is gone could make this call matter, and it uses none: most copies and launches of a process that
/// shares. Others are looked at by their steps.
#[inline(always)]
pub fn uses_nothing_gone<F: Function>(arguments: &F) -> bool {
    let uses = const { FUNCTIONS[F::ID as usize].uses_one_range().is_some() };
    let launches = const { FUNCTIONS[F::ID as usize].launches().is_some() };
    if !(uses || launches) || !traced::is_only_awake(F::ID) {
        return false;
    }
    if !gone::has_any() {
        return true;
    }
    if let Some((by, size, element)) = const { FUNCTIONS[F::ID as usize].uses_one_range() } {
        return !gone::may_be_used(arguments.word(by), arguments.word(size).saturating_mul(element));
    }
    const { FUNCTIONS[F::ID as usize].launches() }.is_some_and(|Launched { function, parameters, extra }| {
        let extra = extra.map_or(0, |extra| arguments.word(extra));
        !gone::may_be_passed(arguments.word(function), arguments.word(parameters), extra)
    })
}

/// A call that is not recorded unless it fails.
#[inline(always)]
pub fn forward_unseen(
    id: FnId,
    entered: &Entered,
    arguments: &dyn Arguments,
    forward: impl FnOnce() -> i32,
) -> i32 {
    let result = forward();
    if result != 0 && !entered.again && id.spec().uses_or_frees() {
        failed_use(id, entered, arguments, result);
    }
    result
}

/// Records a copy, memset, or free that has failed, and that nothing made worth recording before, where a rule explains the failure.
/// So nothing of this is done for those that succeed. What fails all the time is looked at now and then.
#[cold]
#[inline(never)]
pub fn failed_use(id: FnId, entered: &Entered, arguments: &dyn Arguments, result: i32) {
    /// So many that no rule explains are all looked at; of the later ones, those whose number is a power of two.
    const MANY: u32 = 64;
    static UNEXPLAINED: AtomicU32 = AtomicU32::new(0);
    let settings = settings::get();
    let may_be_explained = || RULES.iter().any(|rule| rule.explains(id, result));
    if settings.check.is_none() || !settings.is_recorded(id) || !may_be_explained() {
        return;
    }
    let known = UNEXPLAINED.load(Ordering::Relaxed);
    if known >= MANY && !known.is_power_of_two() {
        UNEXPLAINED.store(known.saturating_add(1), Ordering::Relaxed);
        return;
    }
    let caller = entered.behind_patch(id);
    let mut record = Recorded::new(id, arguments);
    with_failure((id, caller, result), arguments, &mut |call| {
        let mut is_explained = false;
        guarded(|| is_explained = after::is_explained(&record, call));
        if !is_explained {
            UNEXPLAINED.store(known.saturating_add(1), Ordering::Relaxed);
            return;
        }
        record.begin(arguments, caller, true, true);
        if record.finish(arguments, result, false) {
            guarded(|| after::follow(&record, call));
        }
    });
}
