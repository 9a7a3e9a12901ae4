//! Results of calls: their names, their counts, and which of them are harmless.

use crate::model::Codes;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::results::{Result, ResultSpec};

/// Returns the name of a function's result; its number if it has no name. For an unknown function, uses the
/// driver's names.
pub fn result_name(function: Option<FnId>, result: i32) -> String {
    let library = function.map_or(Library::Cuda, |function| function.spec().library);
    library.result(result).map(ResultSpec::name).map_or_else(|| result.to_string(), str::to_owned)
}

/// Adds a number of occurrences of a result to counts, which are in the order of the first occurrences.
pub fn add_count(counts: &mut Vec<(i32, u64)>, result: i32, times: u64) {
    match counts.iter_mut().find(|(known, _)| *known == result) {
        Some((_, count)) => *count = count.saturating_add(times),
        None => {
            if counts.capacity() == 0 {
                counts.reserve_exact(1);
            }
            counts.push((result, times));
        }
    }
}

/// Returns counts of a function's results by the names of the results.
pub fn name_results(function: Option<FnId>, counts: &[(i32, u64)]) -> Codes {
    counts.iter().map(|(result, count)| (result_name(function, *result), *count)).collect()
}

/// Returns true if working programs have this failure, too. They enable access that is already enabled, ask
/// for functions that an older driver lacks or for features that a device lacks, and at exit release what the
/// driver has already released.
pub fn is_usual(function: Option<FnId>, result: i32) -> bool {
    let is_part = |function: FnId| function.spec().is_frequent() || function.spec().is_after_shutdown(result);
    result == Result::PEER_ACCESS_ALREADY_ENABLED as i32 || function.is_some_and(is_part)
}
