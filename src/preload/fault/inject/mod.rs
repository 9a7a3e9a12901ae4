//! Fault injection: the step that may change what the program sees.
//!
//! `loaded` is a plan with its counts in `scopes`. `live` follows the plans that are armed while the job is running: the `board` lists
//! them, and each has its `plan_file`. `arming` tracks the armed plans. `index` finds the faults that may concern a call, `facts` tests
//! their `conditions`, `counts` decides whether they fire, `decide` chooses their effect, `act` and `outputs` apply it, and `report`
//! reports it. The grammar and the definition of a fault are in `cupeer_spec::fault`. Denied pairs of devices are in
//! `crate::fault::deny`.
//!
//! The path of a call: if nothing is armed, it costs one load; if plans may be armed from outside, three more. It ends at the index of
//! its function if the arguments show that no fault can concern it. Otherwise it takes the slow path,
//! [`CallFaults::decide`], which tests everything.

mod act;
mod arming;
mod board;
mod conditions;
mod counts;
mod decide;
mod excuses;
mod facts;
mod handles;
mod index;
mod live;
mod loaded;
mod outputs;
mod plan_file;
mod private;
mod program;
mod report;
mod scopes;
mod shared;

pub use arming::{note_program_mark, release};
pub use decide::CallFaults;
pub use excuses::is_excused;
pub use index::ArmedPlans;
pub use live::arm_environment_plan;
pub use program::{arm_c, counts, disarm, write_counts};

use crate::fault::forward::ArgumentWords;
use crate::sys::every_call::{EVERY_CALL, UNREAD, has_unseen_plan_changes};
use core::sync::atomic::Ordering::Acquire;
use cupeer_spec::function::FnId;

/// Returns true if a plan or a denied pair is armed.
pub fn is_armed() -> bool {
    ![core::ptr::null_mut(), UNREAD].contains(&EVERY_CALL.armed.load(Acquire))
}

/// Returns true if a fault, or a denied pair, may concern a call of a function with these arguments.
#[inline(always)]
pub fn may_concern(id: FnId, words: &dyn Fn(&mut ArgumentWords)) -> bool {
    let armed = EVERY_CALL.armed.load(Acquire);
    if armed == UNREAD {
        return true;
    }
    // SAFETY: what was published there is never freed.
    match unsafe { armed.cast::<ArmedPlans>().as_ref() } {
        None => false,
        Some(armed) => has_unseen_plan_changes() || armed.faults_of(id).is_some_and(|index| index.may_concern(words)),
    }
}
