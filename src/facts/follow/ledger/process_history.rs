//! Tracks the mappings that a process closed, the contexts that it destroyed, and the access that it enabled, for rules about its
//! later calls.

use super::HandleTable;
use super::follow::{HandleFollower, OwnHandle};
use cupeer_model::NumberHolders;
use cupeer_record::{Call, Outcome};
use cupeer_report::values::EndedContext;
use cupeer_rules::decide::HadContext;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::PythonLine;
use cupeer_spec::results::Result;
use std::collections::{HashMap, VecDeque};

/// Number of closed mappings that are remembered, the same as in the preloaded library.
const REMEMBERED: usize = 256;

#[derive(Default)]
pub struct ProcessHistory {
    closed: VecDeque<ClosedMapping>,
    contexts: NumberedContexts,
    /// The first context that the process ended (`None` if unknown), the call that ended it, and true if no other context was
    /// ended.
    first_ended: Option<(Option<u64>, EarlierCall, bool)>,
}

/// The contexts of a process, each with a number of its own, because the driver reuses the addresses of contexts.
#[derive(Default)]
struct NumberedContexts {
    all: Vec<KnownContext>,
    names: NumberHolders<usize>,
    /// The last known current context of each thread.
    current: HashMap<u32, usize>,
    /// The call that enabled access, by the two contexts.
    enabled: HashMap<(usize, usize), EarlierCall>,
}

/// A context: its address, and the call that ended it.
struct KnownContext {
    address: u64,
    ended: Option<EarlierCall>,
}

impl NumberedContexts {
    /// Returns the last context with an address, which may have ended.
    fn find_last(&self, address: u64) -> Option<(usize, &KnownContext)> {
        let number = *self.names.holder(Object::Context, address)?;
        Some((number, &self.all[number]))
    }

    /// Returns the number of the last context with an address, which may have ended.
    fn number_or_add(&mut self, address: u64) -> usize {
        match self.find_last(address) {
            Some((number, _)) => number,
            None => self.add_context(address),
        }
    }

    /// Returns the number of the existing context with an address. If the last known context there has ended, a new one is added.
    fn number_of_live(&mut self, address: u64) -> usize {
        match self.find_last(address) {
            Some((number, context)) if context.ended.is_none() => number,
            _ => self.add_context(address),
        }
    }

    fn add_context(&mut self, address: u64) -> usize {
        let number = self.all.len();
        self.all.push(KnownContext { address, ended: None });
        // The former context with this address has ended, and stays in the list.
        let _ = self.names.assign(Object::Context, address, number);
        number
    }

    fn end_context(&mut self, ending: &EndedContext, by: impl Fn() -> EarlierCall) {
        if let Some(context) = ending.context {
            let number = self.number_or_add(context);
            self.all[number].ended = Some(by());
        }
        let all = &self.all;
        let takes = |number: usize| ending.ends_object(Object::Peer, Some(all[number].address), None);
        self.enabled.retain(|(from, to), _| !takes(*from) && !takes(*to));
    }
}

pub struct ClosedMapping {
    pub address: u64,
    pub fingerprint: u64,
    /// The number of the context in which the mapping was open.
    context: Option<usize>,
    /// True if the mapping was closed because its context ended.
    pub with_context: bool,
    /// The call that closed the mapping, or ended its context.
    pub by: EarlierCall,
    pub held: OwnHandle,
}

/// An earlier call of the process, with its stack.
pub struct EarlierCall {
    pub tid: u32,
    /// Time of the call.
    pub at: u64,
    /// Time of the call, in ticks of the recording's clock.
    pub ticks: u64,
    /// Return addresses of the stack, the innermost first.
    pub frames: Box<[u64]>,
    /// The Python lines of the stack.
    pub python: Box<[PythonLine]>,
}

impl EarlierCall {
    fn of(call: &Call, at: u64) -> EarlierCall {
        let caller = [call.caller];
        let frames = if call.details.frames.is_empty() { &caller[..] } else { &call.details.frames };
        let python = call.details.python.as_slice().into();
        EarlierCall { tid: call.tid, at, ticks: call.start, frames: frames.into(), python }
    }
}

impl ProcessHistory {
    #[inline]
    pub fn concerns(&self, function: FnId, call: &Call) -> bool {
        let spec = function.spec();
        let is_any = [Group::Enable, Group::Release, Group::Lifetime].iter().any(|group| spec.is_in(*group));
        is_any || call.details.context.is_some() || self.first_ended.is_some()
    }

