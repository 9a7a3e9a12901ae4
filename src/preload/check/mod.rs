//! The rules, decided at the call: after the driver has answered, in the thread that called.
//!
//! What belongs here: what is known at the call (`world`, and `space` of virtual memory), and what becomes of a finding (`emit` and `say`), or of a
//! failure that breaks no rule (`explain`). What does not: what a rule is, every word of it, and how it is decided, which
//! is in `cupeer_rules`.
//!
//! The answer to a probe is no failure. Where only what the thread does next shows that it was one, the finding goes into the
//! record, and is held back from everybody else (`held`); the report, which knows what came next, keeps it or takes it back.
//!
//! Nothing here changes what the program sees. A successful call is examined only if it exports, opens, enables or ends
//! something.

pub mod c_types;
mod emit;
mod explain;
mod held;
mod say;
mod space;
mod world;

use crate::sys::caller::Caller;
use cupeer_rules::probes::{Probe, is_one_of};
use emit::Heard;

pub use emit::{listen, say_held};
pub use space::note;
pub use world::Call;

/// Looks at a call that has returned. For where rules are checked.
#[cold]
#[inline(never)]
pub fn look(call: &Call) {
    let judged = call.judged();
    let is_by = |names: &[&str]| is_one_of(Caller::of(call.caller, call.id, false).library, names);
    let probe = if call.result != 0 { Probe::of(&judged, is_by) } else { None };
    held::answer(&judged);
    let heard = match probe.map(|probe| probe.follow_up) {
        None => Heard::Now,
        Some(None) => return,
        Some(Some(follow_up)) => Heard::Later((follow_up, follow_up.about(&judged))),
    };
    let is_explained =
        cupeer_rules::decide::look(&judged, call, &mut |found| emit::finding(call, found, heard));
    if call.result != 0 && !is_explained && !call.id.spec().is_over(call.result) {
        explain::failure(call, heard);
    }
}
