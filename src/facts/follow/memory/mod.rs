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
    AllocationHistory, AllocationSource, Bound, Creation, MappingHistory, MemoryHistories, PoolHistory,
    ReservationHistory, UsageSum,
};
pub use unused::{DeviceWithoutAccess, UnusedMapping};

use crate::follow::ledger::{CallSite, HandleDomain};
use crate::follow::returns::WaitingResults;
use cupeer_model::alloc_props::AllocationProps;
use cupeer_model::{Allocation, Delta, Mapping, ObjectFamily, ProcessObjects, Table, TableEntry, View};
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::{as_judged_call, is_completed_anyway};
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
    pub fn to_report_location(self) -> (Where, Option<Uuid>) {
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
    pub fn requested_by(call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<Location> {
        let wanted = AllocationProps::from_bytes(call.argument(call.function?.spec().properties_argument()?)?)?;
        Some(Location::of_device(wanted.device, uuid))
    }
}

/// An allocation, with its history.
pub type OwnAllocation = TableEntry<Allocation, AllocationHistory>;
/// A mapping, with its history.
pub type OwnMapping = TableEntry<Mapping, MappingHistory>;

/// The memory of one process.
pub struct ProcessMemory {
    /// The domain in which the fingerprints of the process are comparable.
    pub domain: HandleDomain,
    /// The allocations, mappings, reservations, and pools of the process.
    pub state: ProcessObjects<MemoryHistories>,
    /// Changes by calls that had not returned when the last call began.
    waiting: WaitingResults<(Delta, CallSite)>,
}

/// Returns true if a call of a function can change the memory of a process.
#[inline]
pub fn may_change_memory(function: FnId) -> bool {
    function.spec().is_virtual_memory_call() || function.spec().changes_pools()
}

impl ProcessMemory {
    /// Returns the state of a process without any memory. `devices` are its devices by their ordinals.
    pub fn new(domain: HandleDomain, devices: Vec<Option<Uuid>>) -> Self {
        ProcessMemory { domain, state: MemoryHistories::new_state(devices), waiting: WaitingResults::default() }
    }

    /// Applies a call that has returned to the state.
    pub fn apply_call(&mut self, function: FnId, call: &Call, at: CallSite) {
        self.apply_returned(call.start);
        let is_done = is_completed_anyway(call);
        let Outcome::Returned(result) = call.outcome else { return self.lose_family_of(function) };
        if call.injected && (result == 0 || is_done) {
            self.lose_family_of(function);
        }
        let args = call.arguments();
        let home = call.details.owner.map(|(_, device)| device).filter(|device| *device >= 0);
        for delta in
            Delta::changes_of_call(&as_judged_call(function, if is_done { 0 } else { result }, &args, call), home)
        {
            // Objects that a fault plan invented do not exist. But if a fault plan reported success, the process no longer uses
            // the object.
            if call.injected && (delta.takes_effect_on_return() || delta.is_about_pools()) {
                continue;
            }
            if delta.takes_effect_on_return() {
                self.waiting.push(call.end, (delta, at));
                continue;
            }
            // A waiting call must have created the object: processors may read the clock out of order, so its end can seem too
            // late.
            if !self.has_object_of(&delta) {
                self.apply_returned(u64::MAX);
            }
            self.state.apply_delta(&delta, at);
        }
    }

    fn lose_family_of(&mut self, function: FnId) {
        if function.spec().is_virtual_memory_call() {
            self.state.note_loss(ObjectFamily::VirtualMemory);
        }
        if function.spec().changes_pools() {
            self.state.note_loss(ObjectFamily::Pools);
        }
    }

    /// Returns true if the process has the object that a change releases.
    fn has_object_of(&self, delta: &Delta) -> bool {
        let (state, name) = (&self.state, delta.name);
        match *delta.effect {
            Effect::Ends(End { object: Object::Allocation, .. }) => {
                state.allocations.find_by_name(name).is_some_and(|it| it.references != 0)
            }
            Effect::Ends(End { object: Object::Reservation, .. }) => state.reservations.find_by_name(name).is_some(),
            Effect::Ends(End { object: Object::Mapping, .. }) => {
                state.mappings.first_overlapping((name, delta.bytes)).is_some()
            }
            Effect::Ends(_) => state.pools.find_by_name(name).is_some_and(|it| !it.is_destroyed),
            _ => state.pointers.find_by_name(name).is_some(),
        }
    }

    /// Applies the waiting changes of calls that returned before a time.
    pub fn apply_returned(&mut self, ticks: u64) {
        while let Some((delta, at)) = self.waiting.take_returned_by(ticks) {
            self.state.apply_delta(&delta, at);
        }
    }

    /// Stores a call as waiting if it binds memory to a multicast object: it returns only when all devices have been
    /// added.
    pub fn note_waiting_bind(&mut self, call: &Call, waits: CallSite) {
        let team = waits.function.spec().binds().and_then(|bound| call.argument_number(bound.team));
        if let Some(known) = team.and_then(|team| self.state.allocations.find_by_name_mut(team)) {
            known.history.multicast.get_or_insert_default().waiting_bind = Some(waits);
        }
    }

    /// Returns true if a call releases one of several references, so the process still has the allocation.
    pub fn keeps_reference(&self, function: FnId, call: &Call) -> bool {
        let counted = function.spec().ends().filter(|end| end.object == Object::Allocation && end.is_counted);
        let handle = counted.and_then(|end| call.argument_number(end.by));
        handle.and_then(|handle| self.state.allocation(handle)).is_some_and(|known| known.references > 1)
    }

    /// Returns the size in bytes and the location of the allocation that a call exports.
    pub fn exported_size_and_location(&self, function: FnId, call: &Call) -> Option<(Option<u64>, Location)> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Allocation)?;
        let known = self.state.allocations.find_by_name(call.argument_number(shared.by)?)?;
        Some((known.size(), known.history.source.location()))
    }

    /// Returns the device of the pool that a call exports.
    pub fn exported_pool_device(&self, function: FnId, call: &Call) -> Option<i32> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Pool)?;
        self.state.pool(call.argument_number(shared.by)?)?.device
    }

    /// Returns true if the process still has everything that it ever mapped.
    pub fn has_unmapped_nothing(&self) -> bool {
        let mapped = &self.state.keeper.mapped;
        mapped.times > 0 && mapped.now == mapped.times
    }

    /// Returns the most bytes that the process had created on a device at one time.
    pub fn most_bytes_on(&self, device: Uuid) -> u64 {
        self.state.keeper.own.get(&Location::Device(device)).map_or(0, |sum| sum.most)
    }

    /// Returns the allocations whose creation or import was seen: existing ones, and released ones that were shared.
    pub fn allocations(&self) -> impl Iterator<Item = &OwnAllocation> {
        self.state.allocations.each().filter(|known| known.history.has_recorded_creation())
    }

    /// Returns the mappings that overlap a range: first address, and number of bytes.
    pub fn mappings_in(&self, range: (u64, u64)) -> impl Iterator<Item = &OwnMapping> {
        self.state.mappings.each().filter(move |mapping| mapping.overlaps(range))
    }

    /// Adds peer access that the process enabled from one device to another.
    pub fn add_peer_access(&mut self, from: i32, to: i32) {
        self.state.keeper.unused_mappings.add_peer_access(from, to);
    }

    /// Returns the last call that released a handle.
    pub fn releasing_call(&self, handle: u64) -> Option<CallSite> {
        self.state.allocations.find_by_name(handle)?.history.released_at
    }
}
