//! The contexts that one process created itself, by the place that created them.

use crate::follow::ledger::CallSite;
use crate::follow::memory::Birth;
use cupeer_model::Names;
use cupeer_record::Call;
use cupeer_report::places::Stack;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::collections::HashMap;

#[derive(Default)]
pub struct Contexts {
    /// Number of contexts that each call stack created.
    pub made: HashMap<Stack, u64>,
    alive: Names<Context>,
}

/// A context that was not destroyed.
#[derive(Clone, Copy)]
pub struct Context {
    pub birth: Birth,
    /// Time of the last recorded call that was made in this context.
    pub used: Option<u64>,
}

impl Contexts {
    /// Notes a call that succeeded, and may have created, used, or destroyed a context.
    pub fn call(&mut self, function: FnId, call: &Call, time: u64, made: impl FnOnce() -> CallSite) {
        let spec = function.spec();
        let number = |argument| call.number(argument);
        if let Some(handle) = spec.creates_context().and_then(|(by, _)| number(by)) {
            let call = made();
            let made = self.made.entry(call.site.stack).or_default();
            let birth = Birth { ordinal: *made, call };
            *made += 1;
            // The former context with this handle was destroyed.
            let _ = self.alive.give(Object::Context, handle, Context { birth, used: None });
        } else if let Some(end) = spec.ends_context().filter(|end| end.object == Object::Context) {
            number(end.by).map(|handle| self.alive.take(Object::Context, handle));
        } else if let Some(context) = call.details.context.filter(|_| !self.alive.is_empty())
            && self.alive.bearer(Object::Context, context).is_some_and(|known| known.birth.call.at < time)
            && let Some(mut known) = self.alive.take(Object::Context, context)
        {
            known.used = known.used.max(Some(time));
            let _ = self.alive.give(Object::Context, context, known);
        }
    }

    /// Returns the contexts that were not destroyed, with their handles, in no particular order.
    pub fn alive(&self) -> impl Iterator<Item = (u64, &Context)> {
        self.alive.iter().map(|(_, handle, known)| (handle, known))
    }
}
