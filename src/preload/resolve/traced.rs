//! Directs calls of functions through `call`, and past it again: when the process meets their conditions (`needs`),
//! and when fault plans are armed.

use super::needs::{self, DONE, EARLY, EARLY_LEFT, HistoryCondition, PLANS, has_met};
use super::{driver, linked, used};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_spec::function::FnId;
use cupeer_spec::selector::FunctionSet;

/// Notes that the process meets a condition, and directs the calls that need it through `call`.
pub fn note_condition_met(done: HistoryCondition) {
    if !has_met(done) {
        DONE[done as usize].store(true, SeqCst);
        route_anew();
    }
}

/// Counts a call that is examined because memory may be shared after it. After the last of these calls, such calls go straight to
/// the driver.
pub fn count_early() {
    if EARLY_LEFT.fetch_sub(1, SeqCst) == 1 {
        route_anew();
    }
}

/// Directs calls that use memory or order work through `call` again, until [`EARLY`] of them were examined.
pub fn restart_early_examination() {
    if EARLY_LEFT.swap(EARLY, SeqCst) <= 0 {
        route_anew();
    }
}

/// Directs calls of some functions through `call`. Called when a plan that tests these functions is armed.
pub fn add_plan(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_add(1, SeqCst));
}

/// Directs calls of some functions straight on, unless another need remains. Called when a plan that tests these functions is
/// disarmed.
pub fn remove_plan(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_sub(1, SeqCst));
}

fn change(functions: &FunctionSet, change: impl Fn(&AtomicU32) -> u32) {
    for id in FnId::all().filter(|id| functions.contains(*id as usize)) {
        change(&PLANS[id as usize]);
    }
    route_anew();
}

/// Determines for each function again whether its calls run through `call`. Called when a need has changed.
pub fn route_anew() {
    // A thread that publishes another route to a function after this sees the change.
    fence(SeqCst);
    FnId::all().for_each(route);
}

/// Notes a call of a function. If it is the first call, determines again whether later calls must come to us.
#[inline(always)]
pub fn note(id: FnId) {
    if used::note(id) {
        route(id);
    }
}

/// Directs calls of a function through `call` or straight on, as is needed now.
fn route(id: FnId) {
    needs::update_reason(id);
    driver::aim_looked_up_entry(id);
    linked::aim_linked_entry(id);
}
