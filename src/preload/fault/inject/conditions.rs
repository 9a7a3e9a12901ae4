//! The conditions of faults: the argument that one looks at, and whether a number or a text is one of its values.

use cupeer_spec::fault::{ConditionKey, ConditionValues, FaultCondition};
use cupeer_spec::function::FnSpec;
use cupeer_spec::names::matches_pattern;

/// Returns the index of the one argument that decides a condition; `None` if the condition needs other facts.
pub fn deciding_argument(function: &FnSpec, condition: &FaultCondition) -> Option<usize> {
    let is_device = |index: usize| {
        let devices = || function.args().iter().enumerate().filter(|(_, arg)| arg.type_word() == "CUdevice");
        devices().nth(index).map(|(index, _)| index)
    };
    match (&condition.key, &condition.values) {
        (ConditionKey::Dev, ConditionValues::Numbers(_)) => is_device(0),
        (ConditionKey::Peer, ConditionValues::Numbers(_)) => is_device(1),
        (ConditionKey::Size, ConditionValues::Numbers(_)) => function.size_argument(),
        (ConditionKey::Argument(name), ConditionValues::Numbers(_)) => {
            // The value of an output is known only after the call.
            let argument = function.find_argument(name)?;
            let is_number = !argument.1.is_ipc_handle() && argument.1.count_argument().is_none();
            is_number.then_some(argument.0)
        }
        _ => None,
    }
}

/// Returns true if a number meets a condition: the number is among its values, or is not for a negated condition.
pub fn is_met_by_number(condition: &FaultCondition, number: u64) -> bool {
    let ConditionValues::Numbers(ranges) = &condition.values else { return false };
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) != condition.not
}

/// Returns true if a text meets a condition: the text matches one of its patterns, or matches none for a negated condition.
pub fn is_met_by_text(condition: &FaultCondition, text: &[u8]) -> bool {
    let ConditionValues::Patterns(patterns) = &condition.values else { return false };
    patterns.iter().any(|pattern| matches_pattern(pattern.as_bytes(), text)) != condition.not
}
