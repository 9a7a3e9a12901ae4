//! Turns the calls of one process into its state: virtual memory and pools.
//!
//! [`history`] has what the report knows of entries beside their state, [`book`] all memory over time by the place that made it,
//! [`team`] the part of a process in a multicast object, [`unused`] the mappings that no device could use, and [`asleep`] the ranges where
//! memory was unmapped.
//!
//! As in the handle table, a process has what a call takes when the call returns, and no longer has what a call
//! releases when that call begins. A handle that one thread releases and another receives anew in between stays
//! separate.

mod asleep;
pub mod book;
mod history;
pub mod location;
mod sum;
mod team;
#[cfg(test)]
pub mod tests;
mod unused;

pub use history::{
    AllocationHistory, At, Birth, Histories, MappingHistory, PoolHistory, ReservationHistory, Source, Target,
};
pub use location::Location;
pub use sum::Sum;
pub use team::{Bound, TeamHistory, Waits};
pub use unused::{Apart, Unused};

use crate::follow::ledger::{Realm, Site};
use cupeer_model::{Allocation, Delta, Family, Known, Mapping, Process, Table, View};
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::{is_done_all_the_same, judged};
use cupeer_report::model::Uuid;
use cupeer_spec::effect::{Effect, End, Object};
use cupeer_spec::function::FnId;

/// An allocation, with its history.
pub type OwnAllocation = Known<Allocation, AllocationHistory>;
/// A mapping, with its history.
pub type OwnMapping = Known<Mapping, MappingHistory>;

/// The memory of one process.
pub struct Memory {
    /// Where its fingerprints mean the same.
    pub realm: Realm,
    /// Its state.
    pub state: Process<Histories>,
    /// Changes by calls that had not returned when the last one began, by when they returned.
    waiting: Vec<(u64, Delta, At)>,
}

/// True if a call of a function can change the memory of a process.
#[inline]
pub fn concerns(function: FnId) -> bool {
    function.spec().is_virtual() || function.spec().changes_pools()
}

impl Memory {
    /// A process that has nothing yet, with its devices by their ordinals.
    pub fn new(realm: Realm, devices: Vec<Option<Uuid>>) -> Self {
        Memory { realm, state: Histories::state(devices), waiting: Vec::new() }
    }

    /// Notes a call that has returned.
    pub fn call(&mut self, function: FnId, call: &Call, at: At) {
        self.settle(call.start);
        let is_done = is_done_all_the_same(call);
        let Outcome::Returned(result) = call.outcome else { return self.lose(function) };
        if call.injected && (result == 0 || is_done) {
            self.lose(function);
        }
        let args = call.arguments();
        let home = call.details.owner.map(|(_, device)| device).filter(|device| *device >= 0);
        for delta in Delta::each(&judged(function, if is_done { 0 } else { result }, &args, call), home) {
            // What a fault plan made up is not there, and what the program was told is gone it gives up.
            if call.injected && (delta.takes() || delta.is_of_pools()) {
                continue;
            }
            if delta.takes() {
                self.waiting.push((call.end, delta, at));
                continue;
            }
            // Processors do not read their counters in program order: a call that waits has taken it.
            if !self.knows(&delta) {
                self.settle(u64::MAX);
            }
            self.state.apply(&delta, at);
        }
    }

    fn lose(&mut self, function: FnId) {
        if function.spec().is_virtual() {
            self.state.lose(Family::VirtualMemory);
        }
        if function.spec().changes_pools() {
            self.state.lose(Family::Pools);
        }
    }

    /// True if the process has what a call releases.
    fn knows(&self, delta: &Delta) -> bool {
        let (state, name) = (&self.state, delta.name);
        match *delta.effect {
            Effect::Ends(End { object: Object::Allocation, .. }) => {
                state.allocations.named(name).is_some_and(|it| it.references != 0)
            }
            Effect::Ends(End { object: Object::Reservation, .. }) => state.reservations.named(name).is_some(),
            Effect::Ends(End { object: Object::Mapping, .. }) => {
                state.mappings.touching((name, delta.bytes)).is_some()
            }
            Effect::Ends(_) => state.pools.named(name).is_some_and(|it| !it.is_destroyed),
            _ => state.pointers.named(name).is_some(),
        }
    }

    /// Takes what calls have taken that returned before a time.
    pub fn settle(&mut self, ticks: u64) {
        while let Some(next) = (0..self.waiting.len()).min_by_key(|i| self.waiting[*i].0)
            && self.waiting[next].0 <= ticks
        {
            let (_, delta, at) = self.waiting.remove(next);
            self.state.apply(&delta, at);
        }
    }

    /// Notes a call that has never returned: whoever binds memory waits until all devices have been added.
    pub fn never_returns(&mut self, call: &Call, waits: Waits) {
        let team = waits.function.spec().binds().and_then(|bound| call.number(bound.team));
        if let Some(known) = team.and_then(|team| self.state.allocations.named_mut(team)) {
            known.history.team.get_or_insert_default().waits = Some(waits);
        }
    }

    /// True if a call releases one of several references: the process still has what it is of.
    pub fn keeps_reference(&self, function: FnId, call: &Call) -> bool {
        let counted = function.spec().ends().filter(|end| end.object == Object::Allocation && end.is_counted);
        let handle = counted.and_then(|end| call.number(end.by));
        handle.and_then(|handle| self.state.allocation(handle)).is_some_and(|known| known.references > 1)
    }

    /// The size of the allocation that a call exports, and its location.
    pub fn exported(&self, function: FnId, call: &Call) -> Option<(Option<u64>, Location)> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Allocation)?;
        let known = self.state.allocations.named(call.number(shared.by)?)?;
        Some((known.size(), known.history.source.location()))
    }

    /// The device of the pool that a call exports.
    pub fn exported_pool(&self, function: FnId, call: &Call) -> Option<i32> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Pool)?;
        self.state.pool(call.number(shared.by)?)?.device
    }

    /// The allocations whose source was seen: those that the process has, and those that it shared and has given up.
    pub fn allocations(&self) -> impl Iterator<Item = &OwnAllocation> {
        self.state.allocations.each().filter(|known| known.history.is_seen())
    }

    /// The mappings in a range.
    pub fn mappings(&self, range: (u64, u64)) -> impl Iterator<Item = &OwnMapping> {
        self.state.mappings.each().filter(move |mapping| mapping.touches(range))
    }

    /// Notes that access from a device to another one was switched on.
    pub fn enabled(&mut self, from: i32, to: i32) {
        self.state.keeper.unmapped.enabled(from, to);
    }

    /// The place and time of the last release of a handle.
    pub fn released(&self, handle: u64) -> Option<(Site, u64)> {
        let at = self.state.allocations.named(handle)?.history.released_at?;
        Some((at.site, at.time))
    }
}
