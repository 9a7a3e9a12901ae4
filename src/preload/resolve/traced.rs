//! Directs calls of functions through `call`, and past it again: when the process meets their conditions (`needs`),
//! and when fault plans are armed.

use super::needs::{self, DONE, EARLY, EARLY_LEFT, Needs, PLANS, has_done};
use super::{driver, linked, used};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_spec::function::FnId;
use cupeer_spec::selector::FunctionSet;

/// Notes that the process meets a condition that calls of some functions need.
pub fn wake(done: Needs) {
    if !has_done(done) {
        DONE[done as usize].store(true, SeqCst);
        route_anew();
    }
}

/// Counts a call that is examined because memory may be shared after it. After the last one, such calls go straight
/// on.
pub fn count_early() {
    if EARLY_LEFT.fetch_sub(1, SeqCst) == 1 {
        route_anew();
    }
}

/// Directs such calls to us again.
pub fn watch_early() {
    if EARLY_LEFT.swap(EARLY, SeqCst) <= 0 {
        route_anew();
    }
}

/// Directs calls of some functions to us. Called when a plan that tests them is armed.
pub fn add(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_add(1, SeqCst));
}

/// Directs them straight on unless something else needs them. Called when the plan is disarmed.
pub fn remove(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_sub(1, SeqCst));
}

fn change(functions: &FunctionSet, change: impl Fn(&AtomicU32) -> u32) {
    for id in FnId::all().filter(|id| functions.contains(*id as usize)) {
        change(&PLANS[id as usize]);
    }
    route_anew();
}

/// Decides anew whether calls come to us: when the process begins to follow plans that are armed while the job is running.
pub fn route_anew() {
    // A thread that publishes another route to a function from here on sees the change.
    fence(SeqCst);
    FnId::all().for_each(route);
}

/// Notes a call of a function. If it is the first one, it came to us only for that.
#[inline(always)]
pub fn note(id: FnId) {
    if used::note(id) {
        route(id);
    }
}

/// Directs calls of a function to us or straight on, as is needed now.
fn route(id: FnId) {
    needs::decide_again(id);
    driver::trace(id);
    linked::trace(id);
}
