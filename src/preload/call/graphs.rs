//! The steps after a call that made or changed an executable graph: read the memory that the nodes of the graph use, and record
//! the call only if some of that memory is gone. A failed call takes the steps of other failures ([`super::untracked`]).

use super::after::{self, CompletedCall};
use super::{Arguments, EnteredCall, caller_behind_patch};
use crate::driver::graphs;
use crate::fault::forward::ArgumentWords;
use crate::job::ledger::BeforeCall;
use crate::job::tombstones;
use crate::recorder::CallRecord;
use crate::resolve::needs::{self, HistoryCondition};
use crate::sys::guard::guarded;
use cupeer_spec::function::FnId;

/// Runs the steps after a call that created or changed an executable graph and succeeded.
#[inline(never)]
pub fn run_steps_after_success(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments, words: &ArgumentWords) {
    if !needs::has_met(HistoryCondition::Shared) {
        return;
    }
    let mut is_found = false;
    guarded(|| {
        if tombstones::is_scan_due() {
            tombstones::find_freed_by_owners();
        }
        // When a graph that allocates runs, its addresses have memory again, also for graphs that run after it.
        let exec = graphs::read_after_call(id, words, &mut tombstones::note_memory_again);
        is_found = tombstones::has_any() && exec.is_some_and(|exec| tombstones::is_gone_memory_in_graph(exec, false));
    });
    if is_found {
        record_call(id, entered, arguments);
    }
}

/// Records and judges the call, which has returned with success.
#[cold]
#[inline(never)]
fn record_call(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments) {
    let caller = caller_behind_patch(id, entered.caller);
    let mut record = CallRecord::new(id, arguments);
    record.begin(arguments, caller, true, false);
    if record.finish(arguments, 0, true) {
        let before = BeforeCall::default();
        let call = CompletedCall::without_fault(id, caller, 0, arguments, &before);
        guarded(|| after::run_steps_after_return(&record, &call));
    }
}
