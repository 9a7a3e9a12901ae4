//! Checks the rules at the call: after the driver returned, in the thread of the call.
//!
//! `world` and `system` provide the facts that are known at the call. `emit` and `say` handle findings, and `explain` handles failures that
//! violate no rule. The rules, their texts, and their decisions are in `cupeer_rules`.
//!
//! The failure of a probe is not a finding. If only the next calls of the thread can show that a call was a probe, its finding is recorded, and
//! `deferred` delays all other output. The report knows the later calls, and keeps or drops the finding.
//!
//! Invariants: nothing here changes what the program sees. A call that succeeded is examined only if it exports, opens, enables,
//! or ends an object, or uses memory that is gone.

pub mod c_types;
mod deferred;
mod emit;
mod explain;
mod say;
mod system;
mod world;

use crate::sys::caller::Caller;
use cupeer_rules::probes::Probe;
use emit::Delivery;

pub use emit::{print_deferred, set_listener};
pub use world::CheckedCall;

/// Returns true if a rule explains why a call failed. Does not report the finding.
#[cold]
#[inline(never)]
pub fn is_failure_explained(call: &CheckedCall) -> bool {
    cupeer_rules::decide::check_call(&call.call_for_rules(), call, &mut |_| {})
}

/// Judges a call that returned, and reports the findings.
#[cold]
#[inline(never)]
pub fn judge(call: &CheckedCall) {
    let judged = call.call_for_rules();
    let library = || Caller::of(call.caller, call.id, false).library;
    let probe = if call.result != 0 { Probe::of(&judged, library) } else { None };
    deferred::drop_findings_of_probe(&judged);
    let delivery = match probe.map(|probe| probe.follow_up) {
        None => Delivery::Now,
        Some(None) => return,
        Some(Some(follow_up)) => Delivery::AtExit((follow_up, follow_up.subject(&judged))),
    };
    let is_explained =
        cupeer_rules::decide::check_call(&judged, call, &mut |found| emit::emit_violation(call, found, delivery));
    if call.result != 0 && !is_explained && !call.id.spec().is_after_shutdown(call.result) {
        explain::report_unexplained_failure(call, delivery);
    }
}
