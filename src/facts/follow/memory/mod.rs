//! Turns the calls of one process into its state: virtual memory and pools.
//!
//! [`history`] has the facts about entries that are not in their state, [`book`] all memory over time by the place that made it,
//! [`unused`] the mappings that no device could use, and [`asleep`] the ranges where memory was unmapped.

mod asleep;
pub mod book;
mod history;
#[cfg(test)]
pub mod tests;
mod unused;

pub use history::{
    AllocationHistory, Birth, Bound, Histories, MappingHistory, PoolHistory, ReservationHistory, Source, Sum,
};
pub use unused::{Apart, Unused};

use crate::follow::ledger::{CallSite, HandleDomain};
use crate::follow::returns::Returns;
use cupeer_model::alloc_props::AllocProps;
use cupeer_model::{Allocation, Delta, Family, Known, Mapping, Process, Table, View};
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::{is_done_all_the_same, judged};
use cupeer_report::model::{Uuid, Where};
use cupeer_spec::effect::{Effect, End, Object};
use cupeer_spec::function::FnId;

/// The location of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub enum Location {
    /// On the device with this UUID.
    Device(Uuid),
    /// In the memory of the host.
    Host,
    /// Not in memory: the allocation is a multicast object.
    Multicast,
    /// The recording does not show the location.
    #[default]
    Unknown,
}

impl Location {
    /// Returns the device, if the location is a device.
    pub fn device(self) -> Option<Uuid> {
        match self {
            Location::Device(uuid) => Some(uuid),
            Location::Host | Location::Multicast | Location::Unknown => None,
        }
    }

    /// Returns the location in the form of the report's rows.
    pub fn place(self) -> (Where, Option<Uuid>) {
        let place = match self {
            Location::Device(_) => Where::Device,
            Location::Host => Where::Host,
            Location::Multicast => Where::Multicast,
            Location::Unknown => Where::Unknown,
        };
        (place, self.device())
    }

    /// Returns the location for the device ordinal of an allocation's properties.
    pub fn of_device(device: Option<i32>, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Location {
        let on_device = |_| uuid(device).map_or(Location::Unknown, Location::Device);
        device.map_or(Location::Host, on_device)
    }

    /// Returns the location that a call asks for when it creates an allocation. `None` if the call has no properties of an
    /// allocation.
    pub fn wanted_by(call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<Location> {
        let wanted = AllocProps::from_bytes(call.argument(call.function?.spec().describes()?)?)?;
        Some(Location::of_device(wanted.device, uuid))
    }
}

/// An allocation, with its history.
pub type OwnAllocation = Known<Allocation, AllocationHistory>;
/// A mapping, with its history.
pub type OwnMapping = Known<Mapping, MappingHistory>;

/// The memory of one process.
pub struct Memory {
    /// The domain in which its fingerprints are comparable.
    pub domain: HandleDomain,
    /// The allocations, mappings, reservations, and pools of the process.
    pub state: Process<Histories>,
    /// Changes by calls that had not returned when the last call began.
    waiting: Returns<(Delta, CallSite)>,
}

/// Returns true if a call of a function can change the memory of a process.
#[inline]
pub fn concerns(function: FnId) -> bool {
    function.spec().is_virtual() || function.spec().changes_pools()
}

impl Memory {
    /// Returns the state of a process without any memory. `devices` are its devices by their ordinals.
    pub fn new(domain: HandleDomain, devices: Vec<Option<Uuid>>) -> Self {
        Memory { domain, state: Histories::state(devices), waiting: Returns::default() }
    }

    /// Applies a call that has returned to the state.
    pub fn call(&mut self, function: FnId, call: &Call, at: CallSite) {
        self.settle(call.start);
        let is_done = is_done_all_the_same(call);
        let Outcome::Returned(result) = call.outcome else { return self.lose(function) };
        if call.injected && (result == 0 || is_done) {
            self.lose(function);
        }
        let args = call.arguments();
        let home = call.details.owner.map(|(_, device)| device).filter(|device| *device >= 0);
        for delta in Delta::each(&judged(function, if is_done { 0 } else { result }, &args, call), home) {
            // Objects that a fault plan invented do not exist. But if a fault plan reported success, the process no longer uses
            // the object.
            if call.injected && (delta.takes() || delta.is_of_pools()) {
                continue;
            }
            if delta.takes() {
                self.waiting.push(call.end, (delta, at));
                continue;
            }
            // A waiting call must have created the object: processors may read the clock out of order, so its end can seem too
            // late.
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

    /// Returns true if the process has the object that a change releases.
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

    /// Applies the waiting changes of calls that returned before a time.
    pub fn settle(&mut self, ticks: u64) {
        while let Some((delta, at)) = self.waiting.next_until(ticks) {
            self.state.apply(&delta, at);
        }
    }

    /// Notes a call that never returned, if it binds memory to a multicast object: it waits until all devices have been added.
    pub fn never_returns(&mut self, call: &Call, waits: CallSite) {
        let team = waits.function.spec().binds().and_then(|bound| call.number(bound.team));
        if let Some(known) = team.and_then(|team| self.state.allocations.named_mut(team)) {
            known.history.team.get_or_insert_default().waits = Some(waits);
        }
    }

    /// Returns true if a call releases one of several references, so the process still has the allocation.
    pub fn keeps_reference(&self, function: FnId, call: &Call) -> bool {
        let counted = function.spec().ends().filter(|end| end.object == Object::Allocation && end.is_counted);
        let handle = counted.and_then(|end| call.number(end.by));
        handle.and_then(|handle| self.state.allocation(handle)).is_some_and(|known| known.references > 1)
    }

    /// Returns the size in bytes and the location of the allocation that a call exports.
    pub fn exported(&self, function: FnId, call: &Call) -> Option<(Option<u64>, Location)> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Allocation)?;
        let known = self.state.allocations.named(call.number(shared.by)?)?;
        Some((known.size(), known.history.source.location()))
    }

    /// Returns the device of the pool that a call exports.
    pub fn exported_pool(&self, function: FnId, call: &Call) -> Option<i32> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Pool)?;
        self.state.pool(call.number(shared.by)?)?.device
    }

    /// Returns true if the process still has everything that it ever mapped.
    pub fn has_unmapped_nothing(&self) -> bool {
        let mapped = &self.state.keeper.mapped;
        mapped.times > 0 && mapped.now == mapped.times
    }

    /// Returns the most bytes that the process had created on a device at one time.
    pub fn made_on(&self, device: Uuid) -> u64 {
        self.state.keeper.own.get(&Location::Device(device)).map_or(0, |sum| sum.most)
    }

    /// Returns the allocations whose creation or import was seen: existing ones, and released ones that were shared.
    pub fn allocations(&self) -> impl Iterator<Item = &OwnAllocation> {
        self.state.allocations.each().filter(|known| known.history.is_seen())
    }

    /// Returns the mappings that overlap a range: first address, and number of bytes.
    pub fn mappings(&self, range: (u64, u64)) -> impl Iterator<Item = &OwnMapping> {
        self.state.mappings.each().filter(move |mapping| mapping.touches(range))
    }

    /// Notes that the process enabled peer access from one device to another.
    pub fn enabled(&mut self, from: i32, to: i32) {
        self.state.keeper.unmapped.enabled(from, to);
    }

    /// Returns the last call that released a handle.
    pub fn released(&self, handle: u64) -> Option<CallSite> {
        self.state.allocations.named(handle)?.history.released_at
    }
}
