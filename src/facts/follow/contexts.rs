//! The contexts that one process created itself, by the place that created them.

use crate::follow::ledger::CallSite;
use crate::follow::memory::Creation;
use cupeer_model::NumberHolders;
use cupeer_record::Call;
use cupeer_report::places::StackNumber;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::collections::HashMap;

#[derive(Default)]
pub struct CreatedContexts {
    /// Number of contexts that each call stack created.
    pub created_by_stack: HashMap<StackNumber, u64>,
    alive: NumberHolders<LiveContext>,
}

/// A context that was not destroyed.
#[derive(Clone, Copy)]
pub struct LiveContext {
    pub birth: Creation,
    /// Time of the last recorded call that was made in this context.
    pub used: Option<u64>,
}

impl CreatedContexts {
    /// Updates the contexts for a call that succeeded: it may have created, used, or destroyed one.
    pub fn note_call(&mut self, function: FnId, call: &Call, time: u64, made: impl FnOnce() -> CallSite) {
        let spec = function.spec();
        let number = |argument| call.argument_number(argument);
        if let Some(handle) = spec.created_context().and_then(|(by, _)| number(by)) {
            let call = made();
            let made = self.created_by_stack.entry(call.site.stack).or_default();
            let birth = Creation { ordinal: *made, call };
            *made += 1;
            // The former context with this handle was destroyed.
            let _ = self.alive.assign(Object::Context, handle, LiveContext { birth, used: None });
        } else if let Some(end) = spec.ended_context().filter(|end| end.object == Object::Context) {
            number(end.by).map(|handle| self.alive.take(Object::Context, handle));
        } else if let Some(context) = call.details.context.filter(|_| !self.alive.is_empty())
            && self.alive.holder(Object::Context, context).is_some_and(|known| known.birth.call.at < time)
            && let Some(mut known) = self.alive.take(Object::Context, context)
        {
            known.used = known.used.max(Some(time));
            let _ = self.alive.assign(Object::Context, context, known);
        }
    }

    /// Returns the contexts that were not destroyed, with their handles, in no particular order.
    pub fn live_contexts(&self) -> impl Iterator<Item = (u64, &LiveContext)> {
        self.alive.iter().map(|(_, handle, known)| (handle, known))
    }
}
