//! The conditions of faults: the argument that one looks at, and whether a number or a text is one of its values.

use cupeer_spec::fault::{Condition, Key, Values};
use cupeer_spec::function::FnSpec;
use cupeer_spec::names::matches;

/// Returns the index of the one argument that decides a condition; `None` if the condition needs other facts.
pub fn argument_of(function: &FnSpec, condition: &Condition) -> Option<usize> {
    let is_device = |index: usize| {
        let devices = || function.args().iter().enumerate().filter(|(_, arg)| arg.type_word() == "CUdevice");
        devices().nth(index).map(|(index, _)| index)
    };
    match (&condition.key, &condition.values) {
        (Key::Dev, Values::Numbers(_)) => is_device(0),
        (Key::Peer, Values::Numbers(_)) => is_device(1),
        (Key::Size, Values::Numbers(_)) => function.sized_by(),
        (Key::Argument(name), Values::Numbers(_)) => {
            // The value of an output is known only after the call.
            let argument = function.argument(name)?;
            let is_number = !argument.1.is_handle() && argument.1.count().is_none();
            is_number.then_some(argument.0)
        }
        _ => None,
    }
}

/// Returns true if a number meets a condition: the number is among its values, or is not for a negated condition.
pub fn holds(condition: &Condition, number: u64) -> bool {
    let Values::Numbers(ranges) = &condition.values else { return false };
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) != condition.not
}

/// Returns true if a text meets a condition: the text matches one of its patterns, or matches none for a negated condition.
pub fn is_like(condition: &Condition, text: &[u8]) -> bool {
    let Values::Patterns(patterns) = &condition.values else { return false };
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), text)) != condition.not
}
