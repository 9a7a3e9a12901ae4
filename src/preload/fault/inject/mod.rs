//! Fault injection: the one step that may change what the program sees.
//!
//! `loaded` is a plan with what it has counted in `scopes`. `arming` tracks the armed plans, `index` finds the faults
//! that may concern a call, `facts` tests their `conditions`, `counts` decides whether they fire, `decide` chooses what
//! happens to the call, `act` and `outputs` carry it out, and `told` reports it. The grammar and the definition of a fault are in `cupeer_spec::fault`. Denied pairs of
//! devices are in `crate::fault::deny`.
//!
//! The path of a call: if nothing is armed, it costs one load. If the index of its function shows from the arguments
//! that no fault can concern it, it ends there. Otherwise, it takes the slow path, [`Fault::of`], which tests
//! everything.

mod act;
mod arming;
mod conditions;
mod counts;
mod decide;
mod excuses;
mod facts;
mod handles;
mod index;
mod loaded;
mod outputs;
mod private;
mod program;
mod scopes;
mod shared;
mod told;

pub use arming::{counts, disarm, load, marked, release};
pub use decide::Fault;
pub use excuses::is_excused;
pub use index::Armed;
pub use program::{arm_c, put_counts};

use crate::fault::forward::ArgumentWords;
use crate::sys::every_call::{EVERY_CALL, UNREAD};
use core::sync::atomic::Ordering::Acquire;
use cupeer_spec::function::FnId;

/// Whether a plan is armed, or it is not known yet.
pub fn is_armed() -> bool {
    !EVERY_CALL.armed.load(Acquire).is_null()
}

/// Whether a rule, or a denied pair, may concern a call of a function with these arguments.
#[inline(always)]
pub fn may_concern(id: FnId, words: &dyn Fn(&mut ArgumentWords)) -> bool {
    let armed = EVERY_CALL.armed.load(Acquire);
    if armed == UNREAD {
        return true;
    }
    // SAFETY: what was published there is never freed.
    match unsafe { armed.cast::<Armed>().as_ref() }.and_then(|armed| armed.index(id)) {
        None => false,
        Some(index) => index.may_concern(words),
    }
}
