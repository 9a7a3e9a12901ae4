//! Calls of the runtime, as parents of the driver's calls that were made in them.
//!
//! What belongs here: which call was made in which. The two are of one thread, the one lasted while the other did, and the
//! runtime made it. What is
//! known of a driver's call by its own record stays with it. No more is kept than [`MOST`] calls.

use super::model::RuntimeCall;
use super::results;
use cupeer_record::{Call, Outcome, Process};
use cupeer_spec::function::{FnId, Library};
use std::collections::HashMap;

/// The most calls of which it is kept in which one they were made.
const MOST: usize = 1 << 16;

/// Whether a function is the runtime's own.
pub fn is_runtime(function: Option<FnId>) -> bool {
    function.is_some_and(|function| function.spec().library == Library::Cudart)
}

/// Whether a library is the runtime, by its file name.
pub fn is_runtime_library(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).starts_with("libcudart")
}

/// The calls of the driver that were made in one of the runtime's: by process, thread and number.
#[derive(Default)]
pub struct MadeBy(HashMap<(usize, u32, u64), Parent, foldhash::fast::RandomState>);

#[derive(Clone, Copy)]
struct Parent {
    function: FnId,
    /// `None` where it has not returned.
    result: Option<i32>,
}

impl MadeBy {
    /// The call of the runtime in which a call was made, where that is known.
    pub fn of(&self, process: usize, tid: u32, seq: u64) -> Option<RuntimeCall> {
        let Parent { function, result } = *self.0.get(&(process, tid, seq))?;
        let result = result.map(|result| results::name(Some(function), result));
        Some(RuntimeCall { function: function.spec().name.into(), result })
    }
}

/// The latest call of the runtime in each stream of a process, which is not counted yet.
#[derive(Default)]
pub struct Latest(HashMap<u32, Runtime>);

/// A call of the runtime.
pub struct Runtime {
    pub call: Call,
    /// Whether a call in it failed with the same result: then that is the failure to tell of.
    pub is_told: bool,
}

impl Latest {
    /// Whether the runtime was never called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a call of the runtime. Gives the one before it, in which no more calls are made.
    pub fn begin(&mut self, call: &Call) -> Option<Runtime> {
        self.0.insert(call.stream, Runtime { call: call.clone(), is_told: false })
    }

    /// Notes that the latest one has returned after all. Returns whether it was the latest.
    pub fn end(&mut self, call: &Call) -> bool {
        let latest = self.0.get_mut(&call.stream).filter(|latest| latest.call.seq == call.seq);
        latest.map(|latest| latest.call = call.clone()).is_some()
    }

    /// Notes a call that may have been made in it. Whether it is shown says whether its failure tells of that of the runtime.
    pub fn made(
        &mut self,
        index: usize,
        process: &Process,
        call: &Call,
        is_shown: bool,
        made_by: &mut MadeBy,
    ) {
        let Some(Runtime { call: parent, is_told }) = self.0.get_mut(&call.stream) else { return };
        // A call that was left by a jump does not return either: only what has not returned is surely in it.
        let (result, is_within) = match parent.outcome {
            Outcome::Returned(result) => (Some(result), call.end <= parent.end),
            _ => (None, call.outcome == parent.outcome),
        };
        // A signal handler may call the driver meanwhile.
        let is_by_runtime = || {
            let library = process.library_at(call.caller, call.start);
            library.is_some_and(|library| is_runtime_library(&library.path))
        };
        let is_in_it =
            parent.start <= call.start && is_within && !is_runtime(call.function) && is_by_runtime();
        let Some(function) = parent.function.filter(|_| is_in_it) else { return };
        *is_told |= is_shown && !call.succeeded() && call.outcome == parent.outcome;
        if made_by.0.len() < MOST {
            made_by.0.insert((index, call.tid, call.seq), Parent { function, result });
        }
    }

    /// Those that are left.
    pub fn finish(self) -> impl Iterator<Item = Runtime> {
        self.0.into_values()
    }
}
