//! Tracks the mappings that a process closed, the contexts that it destroyed, and the access that it enabled, for rules about its
//! later calls.

use super::Ledger;
use super::follow::{Follower, OwnHandle};
use cupeer_model::Names;
use cupeer_record::{Call, Outcome};
use cupeer_report::values::Ending;
use cupeer_rules::decide::HadContext;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::Line;
use cupeer_spec::results::Result;
use std::collections::{HashMap, VecDeque};

/// Number of closed mappings that are remembered, the same as in the preloaded library.
const REMEMBERED: usize = 256;

#[derive(Default)]
pub struct ProcessHistory {
    closed: VecDeque<Closed>,
    contexts: Contexts,
    /// The first context that the process ended (`None` if unknown), the call that ended it, and true if no other context was
    /// ended.
    first_ended: Option<(Option<u64>, EarlierCall, bool)>,
}

/// The contexts of a process, each with a number of its own, because the driver reuses the addresses of contexts.
#[derive(Default)]
struct Contexts {
    all: Vec<Context>,
    names: Names<usize>,
    /// The last known current context of each thread.
    current: HashMap<u32, usize>,
    /// The call that enabled access, by the two contexts.
    enabled: HashMap<(usize, usize), EarlierCall>,
}

/// A context: its address, and the call that ended it.
struct Context {
    address: u64,
    ended: Option<EarlierCall>,
}

impl Contexts {
    /// Returns the last context with an address, which may have ended.
    fn known(&self, address: u64) -> Option<(usize, &Context)> {
        let number = *self.names.bearer(Object::Context, address)?;
        Some((number, &self.all[number]))
    }

    /// Returns the number of the last context with an address, which may have ended.
    fn number(&mut self, address: u64) -> usize {
        match self.known(address) {
            Some((number, _)) => number,
            None => self.begin(address),
        }
    }

    /// Returns the number of the existing context with an address. If the last known context there has ended, a new one is added.
    fn alive(&mut self, address: u64) -> usize {
        match self.known(address) {
            Some((number, context)) if context.ended.is_none() => number,
            _ => self.begin(address),
        }
    }

    fn begin(&mut self, address: u64) -> usize {
        let number = self.all.len();
        self.all.push(Context { address, ended: None });
        // The former context with this address has ended, and stays in the list.
        let _ = self.names.give(Object::Context, address, number);
        number
    }

    fn end(&mut self, ending: &Ending, by: impl Fn() -> EarlierCall) {
        if let Some(context) = ending.context {
            let number = self.number(context);
            self.all[number].ended = Some(by());
        }
        let all = &self.all;
        let takes = |number: usize| ending.takes(Object::Peer, Some(all[number].address), None);
        self.enabled.retain(|(from, to), _| !takes(*from) && !takes(*to));
    }
}

pub struct Closed {
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
    /// The same time in ticks of the record's clock.
    pub ticks: u64,
    /// Return addresses of the stack, the innermost first.
    pub frames: Box<[u64]>,
    /// The Python lines of the stack.
    pub python: Box<[Line]>,
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

    /// Notes a call before it changes the handle table.
    pub fn call(&mut self, follower: &Follower, ledger: &Ledger, function: FnId, call: &Call, at: u64) {
        let spec = function.spec();
        let context = call.details.context;
        // A call that ends a context is recorded with that context.
        let is_gone = call.outcome == Outcome::Returned(Result::CONTEXT_IS_DESTROYED as i32);
        if let Some(context) =
            context.filter(|context| *context != 0 && spec.ends_context().is_none() && !is_gone)
        {
            let number = self.contexts.number(context);
            self.contexts.current.insert(call.tid, number);
        }
        let peer = spec.enables().or(spec.disables()).and_then(|peer| call.number(peer.by));
        if let Some((from, to)) = context.zip(peer) {
            let contexts = (self.contexts.number(from), self.contexts.number(to));
            if is_enabled(function, call) {
                self.contexts.enabled.entry(contexts).or_insert_with(|| EarlierCall::of(call, at));
            } else if call.succeeded() {
                self.contexts.enabled.remove(&contexts);
            }
        }
        if !call.succeeded() || call.injected {
            return;
        }
        if spec.ends_context().is_some() {
            let context = Ending::of(function, call).and_then(|ending| ending.context);
            match &mut self.first_ended {
                Some((.., is_only)) => *is_only = false,
                None => self.first_ended = Some((context, EarlierCall::of(call, at), true)),
            }
        }
        if let Some(address) =
            spec.closes().filter(|_| spec.ends().is_none()).and_then(|by| call.number(by.by))
        {
            let held = follower.opened.bearer(Object::Memory, address);
            if let Some(held) = held.filter(|held| held.is_last(ledger)) {
                self.remember(address, held, ledger, at, call);
            }
        } else if let Some(ending) = Ending::of(function, call) {
            self.contexts.end(&ending, || EarlierCall::of(call, at));
            for (kind, address, held) in follower.opened.iter() {
                if kind == Object::Memory && ending.takes(kind, held.context, held.device) {
                    self.remember(address, held, ledger, at, call);
                }
            }
        } else if let Some(context) = context.filter(|context| *context != 0) {
            let number = self.contexts.alive(context);
            self.contexts.current.insert(call.tid, number);
        }
    }

