//! Resolves data that calls share with earlier calls of their stream: the stack of an earlier call of their
//! kind, and the run that counts them.

use crate::event::{Details, RepeatedCalls};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, PythonLine, Slot, shape, slot_word};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Number of kinds per stream whose stacks are remembered; those of further kinds are not. Programs have some
/// dozens.
const MOST: usize = 1 << 12;

/// Key of a stack: the number of the function, the result, the return address. Calls with the same key share
/// a stack.
type Kind = (u16, Option<i32>, u64);

struct RememberedStack {
    /// Number of the slot of the call that recorded the stack.
    of: u64,
    frames: Vec<u64>,
    python: Vec<PythonLine>,
}

/// Last stack of each kind of call.
#[derive(Default)]
pub(crate) struct StacksByKind(HashMap<Kind, RememberedStack>);

impl StacksByKind {
    /// Remembers the stack of a call that has one; otherwise, copies the stack of an earlier call of the same
    /// kind. `result` is 0 if the call has not returned.
    pub fn remember_or_copy(
        &mut self,
        function: Option<FnId>,
        slot: &Slot,
        number: u64,
        result: i32,
        details: &mut Details,
    ) {
        let carries = function.is_some_and(|function| function.spec().records_stack_on_success());
        let (number_of_function, caller) = (slot.function(), slot.caller());
        // A function that always records a stack takes it before the result is known, so look under both
        // keys.
        let kinds = [Some(result), None].map(|result| (number_of_function, result, caller));
        let kinds = &kinds[..if carries { 2 } else { 1 }];
        if details.frames.is_empty() {
            if let Some(stack) = kinds.iter().find_map(|kind| self.0.get(kind)) {
                (details.frames, details.python) = (stack.frames.clone(), stack.python.clone());
                details.stack_of = Some(stack.of);
            }
            return;
        }
        for kind in kinds {
            let stack =
                || RememberedStack { of: number, frames: details.frames.clone(), python: details.python.clone() };
            let has_room = self.0.len() < MOST;
            match self.0.entry(*kind) {
                Entry::Occupied(mut known) => *known.get_mut() = stack(),
                Entry::Vacant(place) if has_room => drop(place.insert(stack())),
                Entry::Vacant(_) => {}
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the calls of a run that have returned, with implausible values corrected. `example` is the first
/// call of the run.
pub(crate) fn returned_calls(run: &slot::RepeatedCalls, example: &Slot) -> Option<RepeatedCalls> {
    let calls = Some(run.call_count()).filter(|calls| *calls > 0)?;
    let end = run.end.max(example.end.max(example.start));
    // The calls are of one thread and do not overlap, so their total duration is limited.
    let total = run.total.min(end - example.start);
    Some(RepeatedCalls { calls, end, total, longest: u64::from(run.longest).min(total) })
}

/// Returns true if a call has the same function, result, and caller as the calls of a run.
pub(crate) fn is_call_of_run(example: &Slot, run: &slot::RepeatedCalls) -> bool {
    let of_run = Slot { word: run.word, ..*example };
    example.state() == slot::RETURNED
        && (example.function(), example.result, example.caller()) == (of_run.function(), run.result, run.caller)
}

/// Returns one call of a run, for the example if that was overwritten, and the remaining run.
pub(crate) fn split_first_call(run: &slot::RepeatedCalls) -> Option<(Slot, Option<RepeatedCalls>)> {
    let calls = Some(run.call_count()).filter(|calls| *calls > 0)?;
    let start = run.end.saturating_sub(run.total);
    let of_run = call_with_unknown_args(run, slot::RETURNED, start);
    let slot = Slot { end: start + run.total.min(run.end) / calls, result: run.result, ..of_run };
    let others = slot::RepeatedCalls { calls: (calls - 1) << 1, ..*run };
    Some((slot, returned_calls(&others, &slot)))
}

/// Returns the call of a run that has not returned yet.
pub(crate) fn call_in_flight(run: &slot::RepeatedCalls, since: u64, example: Option<&Slot>) -> Slot {
    let pending = call_with_unknown_args(run, slot::PENDING, since);
    let like = |example: &Slot| Slot { args: example.args, caller: example.caller, ..pending };
    example.map_or(pending, like)
}

/// Returns a call of a run, with all arguments unknown.
fn call_with_unknown_args(run: &slot::RepeatedCalls, state: u8, start: u64) -> Slot {
    let of = Slot { word: run.word, start, end: 0, caller: 0, args: [0; ARGS], result: 0 };
    let shapes = (0..8).map(|index| shape::UNREAD << shape::shift(index)).fold(0, |all, one| all | one);
    Slot { word: slot_word(state, 1, of.function(), of.seq()), caller: run.caller | shapes, ..of }
}
