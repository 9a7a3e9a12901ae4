//! The steps after a call that made or changed an executable graph: read what its nodes use, and if that is gone, record the call,
//! which is not recorded otherwise. A call that failed takes the steps of other failures ([`super::unseen`]).

use super::{Arguments, Entered, Rest, behind_patch};
use crate::driver::graphs;
use crate::driver::log::DriverLog;
use crate::fault::forward::ArgumentWords;
use crate::job::gone;
use crate::recorder::Recorded;
use crate::resolve::needs::{self, Needs};
use crate::sys::guard::guarded;
use cupeer_spec::function::FnId;

/// Runs these steps after a success.
#[inline(never)]
pub fn follow(id: FnId, entered: &Entered, arguments: &dyn Arguments, words: &ArgumentWords) {
    if !needs::has_done(Needs::Shared) {
        return;
    }
    let mut is_found = false;
    guarded(|| {
        if gone::is_to_look_around() {
            gone::look_around();
        }
        // A graph that allocates has memory at these addresses when it runs, and so has one that runs after it.
        let exec = graphs::after(id, words, &mut gone::is_back);
        is_found = gone::has_any() && exec.is_some_and(|exec| gone::is_used_by_graph(exec, false));
    });
    if is_found {
        record(id, entered, arguments);
    }
}

/// Records and judges the call, which has returned.
#[cold]
#[inline(never)]
fn record(id: FnId, entered: &Entered, arguments: &dyn Arguments) {
    let caller = behind_patch(id, entered.caller);
    let mut record = Recorded::new(id, arguments);
    record.begin(arguments, caller, true, false);
    let has_more = record.finish(arguments, 0, true);
    let rest = Rest {
        id,
        caller,
        result: 0,
        pointer: None,
        fault: None,
        has_more,
        logged: false,
        driver_log: &DriverLog::disabled(),
        before: None,
        is_judged: false,
        started: 0,
        duration: 0,
    };
    guarded(|| rest.follow(&record, arguments));
}
