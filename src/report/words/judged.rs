//! A recorded call, as the rules and the handle tables judge it.

use cupeer_record::{Call, FiredFault};
use cupeer_rules::decide;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::slot::MOST_ARGS;

/// Returns a call with its result, in the form that rules judge.
pub fn as_judged_call<'a>(function: FnId, result: i32, args: &'a [u8; MOST_ARGS], call: &'a Call) -> decide::Call<'a> {
    let elements = call.details.elements.first().map_or(&[][..], |(_, bytes)| bytes);
    decide::Call { function, result, args, shape: call.slot.caller, elements }
}

/// Returns true if the driver completed the call although the program received a failure.
pub fn is_completed_anyway(call: &Call) -> bool {
    call.injected && call.details.hits.iter().any(FiredFault::is_completed_anyway)
}

/// Returns true if a function belongs to the CUDA runtime.
pub fn is_runtime(function: Option<FnId>) -> bool {
    function.is_some_and(|function| function.spec().library == Library::Cudart)
}
