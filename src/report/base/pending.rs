//! Calls whose end comes in a later event.

use cupeer_record::{Call, Event, Outcome};
use std::borrow::Cow;
use std::collections::HashMap;

/// Calls of a process that have not returned yet at the current event of the reading.
#[derive(Default)]
pub struct PendingCalls(HashMap<(u32, u64), Call, foldhash::fast::RandomState>);

impl PendingCalls {
    /// Returns the call that an event completes. Stores the event's call if it has not returned.
    pub fn take_completed<'a>(&mut self, event: &'a Event) -> Option<Cow<'a, Call>> {
        match event {
            Event::Call(call) if call.outcome == Outcome::Pending => {
                self.0.insert((call.stream, call.seq), call.clone());
                None
            }
            Event::Call(call) => Some(Cow::Borrowed(call)),
            Event::LateEnd { stream, seq, .. } => {
                let mut call = self.0.remove(&(*stream, *seq))?;
                call.apply_late_end(event).then_some(Cow::Owned(call))
            }
            Event::Use(_) | Event::Mark { .. } => None,
        }
    }

    /// Returns the calls that never returned, in the order of their starts.
    pub fn into_unfinished(self) -> Vec<Call> {
        let mut calls: Vec<Call> = self.0.into_values().collect();
        calls.sort_by_key(|call| (call.start, call.stream, call.seq));
        calls
    }
}
