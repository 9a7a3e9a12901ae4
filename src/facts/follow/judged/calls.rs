//! Findings of a call when it is read: those that its process recorded, and those that follow from the earlier calls
//! of the process.
//!
//! It selects the calls to examine, and decides which findings stand. Facts about other processes are known only after
//! all of them have been read: [`crate::infer`]. An injected result is never judged.

use super::MadeCall;
use super::world::{AtCall, Sight};
use crate::follow::ledger::follow::inside;
use cupeer_record::{Call, Finding};
use cupeer_report::judged::judged;
use cupeer_rules::Rule;
use cupeer_rules::decide::{self, Violation};
use cupeer_spec::effect::{Demand, Object};
use cupeer_spec::function::{FnId, Group};

/// Whether a call that succeeded may break a rule, as far as its process tells.
#[inline]
pub fn may_break(function: FnId, call: &Call) -> bool {
    let spec = function.spec();
    let is_odd =
        |demand: Demand| call.number(demand.by).is_some_and(|flags| flags != u64::from(demand.value));
    spec.is_in(Group::Enable)
        || spec.is_in(Group::Release)
        || spec.is_in(Group::Open) && spec.demands().is_some_and(is_odd)
        || spec.opens().is_some_and(|shared| shared.object == Object::Pointer)
        || spec.is_in(Group::Export) && inside(call) != 0
}

/// Decides about a call, by what its process did; hands over what is found.
pub fn look(
    made: &MadeCall,
    sight: Sight,
    is_forked: bool,
    driver_knows_more: bool,
    report: &mut dyn FnMut(&Violation<()>),
) -> bool {
    let Some(result) = made.result().filter(|_| !made.call.injected) else { return false };
    let args = made.call.arguments();
    let call = judged(made.function, result, &args, made.call);
    let mut is_found = false;
    decide::look(&call, &AtCall { made, sight, is_forked }, &mut |found| {
        let rule = found.reason.rule();
        // What is said of a handle that could not be opened depends on what others did.
        let opened = made.function.spec().opens().filter(|opened| !opened.object.is_granted());
        let is_early = result != 0 && opened.is_some() && rule >= Rule::IpcOpenInExportingProcess;
        // Where the driver did what the process was told had failed, the state of things is news to the process.
        let is_news = driver_knows_more
            && matches!(rule, Rule::PeerAlreadyEnabled | Rule::PeerNotEnabled | Rule::PeerUnreachable);
        if !is_early && !is_news {
            is_found = true;
            report(found);
        }
    });
    is_found
}

/// A finding as a record has it; how bad it is depends on the caller, who is not known yet.
pub fn finding<O>(found: &Violation<O>) -> Finding {
    let rule = found.reason.rule().spec();
    Finding {
        confidence: found.confidence,
        severity: rule.severity,
        argument: found.argument.map(|argument| argument as u8),
        rule: rule.name().into(),
        message: found.reason.to_string(),
        hint: found.reason.hint().into(),
        objects: Vec::new(),
    }
}
