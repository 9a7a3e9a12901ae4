//! Sends calls of functions through `call`, and past it again: when the process does what they need (`needs`), and when
//! plans of faults are armed.

use super::needs::{self, DONE, EARLY, EARLY_LEFT, Needs, PLANS, has_done};
use super::{driver, linked, used};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_spec::function::FnId;
use cupeer_spec::selector::FunctionSet;

/// Notes that the process has done something that calls of some functions need.
pub fn wake(done: Needs) {
    if !has_done(done) {
        DONE[done as usize].store(true, SeqCst);
        route_anew();
    }
}

/// Counts a call that is looked at because memory may be shared after it. After the last one, they go straight on.
pub fn count_early() {
    if EARLY_LEFT.fetch_sub(1, SeqCst) == 1 {
        route_anew();
    }
}

/// Lets such calls come to us again.
pub fn look_early() {
    if EARLY_LEFT.swap(EARLY, SeqCst) <= 0 {
        route_anew();
    }
}

/// Lets calls of some functions come to us. Called when a plan that looks at them is armed.
pub fn add(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_add(1, SeqCst));
}

/// Lets them go straight on, where nobody else looks at them. Called when the plan is not armed any more.
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
    // Whoever publishes another way to a function from here on sees that.
    fence(SeqCst);
    FnId::all().for_each(route);
}

/// Notes a call of a function, the first of which came to us because it is the first one.
#[inline(always)]
pub fn note(id: FnId) {
    if used::note(id) {
        route(id);
    }
}

/// Lets calls of a function come to us, or go straight on, as is needed now.
fn route(id: FnId) {
    needs::look_again(id);
    driver::trace(id);
    linked::trace(id);
}
