//! Counters of the simulated driver, for tests. A real driver has no such function.

use super::boundary::{CALLS, catch_panic};
use crate::engine::process;
use core::ffi::{CStr, c_char, c_int};
use std::sync::atomic::Ordering::Relaxed;

/// Returns a count of this process: `calls` that reached the driver, `memory` and `events` of other processes that are open
/// by legacy IPC, `peers` to which contexts have access, `allocations` that must still be released, `mappings` of them, `pools`
/// that must still be destroyed, or `pointers` imported into them. Returns -1 for any other name, and before `cuInit`.
///
/// # Safety
///
/// `what` is null or ends in NUL.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn cupeer_sim_ledger(what: *const c_char) -> c_int {
    if what.is_null() {
        return -1;
    }
    // SAFETY: not null, and the caller's text ends in NUL.
    let what = unsafe { CStr::from_ptr(what) };
    let count = catch_panic(|| {
        let Ok(driver) = process::enter() else { return None };
        match what.to_bytes() {
            b"calls" => usize::try_from(CALLS.load(Relaxed)).ok(),
            b"memory" => Some(driver.imports.count_open()),
            b"events" => Some(driver.events.count_imported()),
            b"peers" => Some(driver.contexts.count_peers()),
            b"allocations" => Some(driver.vmm.count_references()),
            b"mappings" => Some(driver.vmm.count_mappings()),
            b"pools" => Some(driver.memory.pools.count_destroys_left()),
            b"pointers" => Some(driver.memory.count_pool_imports()),
            _ => None,
        }
    });
    count.flatten().and_then(|count| count.try_into().ok()).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_counters_are_refused() {
        for what in [core::ptr::null(), c"".as_ptr(), c"devices".as_ptr(), c"calls ".as_ptr()] {
            // SAFETY: null, or a text that ends in NUL.
            assert_eq!(unsafe { cupeer_sim_ledger(what) }, -1);
        }
    }
}
