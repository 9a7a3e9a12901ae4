//! Runs calls that order work, and those that record events.

use super::memory::straight;
use super::order::{begins, may_concern, note, since};
use super::unseen::failed_use;
use super::{
    Arguments, Entered, Function, Noted, TakenUp, behind_patch, is_again, run_shared, shared_steps,
    take_steps,
};
use crate::fault::inject;
use crate::job::ledger;
use crate::settings;
use crate::sys::arch::thread;
use cupeer_spec::function::FnId;

/// Runs a call that orders work, or records an event: at once if nobody else looks at it.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
pub unsafe fn run<F: Function, const EXPORT: bool>(noted: Noted, arguments: impl Fn() -> F) -> i32 {
    /// Not part of what the others run through.
    #[inline(never)]
    unsafe fn aside<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F) -> i32 {
        // SAFETY: as promised.
        unsafe { take_steps::<F, EXPORT>(noted, arguments) }
    }
    let passed = arguments();
    let Some(real) = straight::<F, EXPORT>(noted) else {
        // SAFETY: as promised.
        return unsafe { aside::<F, EXPORT>(noted, &arguments()) };
    };
    let began = if may_concern(&passed) { begins(&passed, &arguments) } else { 0 };
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 || began != 0 {
        has_returned(F::ID, real, noted.caller, &arguments(), began, result);
    }
    result
}

#[cold]
#[inline(never)]
fn has_returned(id: FnId, real: usize, caller: usize, arguments: &dyn Arguments, began: u64, result: i32) {
    let again = is_again(thread(), id, caller);
    if result == 0 {
        if !again {
            note(id, caller, arguments, began, None);
        }
    } else if id.spec().records().is_some() && !again {
        event_failed(id, &Entered { real, through: real, caller, again }, arguments, result);
    }
}

/// A call that records an event. If only failures are recorded, its steps follow when it has failed.
#[inline(never)]
pub fn run_event(id: FnId, entered: &Entered, arguments: &dyn Arguments) -> i32 {
    let is_concerned = inject::may_concern(id, &|words| arguments.words(words));
    if entered.again || is_concerned || settings::get().is_logged(id) {
        return run_shared(id, entered, arguments);
    }
    let began = since(id, arguments);
    // SAFETY: the address is this function's, as `take_steps` demands.
    let result = unsafe { arguments.forward(entered.through) };
    if result != 0 {
        return event_failed(id, entered, arguments, result);
    }
    if began != 0 {
        note(id, entered.caller, arguments, began, None);
    }
    result
}

fn event_failed(id: FnId, entered: &Entered, arguments: &dyn Arguments, result: i32) -> i32 {
    let settings = settings::get();
    if !settings.is_recorded(id) || ledger::is_idle(id) {
        failed_use(id, entered.caller, arguments, result);
        return result;
    }
    let taken = TakenUp { caller: behind_patch(id, entered.caller), settings, returned: Some(result) };
    shared_steps(id, entered, taken, arguments, None)
}
