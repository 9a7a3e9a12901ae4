//! Calls of the runtime, as parents of the driver's calls that were made in them.
//!
//! What belongs here: which call was made in which. The two are of one thread, and the one lasted while the other did. What is
//! known of a driver's call by its own record stays with it. No more is kept than [`MOST`] calls.

use super::model::RuntimeCall;
use super::results;
use cupeer_record::{Call, Outcome};
use cupeer_spec::function::{FnId, Library};
use std::collections::HashMap;

/// The most calls of which it is kept in which one they were made.
const MOST: usize = 1 << 16;

/// Whether a function is the runtime's own.
pub fn is_runtime(function: Option<FnId>) -> bool {
    function.is_some_and(|function| function.spec().library == Library::Cudart)
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
    /// Notes a call of the runtime. Gives the one before it, in which no more calls are made.
    pub fn begin(&mut self, call: &Call) -> Option<Runtime> {
        self.0.insert(call.stream, Runtime { call: call.clone(), is_told: false })
    }

    /// Notes that the latest one has returned after all. Returns whether it was the latest.
    pub fn end(&mut self, call: &Call) -> bool {
        let latest = self.0.get_mut(&call.stream).filter(|latest| latest.call.seq == call.seq);
        latest.map(|latest| latest.call = call.clone()).is_some()
    }

    /// Notes a call of the driver, which may have been made in it.
    pub fn made(&mut self, process: usize, call: &Call, made_by: &mut MadeBy) {
        let Some(latest) = self.0.get_mut(&call.stream) else { return };
        let Runtime { call: parent, is_told } = latest;
        let result = if let Outcome::Returned(result) = parent.outcome { Some(result) } else { None };
        let goes_on = parent.outcome == Outcome::Pending || call.end <= parent.end;
        let Some(function) = parent.function.filter(|_| parent.start <= call.start && goes_on) else {
            return;
        };
        *is_told |= !call.succeeded() && call.outcome == parent.outcome;
        if made_by.0.len() < MOST {
            made_by.0.insert((process, call.tid, call.seq), Parent { function, result });
        }
    }

    /// Those that are left.
    pub fn finish(self) -> impl Iterator<Item = Runtime> {
        self.0.into_values()
    }
}