    /// Updates the history for a call, before the call changes the handle table.
    pub fn note_call(&mut self, follower: &HandleFollower, ledger: &HandleTable, function: FnId, call: &Call, at: u64) {
        let spec = function.spec();
        let context = call.details.context;
        // A call that ends a context is recorded with that context.
        let is_gone = call.outcome == Outcome::Returned(Result::CONTEXT_IS_DESTROYED as i32);
        if let Some(context) = context.filter(|context| *context != 0 && spec.ended_context().is_none() && !is_gone) {
            let number = self.contexts.number_or_add(context);
            self.contexts.current.insert(call.tid, number);
        }
        let peer = spec.enables().or(spec.disables()).and_then(|peer| call.argument_number(peer.by));
        if let Some((from, to)) = context.zip(peer) {
            let contexts = (self.contexts.number_or_add(from), self.contexts.number_or_add(to));
            if leaves_access_enabled(function, call) {
                self.contexts.enabled.entry(contexts).or_insert_with(|| EarlierCall::of(call, at));
            } else if call.succeeded() {
                self.contexts.enabled.remove(&contexts);
            }
        }
        if !call.succeeded() || call.injected {
            return;
        }
        if spec.ended_context().is_some() {
            let context = EndedContext::of(function, call).and_then(|ending| ending.context);
            match &mut self.first_ended {
                Some((.., is_only)) => *is_only = false,
                None => self.first_ended = Some((context, EarlierCall::of(call, at), true)),
            }
        }
        if let Some(address) =
            spec.closes().filter(|_| spec.ends().is_none()).and_then(|by| call.argument_number(by.by))
        {
            let held = follower.opened.holder(Object::Memory, address);
            if let Some(held) = held.filter(|held| held.is_last_open(ledger)) {
                self.remember_closed(address, held, ledger, at, call);
            }
        } else if let Some(ending) = EndedContext::of(function, call) {
            self.contexts.end_context(&ending, || EarlierCall::of(call, at));
            for (kind, address, held) in follower.opened.iter() {
                if kind == Object::Memory && ending.ends_object(kind, held.context, held.device) {
                    self.remember_closed(address, held, ledger, at, call);
                }
            }
        } else if let Some(context) = context.filter(|context| *context != 0) {
            let number = self.contexts.number_of_live(context);
            self.contexts.current.insert(call.tid, number);
        }
    }

    fn remember_closed(&mut self, address: u64, held: &OwnHandle, ledger: &HandleTable, at: u64, call: &Call) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        let fingerprint = ledger.handles[held.handle as usize].fingerprint;
        let with_context = call.function.is_some_and(|function| function.spec().ended_context().is_some());
        let context = held.context.map(|context| self.contexts.number_or_add(context));
        let (by, held) = (EarlierCall::of(call, at), *held);
        self.closed.push_back(ClosedMapping { address, fingerprint, context, with_context, by, held });
    }

    /// Returns the last closed mapping at an address.
    pub fn last_closed_at(&self, address: u64) -> Option<&ClosedMapping> {
        self.closed.iter().rev().find(|closed| closed.address == address)
    }

    /// Returns the state of the last context of a thread that has none now.
    pub fn last_context_state(&self, tid: u32) -> HadContext {
        let NumberedContexts { all, current, .. } = &self.contexts;
        let Some(&number) = current.get(&tid) else {
            return if current.is_empty() { HadContext::Unknown } else { HadContext::InOtherThread };
        };
        let is_ended = all[number].ended.is_some();
        let last = self.closed.iter().rev().find(|closed| closed.context == Some(number));
        let has_closed = is_ended && last.is_some_and(|closed| closed.with_context);
        HadContext::Here { context: all[number].address, is_ended, has_closed }
    }

    /// Returns true if the context at an address has ended, and no other context has been seen there since.
    pub fn has_context_ended(&self, context: u64) -> bool {
        self.ending_call(context).is_some()
    }

    /// Returns the call that ended the context at an address, if no other context has been seen there since.
    pub fn ending_call(&self, context: u64) -> Option<&EarlierCall> {
        self.contexts.find_last(context)?.1.ended.as_ref()
    }

    /// Returns the address of the last known context of a thread, and the call that ended the context.
    pub fn ending_of_last_context(&self, tid: u32) -> Option<(u64, &EarlierCall)> {
        let context = &self.contexts.all[*self.contexts.current.get(&tid)?];
        Some((context.address, context.ended.as_ref()?))
    }

    /// Returns the context that the process ended, and the call that ended it, if the process ended exactly one.
    pub fn only_ending(&self) -> Option<(Option<u64>, &EarlierCall)> {
        self.first_ended.as_ref().filter(|(.., is_only)| *is_only).map(|(context, by, _)| (*context, by))
    }

    /// Returns the call that enabled access from one context to another, if the access is enabled.
    pub fn enabling_call(&self, from: u64, to: u64) -> Option<&EarlierCall> {
        let number = |context| Some(self.contexts.find_last(context)?.0);
        self.contexts.enabled.get(&(number(from)?, number(to)?))
    }
}

/// Returns true if access is enabled after a call: the call enabled it, or failed because it was enabled already.
pub fn leaves_access_enabled(function: FnId, call: &Call) -> bool {
    let is_on = call.outcome == Outcome::Returned(Result::PEER_ACCESS_ALREADY_ENABLED as i32);
    function.spec().enables().is_some() && (is_on || call.succeeded())
}

impl OwnHandle {
    /// Returns true if one more close closes the handle completely.
    fn is_last_open(&self, ledger: &HandleTable) -> bool {
        let import = &ledger.handles[self.handle as usize].imports[self.import as usize];
        import.times.last().is_none_or(|time| time.count <= 1)
    }
}
