//! Runs calls that order work, and those that record events.

use super::memory::straight;
use super::order::{begins, may_concern, note, note_in, since, stream_of};
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
    #[cold]
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
    if may_concern(&passed) {
        // SAFETY: the address is this function's.
        return unsafe { noted_after(noted.caller, &arguments(), real) };
    }
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        has_failed(F::ID, real, noted.caller, &arguments(), result);
    }
    result
}

/// Forwards a call that may order uses of shared memory.
///
/// # Safety
///
/// `real` is the address of its function.
#[cold]
#[inline(never)]
unsafe fn noted_after<F: Function>(caller: usize, arguments: &F, real: usize) -> i32 {
    let began = begins(arguments);
    // SAFETY: as promised.
    let result = unsafe { arguments.forward(real) };
    if result != 0 {
        has_failed(F::ID, real, caller, arguments, result);
    } else if began != 0 && !is_again(thread(), F::ID, caller) {
        note_in(F::ID, caller, arguments, began, stream_of(arguments), None);
    }
    result
}

#[cold]
#[inline(never)]
fn has_failed(id: FnId, real: usize, caller: usize, arguments: &dyn Arguments, result: i32) {
    let again = is_again(thread(), id, caller);
    if id.spec().records().is_some() && !again {
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
