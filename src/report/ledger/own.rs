//! What a process has done so far, beside what it has open: what it has closed, which contexts it has ended, where it has
//! switched access on. For the rules about its next call.

use super::super::values::Ending;
use super::Ledger;
use super::follow::{Follower, OwnHandle};
use super::pools::OwnPools;
use super::space::OwnSpace;
use cupeer_record::{Call, Outcome};
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::results::Result;
use std::collections::{HashMap, HashSet, VecDeque};

/// So many closed mappings are remembered, as many as the library remembers.
const REMEMBERED: usize = 256;

#[derive(Default)]
pub struct Own {
    closed: VecDeque<Closed>,
    ended: HashSet<u64>,
    /// When access was switched on, by the two contexts.
    enabled: HashMap<(u64, u64), u64>,
    /// What it has of virtual memory.
    pub space: OwnSpace,
    /// What it has of pools.
    pub pools: OwnPools,
}

#[derive(Clone, Copy)]
pub struct Closed {
    pub address: u64,
    pub fingerprint: u64,
    pub at: u64,
    /// Whether it went with its context.
    pub with_context: bool,
}

impl Own {
    #[inline]
    pub fn concerns(&self, function: FnId) -> bool {
        let spec = function.spec();
        let is_any = [Group::Enable, Group::Release, Group::Lifetime].iter().any(|group| spec.is_in(*group));
        is_any || !self.ended.is_empty()
    }

    /// Notes a call, before the ledger does.
    pub fn call(&mut self, follower: &Follower, ledger: &Ledger, function: FnId, call: &Call, at: u64) {
        let spec = function.spec();
        let context = call.details.context;
        if let Some(peer) = spec.enables().or(spec.disables()) {
            let contexts = context.zip(call.number(peer.by));
            let is_on = call.outcome == Outcome::Returned(Result::PEER_ACCESS_ALREADY_ENABLED as i32)
                || call.succeeded();
            match contexts {
                Some(contexts) if is_on && spec.enables().is_some() => {
                    self.enabled.entry(contexts).or_insert(at);
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
        if let Some(address) =
            spec.closes().filter(|_| spec.ends().is_none()).and_then(|by| call.number(by.by))
        {
            let held = follower.opened.get(&(Object::Memory, address));
            if let Some(held) = held.filter(|held| held.is_last(ledger)) {
                self.remember(address, held, ledger, at, false);
            }
        } else if let Some(ending) = Ending::of(function, call) {
            self.ended.extend(ending.context);
            self.enabled
                .retain(|(from, to), _| !ending.takes(Some(*from), None) && !ending.takes(Some(*to), None));
            for ((kind, address), held) in &follower.opened {
                if *kind == Object::Memory && ending.takes(held.context, held.device) {
                    self.remember(*address, held, ledger, at, true);
                }
            }
        } else if !self.ended.is_empty()
            && let Some(context) = context
        {
            // Another one has its address now.
            self.ended.remove(&context);
        }
    }

    fn remember(&mut self, address: u64, held: &OwnHandle, ledger: &Ledger, at: u64, with_context: bool) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        let fingerprint = ledger.handles[held.handle as usize].fingerprint;
        self.closed.push_back(Closed { address, fingerprint, at, with_context });
    }

    /// The last time that something was closed at an address.
    pub fn closed(&self, address: u64) -> Option<Closed> {
        self.closed.iter().rev().find(|closed| closed.address == address).copied()
    }

    /// Whether a context was ended, and no other one has been seen with its address.
    pub fn has_ended(&self, context: u64) -> bool {
        self.ended.contains(&context)
    }

    /// Since when access from a context to another one is on.
    pub fn enabled(&self, from: u64, to: u64) -> Option<u64> {
        self.enabled.get(&(from, to)).copied()
    }
}

impl OwnHandle {
    /// Whether the next close is the last one.
    fn is_last(&self, ledger: &Ledger) -> bool {
        let import = &ledger.handles[self.handle as usize].imports[self.import as usize];
        import.times.last().is_none_or(|time| time.count <= 1)
    }
}
