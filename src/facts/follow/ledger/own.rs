//! Tracks what a process has closed, which contexts it destroyed, and where it enabled access, for the rules about its
//! next call.

use super::follow::{Follower, OwnHandle};
use super::space::OwnSpace;
use super::{Ledger, Site};
use cupeer_books::{Imported, Pool, Pools};
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::{is_done_all_the_same, judged};
use cupeer_report::places::Stack;
use cupeer_report::values::Ending;
use cupeer_rules::decide::HadContext;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::Line;
use cupeer_spec::results::Result;
use std::collections::{HashMap, VecDeque};

/// So many closed mappings are remembered, as many as the library remembers.
const REMEMBERED: usize = 256;

/// The pools of one process.
pub type OwnPools = Pools<Vec<Pool>, Vec<Imported>>;

#[derive(Default)]
pub struct Own {
    closed: VecDeque<Closed>,
    /// Contexts that it has ended, and who did.
    ended: HashMap<u64, By>,
    /// The first context that it has ended, where that is known, and who did; whether it is the only one.
    first_ended: Option<(Option<u64>, By, bool)>,
    /// Who switched access on, by the two contexts.
    enabled: HashMap<(u64, u64), By>,
    /// The last context that each thread was seen with.
    current: HashMap<u32, u64>,
    /// What it has of virtual memory.
    pub space: OwnSpace,
    /// What it has of pools.
    pub pools: OwnPools,
}

pub struct Closed {
    pub address: u64,
    pub fingerprint: u64,
    pub at: u64,
    /// The context that it was open in.
    pub context: Option<u64>,
    /// Whether it went with its context.
    pub with_context: bool,
    /// Who closed it, or ended its context.
    pub by: By,
    /// What was closed.
    pub held: OwnHandle,
}

/// A call, as it stands in the record.
pub struct By {
    pub tid: u32,
    /// When that was.
    pub at: u64,
    /// The same on the record's clock.
    pub ticks: u64,
    /// Its return addresses, its caller's first.
    pub frames: Box<[u64]>,
    /// The lines of Python among them.
    pub python: Box<[Line]>,
}

impl By {
    fn of(call: &Call, at: u64) -> By {
        let caller = [call.caller];
        let frames = if call.details.frames.is_empty() { &caller[..] } else { &call.details.frames };
        let python = call.details.python.as_slice().into();
        By { tid: call.tid, at, ticks: call.start, frames: frames.into(), python }
    }
}

impl Own {
    #[inline]
    pub fn concerns(&self, function: FnId, call: &Call) -> bool {
        let spec = function.spec();
        let is_any = [Group::Enable, Group::Release, Group::Lifetime].iter().any(|group| spec.is_in(*group));
        is_any || call.details.context.is_some() || !self.ended.is_empty()
    }

    /// Notes a call, before the ledger does.
    pub fn call(&mut self, follower: &Follower, ledger: &Ledger, function: FnId, call: &Call, at: u64) {
        let spec = function.spec();
        let context = call.details.context;
        // Of a call that ends a context, it is that one.
        let is_gone = call.outcome == Outcome::Returned(Result::CONTEXT_IS_DESTROYED as i32);
        if let Some(context) =
            context.filter(|context| *context != 0 && spec.ends_context().is_none() && !is_gone)
        {
            self.current.insert(call.tid, context);
        }
        if let Some(peer) = spec.enables().or(spec.disables()) {
            let contexts = context.zip(call.number(peer.by));
            let is_on = call.outcome == Outcome::Returned(Result::PEER_ACCESS_ALREADY_ENABLED as i32)
                || call.succeeded();
            match contexts {
                Some(contexts) if is_on && spec.enables().is_some() => {
                    self.enabled.entry(contexts).or_insert_with(|| By::of(call, at));
                    if let (Some(from), Some(to)) = call.details.devices {
                        self.space.enabled(from, to);
                    }
                }
                Some(contexts) if call.succeeded() => drop(self.enabled.remove(&contexts)),
                _ => {}
            }
        }
        if !call.succeeded() || call.injected {
            return;
        }
        if spec.ends_context().is_some() {
            let context = Ending::of(function, call).and_then(|ending| ending.context);
            match &mut self.first_ended {
                Some((.., is_only)) => *is_only = false,
                None => self.first_ended = Some((context, By::of(call, at), true)),
            }
        }
        if let Some(address) =
            spec.closes().filter(|_| spec.ends().is_none()).and_then(|by| call.number(by.by))
        {
            let held = follower.opened.get(&(Object::Memory, address));
            if let Some(held) = held.filter(|held| held.is_last(ledger)) {
                self.remember(address, held, ledger, at, call);
            }
        } else if let Some(ending) = Ending::of(function, call) {
            self.ended.extend(ending.context.map(|context| (context, By::of(call, at))));
            let takes = |context: &u64| ending.takes(Object::Peer, Some(*context), None);
            self.enabled.retain(|(from, to), _| !takes(from) && !takes(to));
            for ((kind, address), held) in &follower.opened {
                if *kind == Object::Memory && ending.takes(*kind, held.context, held.device) {
                    self.remember(*address, held, ledger, at, call);
                }
            }
        } else if !self.ended.is_empty()
            && let Some(context) = context
        {
            // Another one has its address now.
            self.ended.remove(&context);
        }
    }

