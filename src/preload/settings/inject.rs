//! The settings of faults: the plan, and the dry run.

use super::{read_flag, read_text};
use cupeer_spec::env;
use cupeer_spec::fault::{FaultPlan, PlannedFault};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::selector::FunctionSet;

/// Reads the fault plan and the flag of the dry run from environment variables. If the plan is not valid, there are no faults.
pub(super) fn from_environment(complaints: &mut Vec<String>) -> (Option<FaultPlan>, bool) {
    let plan = read_text(complaints, env::INJECT, "nothing is injected", |text| FaultPlan::parse("inject", text));
    // A value that is not understood counts as a dry run, because it was set to avoid faults.
    let is_dry = read_flag(complaints, env::DRY_RUN, true);
    (plan.filter(|plan| !plan.rules.is_empty()), is_dry)
}

/// Returns the functions whose calls a plan examines: the functions that the plan names, and if a fault depends on earlier calls
/// or on handles, the functions that make these calls or take handles.
pub fn examined_functions(plan: &FaultPlan) -> FunctionSet {
    let mut functions = FunctionSet::all(false);
    let (follows, keeps) = (plan.needs_every_call(), plan.needs_stored_handles());
    for id in FnId::all() {
        let named = plan.rules.iter().any(|rule| rule.functions.contains(id as usize));
        let has_handle = keeps && id.spec().args().iter().any(|arg| arg.is_ipc_handle());
        functions.set(id as usize, named || follows && is_counted_as_earlier(id) || has_handle);
    }
    functions
}

/// Returns true if calls of a function count as earlier calls, for faults that depend on these. Libraries make hundreds of
/// lookups, queries, copies, and allocations from pools, and every program initializes the driver first, so calls of such
/// functions do not count.
pub fn is_counted_as_earlier(id: FnId) -> bool {
    let function = id.spec();
    !function.is_recorded_on_request() && !function.is_device_work() && !function.is_in(Group::Init)
}

/// Returns the memory in bytes that reading a plan with a text of `length` bytes takes. No fault is shorter than `*:delay=1s;`,
/// the list of faults doubles and is copied when it is full, and a number in a list has at least two bytes.
pub fn memory_of(length: usize) -> usize {
    const OF_ONE_BYTE: usize = (6 * size_of::<PlannedFault>() + 256) / "*:delay=1s;".len();
    128 * 1024 + OF_ONE_BYTE * length
}
