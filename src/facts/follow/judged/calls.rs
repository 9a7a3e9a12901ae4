//! Findings of a call when it is read: those that its process recorded, and those that follow from the earlier calls
//! of the process.
//!
//! It selects the calls to examine, and decides which findings stand. Facts about other processes are known only after
//! all of them have been read: [`crate::infer`]. An injected result is never judged.

use super::MadeCall;
use super::world::{AtCall, Sight};
use cupeer_record::Finding;
use cupeer_report::judged::judged;
use cupeer_rules::decide::{self, Violation};
use cupeer_rules::{Found, RULES};
use cupeer_spec::function::FnId;
use std::sync::LazyLock;

/// Returns true if a call of a function can break a rule although it succeeds, as far as its process tells.
#[inline]
pub fn may_break(function: FnId) -> bool {
    static FUNCTIONS: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let rules = || RULES.iter().filter(|rule| rule.found == Found::InSuccesses);
        FnId::all().map(|function| rules().any(|rule| rule.functions().contains(&function))).collect()
    });
    FUNCTIONS[function as usize]
}

/// Decides about a call, by what its process did; hands over what is found.
pub fn look(
    made: &MadeCall,
    sight: Sight,
    driver_knows_more: bool,
    report: &mut dyn FnMut(&Violation<()>),
) -> bool {
    let Some(result) = made.result().filter(|_| !made.call.injected) else { return false };
    let args = made.call.arguments();
    let call = judged(made.function, result, &args, made.call);
    let mut is_found = false;
    decide::look(&call, &AtCall { made, sight }, &mut |found| {
        let is_kept = match found.reason.rule().spec().found {
            // The calls of others may show something else.
            Found::Afterwards => false,
            Found::InStates => !driver_knows_more,
            _ => true,
        };
        if is_kept {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId::*;

    #[test]
    fn successes_are_looked_at_if_a_rule_is_about_them() {
        for function in [cuIpcGetMemHandle, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuCtxEnablePeerAccess]
        {
            assert!(may_break(function), "{}", function.spec().name());
        }
        // Programs call these most, and only the library knows the memory that they use.
        for function in FnId::all().filter(|function| function.spec().is_work()) {
            assert!(!may_break(function), "{}", function.spec().name());
        }
    }
}