    fn remember(&mut self, address: u64, held: &OwnHandle, ledger: &Ledger, at: u64, call: &Call) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        let fingerprint = ledger.handles[held.handle as usize].fingerprint;
        let with_context = call.function.is_some_and(|function| function.spec().ends_context().is_some());
        let context = held.context.map(|context| self.contexts.number(context));
        let (by, held) = (EarlierCall::of(call, at), *held);
        self.closed.push_back(Closed { address, fingerprint, context, with_context, by, held });
    }

    /// Returns the last closed mapping at an address.
    pub fn closed(&self, address: u64) -> Option<&Closed> {
        self.closed.iter().rev().find(|closed| closed.address == address)
    }

    /// Returns the state of the last context of a thread that has none now.
    pub fn had_context(&self, tid: u32) -> HadContext {
        let Contexts { all, current, .. } = &self.contexts;
        let Some(&number) = current.get(&tid) else {
            return if current.is_empty() { HadContext::Unknown } else { HadContext::InOtherThread };
        };
        let is_ended = all[number].ended.is_some();
        let last = self.closed.iter().rev().find(|closed| closed.context == Some(number));
        let has_closed = is_ended && last.is_some_and(|closed| closed.with_context);
        HadContext::Here { context: all[number].address, is_ended, has_closed }
    }

    /// Returns true if the context at an address has ended, and no other context has been seen there since.
    pub fn has_ended(&self, context: u64) -> bool {
        self.ending(context).is_some()
    }

    /// Returns the call that ended the context at an address, if no other context has been seen there since.
    pub fn ending(&self, context: u64) -> Option<&EarlierCall> {
        self.contexts.known(context)?.1.ended.as_ref()
    }

    /// Returns the address of the last known context of a thread, and the call that ended the context.
    pub fn ending_of_last(&self, tid: u32) -> Option<(u64, &EarlierCall)> {
        let context = &self.contexts.all[*self.contexts.current.get(&tid)?];
        Some((context.address, context.ended.as_ref()?))
    }

    /// Returns the context that the process ended, and the call that ended it, if the process ended exactly one.
    pub fn only_ending(&self) -> Option<(Option<u64>, &EarlierCall)> {
        self.first_ended.as_ref().filter(|(.., is_only)| *is_only).map(|(context, by, _)| (*context, by))
    }

    /// Returns the call that enabled access from one context to another, if the access is enabled.
    pub fn enabling(&self, from: u64, to: u64) -> Option<&EarlierCall> {
        let number = |context| Some(self.contexts.known(context)?.0);
        self.contexts.enabled.get(&(number(from)?, number(to)?))
    }
}

/// Returns true if access is enabled after a call: the call enabled it, or failed because it was enabled already.
pub fn is_enabled(function: FnId, call: &Call) -> bool {
    let is_on = call.outcome == Outcome::Returned(Result::PEER_ACCESS_ALREADY_ENABLED as i32);
    function.spec().enables().is_some() && (is_on || call.succeeded())
}

impl OwnHandle {
    /// Returns true if one more close closes the handle completely.
    fn is_last(&self, ledger: &Ledger) -> bool {
        let import = &ledger.handles[self.handle as usize].imports[self.import as usize];
        import.times.last().is_none_or(|time| time.count <= 1)
    }
}
