//! The settings of faults: a plan, and whether it is only a dry run.

use super::{read_flag, read_text};
use cupeer_spec::env;
use cupeer_spec::fault::{Plan, Rule};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::selector::FunctionSet;

/// Reads the variables. A plan that is not understood is none: better no fault than one that nobody asked for.
pub(super) fn from_environment(complaints: &mut Vec<String>) -> (Option<Plan>, bool) {
    let plan = read_text(complaints, env::INJECT, "nothing is injected", |text| Plan::parse("inject", text));
    // Whoever has set it wants no faults.
    let is_dry = read_flag(complaints, env::DRY_RUN, true);
    (plan.filter(|plan| !plan.rules.is_empty()), is_dry)
}

/// The functions that rules of a plan look at: those that they name, and where one looks at the calls before, or at the
/// handles of others, those as well.
pub fn functions(plan: &Plan) -> FunctionSet {
    let mut functions = FunctionSet::all(false);
    let (follows, keeps) = (plan.follows(), plan.keeps_handles());
    for id in FnId::all() {
        let named = plan.rules.iter().any(|rule| rule.functions.contains(id as usize));
        let is_kept = keeps && id.spec().args().iter().any(|arg| arg.is_handle());
        functions.set(id as usize, named || follows && is_followed(id) || is_kept);
    }
    functions
}

/// Whether a call counts as one where rules look at what was called before: look-ups, questions, copies and allocations
/// from pools are made by the hundred, by whatever library, and the driver is initialized before all else.
pub fn is_followed(id: FnId) -> bool {
    let function = id.spec();
    !function.is_plentiful() && !function.is_work() && !function.is_in(Group::Init)
}

/// How much memory it takes to read a plan with so many bytes: no rule is shorter than `*:delay=1s;`, what holds them is
/// doubled and copied when it is full, and a number of a list has two bytes.
pub fn memory_of(length: usize) -> usize {
    const OF_ONE_BYTE: usize = (6 * size_of::<Rule>() + 256) / "*:delay=1s;".len();
    128 * 1024 + OF_ONE_BYTE * length
}