    /// Notes a call about virtual memory or pools, which was made at a time, from a stack.
    pub fn note(&mut self, function: FnId, call: &Call, at: u64, stack: impl FnOnce() -> Stack) {
        let (is_virtual, is_of_pools) = (function.spec().is_virtual(), function.spec().changes_pools());
        match call.outcome {
            Outcome::Returned(result) if !call.injected => {
                let args = call.arguments();
                let judged = judged(function, result, &args, call);
                if is_virtual {
                    self.space.note(&judged, at, || Site::of(call, stack(), false));
                }
                if is_of_pools {
                    self.pools.note(&judged);
                }
            }
            Outcome::Returned(result) if result != 0 && !is_done_all_the_same(call) => {}
            _ => {
                is_virtual.then(|| self.space.lose());
                is_of_pools.then(|| self.pools.lose());
            }
        }
    }

    /// The device of the pool that a call exports.
    pub fn exported_pool(&self, function: FnId, call: &Call) -> Option<i32> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Pool)?;
        self.pools.pool(call.number(shared.by)?)?.device
    }

    fn remember(&mut self, address: u64, held: &OwnHandle, ledger: &Ledger, at: u64, call: &Call) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        let fingerprint = ledger.handles[held.handle as usize].fingerprint;
        let with_context = call.function.is_some_and(|function| function.spec().ends_context().is_some());
        let (context, by, held) = (held.context, By::of(call, at), *held);
        self.closed.push_back(Closed { address, fingerprint, at, context, with_context, by, held });
    }

    /// The last time that something was closed at an address.
    pub fn closed(&self, address: u64) -> Option<&Closed> {
        self.closed.iter().rev().find(|closed| closed.address == address)
    }

    /// What became of the context of a thread that has none.
    pub fn had_context(&self, tid: u32) -> HadContext {
        let Some(&context) = self.current.get(&tid) else {
            return if self.current.is_empty() { HadContext::Unknown } else { HadContext::InOtherThread };
        };
        let is_ended = self.has_ended(context);
        let last = self.closed.iter().rev().find(|closed| closed.context == Some(context));
        let has_closed = is_ended && last.is_some_and(|closed| closed.with_context);
        HadContext::Here { context, is_ended, has_closed }
    }

    /// Whether a context was ended, and no other one has been seen with its address.
    pub fn has_ended(&self, context: u64) -> bool {
        self.ending(context).is_some()
    }

    /// Who has ended a context.
    pub fn ending(&self, context: u64) -> Option<&By> {
        self.ended.get(&context)
    }

    /// Who has ended the only context that this process has ended.
    pub fn only_ending(&self) -> Option<(Option<u64>, &By)> {
        self.first_ended.as_ref().filter(|(.., is_only)| *is_only).map(|(context, by, _)| (*context, by))
    }

    /// The last context that a thread was seen with.
    pub fn last_context(&self, tid: u32) -> Option<u64> {
        self.current.get(&tid).copied()
    }

    /// Who has switched access on from a context to another one, where it is on.
    pub fn enabling(&self, from: u64, to: u64) -> Option<&By> {
        self.enabled.get(&(from, to))
    }
}

impl OwnHandle {
    /// Whether the next close is the last one.
    fn is_last(&self, ledger: &Ledger) -> bool {
        let import = &ledger.handles[self.handle as usize].imports[self.import as usize];
        import.times.last().is_none_or(|time| time.count <= 1)
    }
}
