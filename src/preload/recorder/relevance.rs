//! Decides whether to record a call of a function that is rarely recorded.

use super::arguments::{Arguments, Handle, Store};
use crate::driver::{batches, counted, kernels, parameters, places, queries};
use crate::job::{ledger, tombstones};
use crate::resolve::driver;
use crate::resolve::needs::{self, HistoryCondition};
use crate::sys::guard::guarded;
use core::cell::Cell;
use cupeer_model::Call;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::slot::MOST_ARGS;

/// Result of the decision whether a call is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Relevance {
    /// The call is not recorded.
    None,
    /// The call is recorded.
    Call,
    /// The call is recorded. It copies from the memory of the first device to that of the second.
    Copy {
        devices: [i32; 2],
        /// True if the copy uses memory that was freed, closed, or unmapped.
        is_gone: bool,
    },
}

impl Relevance {
    fn call_if(is_relevant: bool) -> Relevance {
        if is_relevant { Relevance::Call } else { Relevance::None }
    }
}

/// Returns whether, and why, a call of a rarely recorded function is recorded:
///
/// - Those that free or destroy matter for shared memory.
/// - Copies matter between devices.
/// - Copies and launches matter if they use memory that is gone.
/// - Functions of NVML matter in a process that uses CUDA. Looking at GPUs alone begins no record.
#[cold]
#[inline(never)]
pub fn relevance(id: FnId, store: &dyn Store, handle: &Cell<Option<Handle>>) -> Relevance {
    let spec = id.spec();
    if spec.library == Library::Nvml {
        return Relevance::call_if(driver::is_any_followed(Library::Cuda));
    }
    let allocates = spec.allocated_memory().is_some();
    let is_large = (allocates || spec.freed_memory_argument().is_some()) && counted::is_about_recorded_memory();
    if is_large || allocates {
        return Relevance::call_if(is_large);
    }
    if ledger::is_table_unaffected_by(id) {
        return Relevance::None;
    }
    let copied = spec.copies().filter(|_| may_cross_devices(id));
    let mut args = [0; MOST_ARGS];
    store.store(&mut Arguments::new(&mut args, handle), false);
    let mut is_relevant = false;
    if let Some(event) = spec.records() {
        guarded(|| is_relevant = ledger::has_opened(queries::numeric_argument(id, &args, event)));
        return Relevance::call_if(is_relevant);
    }
    let is_gone = spec.is_device_work() && uses_gone_memory(id, &args);
    if let Some(copied) = copied {
        let devices = places::devices_of_copy(id, &args, copied, ledger::device_of_opened_memory);
        return devices.map_or(Relevance::call_if(is_gone), |devices| Relevance::Copy { devices, is_gone });
    }
    if spec.is_device_work() {
        return Relevance::call_if(is_gone);
    }
    guarded(|| is_relevant = ledger::may_end_shared(id, &args));
    Relevance::call_if(is_relevant)
}

/// Returns true if a copy or a launch uses memory that is gone.
fn uses_gone_memory(id: FnId, args: &[u8; MOST_ARGS]) -> bool {
    if tombstones::is_scan_due() {
        guarded(tombstones::find_freed_by_owners);
    }
    if !tombstones::has_any() {
        return false;
    }
    let spec = id.spec();
    let mut is_gone = false;
    let mut check = |start, bytes| {
        if tombstones::first_gone_address(start, bytes).is_some() {
            guarded(|| is_gone |= tombstones::is_confirmed_gone(start, bytes));
        }
    };
    let call = Call { function: id, result: 0, args, shape: 0, elements: &[] };
    call.used_ranges().for_each(|(_, start, bytes)| check(start, bytes));
    if let Some(batch) = spec.batch() {
        batches::each_range(id, args, batch, &mut |_, start, bytes| check(start, bytes));
    }
    if let Some(launched) = spec.launches() {
        parameters::each_word(id, args, launched, &mut |_, word| check(word, 1));
        is_gone =
            is_gone && kernels::note_launch_with_gone_memory(queries::numeric_argument(id, args, launched.function));
    }
    if let Some(exec) = spec.replays() {
        is_gone = tombstones::is_gone_memory_in_graph(queries::numeric_argument(id, args, exec), true);
    }
    is_gone
}

/// Returns true if a copy can go from one device to another.
fn may_cross_devices(id: FnId) -> bool {
    needs::condition_of(id) == HistoryCondition::Nothing || needs::has_met(HistoryCondition::Reach)
}
