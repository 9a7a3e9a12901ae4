//! What the environment asks of faults: a plan, and whether it is only tried.

use super::{refusal, value};
use cupeer_spec::env;
use cupeer_spec::fault::Plan;
use cupeer_spec::function::FnId;
use cupeer_spec::selector::FunctionSet;

/// Reads the variables. A plan that is not understood is none: better no fault than one that nobody asked for.
pub(super) fn from_environment(complaints: &mut Vec<String>) -> (Option<Plan>, bool) {
    let plan = value(env::INJECT).and_then(|text| {
        let read = text.to_str().map_err(|_| "it is not UTF-8".to_owned());
        let read = read.and_then(|text| Plan::parse("inject", text).map_err(|error| error.to_string()));
        read.map_err(|why| {
            complaints.push(refusal(env::INJECT, text, &format!("{why}; nothing is injected")))
        })
        .ok()
    });
    let is_dry = value(env::DRY_RUN).is_some_and(|value| match value.to_bytes() {
        b"1" => true,
        b"0" => false,
        _ => {
            // Whoever has set it wants no faults.
            complaints.push(refusal(env::DRY_RUN, value, "must be 0 or 1; using 1"));
            true
        }
    });
    (plan.filter(|plan| !plan.rules.is_empty()), is_dry)
}

/// The functions that rules of a plan look at: those that they name, and where one looks at the calls before, or at the
/// handles of others, those as well.
pub fn functions(plan: &Plan) -> FunctionSet {
    let mut functions = FunctionSet::all(false);
    let (follows, keeps) = (plan.follows(), plan.keeps_handles());
    for id in FnId::all() {
        let named = plan.rules.iter().any(|rule| rule.functions.contains(id as usize));
        let is_kept = keeps && id.spec().args.iter().any(|arg| arg.is_handle());
        functions.set(id as usize, named || follows && is_followed(id) || is_kept);
    }
    functions
}

/// Whether a call counts as one where rules look at what was called before: look-ups and questions are made by the
/// hundred, by whatever library.
pub fn is_followed(id: FnId) -> bool {
    !id.spec().is_frequent()
}

/// How much memory it takes to read a plan with so many bytes: no rule is shorter than `cuInit:exit=1`, and a number of a
/// list has two bytes.
pub fn memory_of(length: usize) -> usize {
    const OF_ONE_BYTE: usize = 80;
    128 * 1024 + OF_ONE_BYTE * length
}
