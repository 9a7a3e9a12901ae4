//! Which functions' calls run through `call`: those that the settings name, and those that plans of faults look at which the
//! program arms itself.

use super::{driver, linked};
use crate::settings;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use cupeer_spec::function::{FUNCTION_COUNT, FnId, Library};
use cupeer_spec::selector::FunctionSet;

/// How many of these plans look at each function.
static PLANS: [AtomicU32; FUNCTION_COUNT] = [const { AtomicU32::new(0) }; FUNCTION_COUNT];

/// Whether calls of a function run through `call`.
pub fn is_traced(id: FnId) -> bool {
    settings::get().is_traced(id) || PLANS[id as usize].load(SeqCst) > 0
}

/// Whether calls that go past us are missed: of the driver always, of NVML where any of its functions is traced. Of the
/// runtime never: the driver's calls behind it are seen.
pub fn is_missed(library: Library) -> bool {
    let is_wanted = || FnId::all().any(|id| id.spec().library == library && is_traced(id));
    match library {
        Library::Cuda => true,
        Library::Nvml => is_wanted(),
        Library::Cudart => false,
    }
}

/// Lets calls of some functions come to us. Called when a plan that looks at them is armed.
pub fn add(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_add(1, SeqCst));
}

/// Lets them go straight on, where nobody else looks at them. Called when the plan is not armed any more.
pub fn remove(functions: &FunctionSet) {
    change(functions, |plans| plans.fetch_sub(1, SeqCst));
}

fn change(functions: &FunctionSet, change: impl Fn(&AtomicU32) -> u32) {
    for id in FnId::all().filter(|id| functions.contains(*id as usize)) {
        change(&PLANS[id as usize]);
    }
    // Whoever publishes another way to a function from here on sees that.
    fence(SeqCst);
    for id in FnId::all() {
        driver::trace(id);
        linked::trace(id);
    }
}
