//! Results of calls: their names, their counts, and which of them are no reason to worry.

use super::model::Codes;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::results::{self, Result};

/// The name of a result; its number where it has none.
pub fn name(result: i32) -> String {
    results::spec(result).map_or_else(|| result.to_string(), |spec| spec.name().to_owned())
}

/// Adds to a small list of counts.
pub fn count(counts: &mut Vec<(i32, u64)>, result: i32, times: u64) {
    match counts.iter_mut().find(|(known, _)| *known == result) {
        Some((_, count)) => *count += times,
        None => {
            if counts.capacity() == 0 {
                counts.reserve_exact(1);
            }
            counts.push((result, times));
        }
    }
}

/// The counts by the names of the results.
pub fn named(counts: &[(i32, u64)]) -> Codes {
    counts.iter().map(|(result, count)| (name(*result), *count)).collect()
}

/// Whether a failure is part of what programs do when all is well: to switch on what is on already, and to ask
/// for functions that an older driver does not have.
pub fn is_usual(function: Option<FnId>, result: i32) -> bool {
    result == Result::PEER_ACCESS_ALREADY_ENABLED as i32
        || function.is_some_and(|function| function.spec().is_in(Group::Lookup))
}
