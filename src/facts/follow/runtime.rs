//! Calls of the CUDA runtime, as parents of the driver calls that were made inside them.
//!
//! A driver call belongs to a runtime call if both are of one thread, the runtime call lasted while the driver call
//! did, and the runtime made the driver call. The record of the driver call stays unchanged. No more than [`MOST_PARENTS`]
//! calls are kept.

use cupeer_record::{Call, Outcome, Process};
use cupeer_report::judged::is_runtime;
use cupeer_report::model::RuntimeCall;
use cupeer_report::results;
use cupeer_spec::function::FnId;
use cupeer_spec::runtime;
use std::collections::HashMap;

/// Number of driver calls whose runtime call is stored: the first ones.
const MOST_PARENTS: usize = 1 << 16;

/// Largest number of nested runtime calls that are tracked in one thread: beyond it, the outermost is no longer
/// tracked. Calls that a longjmp left count as nested, too.
const MOST_NESTED: usize = 16;

/// The runtime call in which each driver call was made. The key is the driver call: process, thread, and number.
#[derive(Default)]
pub struct RuntimeParents(HashMap<(usize, u32, u64), ParentCall, foldhash::fast::RandomState>);

#[derive(Clone, Copy)]
struct ParentCall {
    function: FnId,
    /// The result of the runtime call; `None` if it has not returned.
    result: Option<i32>,
}

impl RuntimeParents {
    /// Returns the runtime call in which a driver call was made, if known.
    pub fn parent_of(&self, process: usize, tid: u32, seq: u64) -> Option<RuntimeCall> {
        let ParentCall { function, result } = *self.0.get(&(process, tid, seq))?;
        let result = result.map(|result| results::result_name(Some(function), result));
        Some(RuntimeCall { function: function.spec().name().into(), result })
    }
}

/// For each event stream of a process, the runtime calls in which further calls may be made, the innermost last. They are not
/// counted yet.
#[derive(Default)]
pub struct OpenRuntimeCalls(HashMap<u32, Vec<TrackedRuntimeCall>>);

/// A call of the runtime.
pub struct TrackedRuntimeCall {
    pub call: Call,
    /// True if a call inside this call failed with the same result: the report lists that failure instead.
    pub is_told: bool,
}

impl TrackedRuntimeCall {
    fn contains(&self, call: &Call) -> bool {
        // A call that a longjmp left looks pending, too, so of the later calls only pending ones are surely in it.
        let is_within = match self.call.outcome {
            Outcome::Pending => call.outcome == Outcome::Pending,
            _ => call.end <= self.call.end,
        };
        self.call.start <= call.start && is_within
    }

    /// Sets `is_told` if a call inside this runtime call, which the report shows, failed in the same way.
    fn note_inner_call(&mut self, call: &Call) {
        self.is_told |= !call.succeeded() && call.outcome == self.call.outcome;
    }
}

impl OpenRuntimeCalls {
    /// Returns true if the process never called the runtime.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a runtime call. Returns earlier runtime calls in which no more calls can be made.
    pub fn add_call(&mut self, call: &Call) -> Vec<TrackedRuntimeCall> {
        let open = self.0.entry(call.stream).or_default();
        let mut ended = Vec::new();
        while let Some(last) = open.pop_if(|last| last.call.outcome != Outcome::Pending && last.call.end < call.start) {
            ended.push(last);
            pass_failure_outwards(&ended, open);
        }
        if open.len() == MOST_NESTED {
            ended.push(open.remove(0));
        }
        open.push(TrackedRuntimeCall { call: call.clone(), is_told: false });
        ended
    }

    /// Stores the end of a runtime call whose end was recorded separately. Returns true if its begin was known.
    pub fn set_end(&mut self, call: &Call) -> bool {
        let known = self.0.get_mut(&call.stream).into_iter().flatten().find(|known| known.call.seq == call.seq);
        known.map(|known| known.call = call.clone()).is_some()
    }

    /// Stores the runtime call inside which a driver call was made. If the driver call is listed, its failure replaces
    /// that of the runtime call.
    pub fn note_call(
        &mut self,
        index: usize,
        process: &Process,
        call: &Call,
        is_shown: bool,
        made_by: &mut RuntimeParents,
    ) {
        let Some(open) = self.0.get_mut(&call.stream).filter(|_| !is_runtime(call.function)) else { return };
        // A signal handler may call the driver while a runtime call is running.
        let is_by_runtime = || {
            let library = process.library_at(call.caller, call.start);
            library.is_some_and(|library| runtime::is_runtime_library(library.path.as_bytes()))
        };
        let Some(innermost) = open.iter().rposition(|one| one.contains(call)).filter(|_| is_by_runtime()) else {
            return;
        };
        if is_shown {
            open.iter_mut().filter(|one| one.contains(call)).for_each(|one| one.note_inner_call(call));
        }
        let parent = &open[innermost].call;
        let result = if let Outcome::Returned(result) = parent.outcome { Some(result) } else { None };
        if let Some(function) = parent.function.filter(|_| made_by.0.len() < MOST_PARENTS) {
            made_by.0.insert((index, call.tid, call.seq), ParentCall { function, result });
        }
    }

    /// Returns the runtime calls that are still tracked at the end of the events.
    pub fn take_remaining(self) -> Vec<TrackedRuntimeCall> {
        let mut all = Vec::new();
        for mut open in self.0.into_values() {
            while let Some(last) = open.pop() {
                all.push(last);
                pass_failure_outwards(&all, &mut open);
            }
        }
        all
    }
}

/// Marks the runtime calls that contain ended calls with the same failure, so that the failure is reported once.
fn pass_failure_outwards(ended: &[TrackedRuntimeCall], open: &mut [TrackedRuntimeCall]) {
    let Some(last) = ended.last() else { return };
    open.iter_mut().filter(|one| one.contains(&last.call)).for_each(|one| one.note_inner_call(&last.call));
}
