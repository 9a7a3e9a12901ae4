//! Checks the rules at the call: after the driver returned, in the thread that called.
//!
//! `world` and `system` provide the facts that are known at the call. `emit` and `say` handle findings, and `explain`
//! handles failures that break no rule. The rules, their texts, and their decisions are in `cupeer_rules`.
//!
//! The failure of a probe is not a finding. If only the next calls of the thread can show that a call was a probe, its
//! finding goes into the record, and `held` keeps it from everybody else. The report knows the later calls, and keeps
//! or drops the finding.
//!
//! Invariants: nothing here changes what the program sees. A successful call is examined only if it exports, opens,
//! enables, or ends something, or uses memory that is gone.

pub mod c_types;
mod emit;
mod explain;
mod held;
mod say;
mod system;
mod world;

use crate::sys::caller::Caller;
use cupeer_rules::probes::Probe;
use emit::Heard;

pub use emit::{listen, say_held};
pub use world::Call;

/// Whether a rule explains why a call failed. Nobody hears of it.
#[cold]
#[inline(never)]
pub fn is_explained(call: &Call) -> bool {
    cupeer_rules::decide::look(&call.judged(), call, &mut |_| {})
}

/// Looks at a call that has returned. For where rules are checked.
#[cold]
#[inline(never)]
pub fn look(call: &Call) {
    let judged = call.judged();
    let library = || Caller::of(call.caller, call.id, false).library;
    let probe = if call.result != 0 { Probe::of(&judged, library) } else { None };
    held::answer(&judged);
    let heard = match probe.map(Probe::follow_up) {
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
