//! Facts about entries that are not in their state: places and times of calls, fingerprints, and sums.

use super::asleep::UnmappedRanges;
use super::book::{MemoryBook, MemoryKind, MemoryPlace};
use super::unused::{UnusedMapping, UnusedMappings};
use super::{Location, OwnAllocation, OwnMapping};
use crate::follow::ledger::CallSite;
use crate::follow::peers::MappingAccess;
use crate::follow::steps::StepTimes;
use cupeer_model::alloc_props::AccessRights;
use cupeer_model::{
    Allocation, Delta, EntryHistory, Id, IndexedTable, Keeper, Mapping, ObjectFamily, ObjectOrigin, Pointer, Pool,
    ProcessObjects, Reservation, Table, TableEntry, View,
};
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_spec::effect::{Effect, Object, Shared};
use std::collections::{BTreeMap, HashMap};

/// Number of the latest fingerprints of a pool that are kept.
const MOST_EXPORTS: usize = 8;

/// The call that created an object, and the ordinal of the object among all objects that the same place created.
#[derive(Clone, Copy)]
pub struct Creation {
    pub ordinal: u64,
    pub call: CallSite,
}

/// Origin of an allocation in a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AllocationSource {
    /// The process created the allocation at this location.
    Made(Location),
    /// The process imported the allocation by the handle with this fingerprint; 0 if unknown.
    Imported(u64),
    /// The call by which the process got the allocation is not in the recording.
    #[default]
    Unseen,
}

impl AllocationSource {
    /// Returns the location, which is known if the process created the allocation.
    pub fn location(self) -> Location {
        match self {
            AllocationSource::Made(location) => location,
            AllocationSource::Imported(_) | AllocationSource::Unseen => Location::Unknown,
        }
    }
}

/// Facts about an allocation.
#[derive(Default)]
pub struct AllocationHistory {
    pub source: AllocationSource,
    /// The device of an imported allocation, if the driver reported it.
    pub device: Option<Uuid>,
    /// The call that created, imported, or first retained the allocation.
    pub creation: Option<Creation>,
    /// Time at which neither a handle nor a mapping was left in the process.
    pub ended: Option<u64>,
    /// Number of times that the process retained the allocation.
    pub retained: u64,
    pub retained_at: Option<CallSite>,
    pub released: u64,
    pub released_at: Option<CallSite>,
    /// The fingerprints of the exported handles of the allocation.
    pub exports: Vec<u64>,
    /// Number of exports with an unknown fingerprint.
    pub unknown_exports: u64,
    /// Devices and bound memory of a multicast object.
    pub multicast: Option<MulticastHistory>,
}

impl AllocationHistory {
    /// Returns true if the call that created or imported the allocation was seen.
    pub fn has_recorded_creation(&self) -> bool {
        self.source != AllocationSource::Unseen
    }

    /// Returns the time at which the allocation was created, imported, or first retained.
    pub fn created_at(&self) -> u64 {
        self.creation.map_or(0, |birth| birth.call.at)
    }

    /// Returns the stack of the call that created, imported, or first retained the allocation.
    pub fn creating_stack(&self) -> Option<StackNumber> {
        self.creation.map(|birth| birth.call.site.stack)
    }
}

impl EntryHistory for AllocationHistory {
    fn is_kept_after_end(&self) -> bool {
        let is_shared = !self.exports.is_empty() || self.unknown_exports > 0;
        is_shared || matches!(self.source, AllocationSource::Imported(_)) || self.multicast.is_some()
    }
}

/// Facts about a mapping.
#[derive(Default)]
pub struct MappingHistory {
    pub creation: Option<Creation>,
    /// The last call that granted or removed access of devices.
    pub granted: Option<CallSite>,
    /// The devices that have access, each with its CUmemAccess_flags.
    pub access: Vec<(Uuid, i32)>,
    /// Bit mask of the ordinals of devices that ever got access; all bits are set if that is unknown.
    pub devices: u64,
}

impl MappingHistory {
    /// Returns the call that created the mapping.
    pub fn mapping_call(&self) -> Option<CallSite> {
        self.creation.map(|birth| birth.call)
    }
}

impl EntryHistory for MappingHistory {}

/// Facts about a reservation.
#[derive(Default)]
pub struct ReservationHistory {
    pub creation: Option<Creation>,
}

impl EntryHistory for ReservationHistory {}

/// Facts about a pool.
#[derive(Default)]
pub struct PoolHistory {
    /// The calls that created or imported the pool. The process must destroy the pool once for each of them.
    pub creations: Vec<Creation>,
    /// Handle of the pool, which the driver may have given to another pool since.
    pub handle: u64,
    /// Device of the pool, if known.
    pub device: Option<Uuid>,
    pub since: u64,
    pub destroyed: Option<u64>,
    pub exports: Vec<u64>,
    pub imported_as: u64,
    pub pointers_imported: u64,
    /// Access of devices to the pool: the flags, and the time of the last change.
    pub access: BTreeMap<Uuid, (i32, u64)>,
}

impl EntryHistory for PoolHistory {
    fn is_kept_after_end(&self) -> bool {
        true
    }
}

/// The part of one process in a multicast object: its devices, its bound memory, and the call that waits.
#[derive(Default)]
pub struct MulticastHistory {
    /// The devices that this process added, each with the time.
    pub added: Vec<(Option<Uuid>, u64)>,
    /// The memory that this process bound and did not unbind.
    pub bound: Vec<Bound>,
    /// Number of times that the process bound memory.
    pub binds: u64,
    pub unbinds: u64,
    /// A call that binds memory and has not returned.
    pub waiting_bind: Option<CallSite>,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub device: Option<Uuid>,
    /// Offset in the multicast object, in bytes.
    pub offset: u64,
    pub bytes: u64,
}

impl MulticastHistory {
    fn add_bound(&mut self, bound: Bound) {
        self.binds += 1;
        self.bound.push(bound);
    }

    /// Removes the memory that was bound for a device at an offset. Memory whose device is unknown is removed by its offset
    /// alone.
    fn remove_bound(&mut self, device: Option<Uuid>, at: u64) {
        self.unbinds += 1;
        let is_it = |bound: &Bound| bound.offset == at && (bound.device == device || bound.device.is_none());
        if let Some(index) = self.bound.iter().position(is_it) {
            self.bound.swap_remove(index);
        }
    }
}

/// Number and bytes of entries, now and at most.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UsageSum {
    pub times: u64,
    pub now: u64,
    pub bytes: u64,
    pub most: u64,
}

impl UsageSum {
    pub fn add(&mut self, bytes: u64) {
        self.times += 1;
        self.now += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.most = self.most.max(self.bytes);
    }

    pub fn remove(&mut self, bytes: u64) {
        self.now = self.now.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Facts about a process as a whole.
#[derive(Default)]
pub struct MemoryHistories {
    /// The devices of the process, by their ordinals.
    devices: Vec<Option<Uuid>>,
    /// The allocations that the process created, by location.
    pub own: BTreeMap<Location, UsageSum>,
    pub reserved: UsageSum,
    pub mapped: UsageSum,
    /// Access of devices to memory, by device and owner.
    pub reach: BTreeMap<(Uuid, AllocationSource), MappingAccess>,
    /// The ended mappings that devices could not use.
    pub unused_mappings: UnusedMappings,
    /// Number of objects that each place ever created, by kind.
    pub created_count: HashMap<(Object, StackNumber), u64>,
    /// For each allocation that has a handle and no mapping any more, the time at which its last mapping ended.
    pub unmapped_since: HashMap<Id, u64>,
    pub unmapped_ranges: UnmappedRanges,
    /// The times at which reserved addresses were freed.
    pub unreserved: StepTimes,
    /// All memory that the process allocated, over time.
    pub book: MemoryBook,
}

impl MemoryHistories {
    /// Returns the state of a process that has nothing yet.
    pub fn new_state(devices: Vec<Option<Uuid>>) -> ProcessObjects<MemoryHistories> {
        let mut state: ProcessObjects<MemoryHistories> = ProcessObjects::default();
        state.keeper.devices = devices;
        state
    }

    fn count_creation(&mut self, object: Object, at: CallSite) -> Option<Creation> {
        let made = self.created_count.entry((object, at.site.stack)).or_default();
        *made += 1;
        Some(Creation { ordinal: *made - 1, call: at })
    }

    fn device_uuid(&self, ordinal: i32) -> Option<Uuid> {
        self.devices.get(usize::try_from(ordinal).ok()?).copied().flatten()
    }

    /// Moves an allocation that the process created from one kind to another in the book. `None` is the kind before
    /// its creation and after its end.
    fn move_in_book(&mut self, of: &OwnAllocation, from: Option<MemoryKind>, to: Option<MemoryKind>, at: CallSite) {
        let (AllocationSource::Made(location), Some(stack)) = (of.history.source, of.history.creating_stack()) else {
            return;
        };
        for (kind, sign) in [(from, -1), (to, 1)] {
            let Some(kind) = kind.filter(|_| of.multicast.is_none()) else { continue };
            self.book.add_change(MemoryPlace { kind, location, stack }, at.at, sign, i64::from(sign) * of.bytes as i64);
        }
    }

    fn update_reach(&mut self, device: Uuid, of: Option<&OwnAllocation>, (before, after): (i32, i32), at: u64) {
        let source = of.map_or(AllocationSource::Unseen, |of| of.history.source);
        let is_own = source == AllocationSource::Made(Location::Device(device));
        if source == AllocationSource::Unseen || is_own || before == 0 && after == 0 {
            return;
        }
        let reach = self.reach.entry((device, source)).or_default();
        if after != 0 {
            reach.granted += u64::from(before == 0);
            reach.mappings_now += u64::from(before == 0);
            (reach.last_granted, reach.lost_at) = (at, None);
        } else {
            reach.mappings_now = reach.mappings_now.saturating_sub(1);
            reach.lost_at = (reach.mappings_now == 0).then_some(at);
        }
    }
}

impl Keeper for MemoryHistories {
    type At = CallSite;
    type OfAllocation = AllocationHistory;
    type OfMapping = MappingHistory;
    type OfReservation = ReservationHistory;
    type OfPool = PoolHistory;
    type Allocations = IndexedTable<Allocation, AllocationHistory>;
    type Mappings = IndexedTable<Mapping, MappingHistory>;
    type Reservations = IndexedTable<Reservation, ReservationHistory>;
    type Pools = IndexedTable<Pool, PoolHistory>;
    type Pointers = IndexedTable<Pointer, ()>;

    fn on_allocated(&mut self, new: &mut OwnAllocation, imported_as: u64, at: CallSite) {
        let location = || match (new.multicast, new.types) {
            (Some(_), _) => Location::Multicast,
            (_, None) => Location::Unknown,
            _ => Location::of_device(new.device, |device| self.device_uuid(device?)),
        };
        let source = match new.origin {
            ObjectOrigin::Made => AllocationSource::Made(location()),
            ObjectOrigin::Imported => AllocationSource::Imported(imported_as),
            ObjectOrigin::Found => AllocationSource::Unseen,
        };
        let home = new.device.and_then(|device| self.device_uuid(device)).filter(|_| new.is_imported());
        let (birth, team) =
            (self.count_creation(Object::Allocation, at), new.multicast.map(|_| MulticastHistory::default()));
        new.history = AllocationHistory {
            source,
            device: home,
            creation: birth,
            multicast: team,
            ..AllocationHistory::default()
        };
        if let AllocationSource::Made(location) = source {
            self.own.entry(location).or_default().add(new.bytes);
            self.move_in_book(new, None, Some(MemoryKind::Mapped), at);
        }
    }

    fn on_changed(&mut self, known: &mut OwnAllocation, delta: &Delta, at: CallSite) {
        let history = &mut known.history;
        let device = delta.device.and_then(|device| self.device_uuid(device));
        match (delta.effect, delta.fingerprint) {
            (Effect::Retains(_), _) => {
                history.retained += 1;
                history.retained_at = Some(at);
            }
            (Effect::Ends(_), _) => {
                history.released += 1;
                history.released_at = Some(at);
            }
            (Effect::Exports(_), 0) => history.unknown_exports += 1,
            (Effect::Exports(_), fingerprint) if !history.exports.contains(&fingerprint) => {
                history.exports.push(fingerprint);
            }
            (Effect::Joins(_), _) => history.multicast.get_or_insert_default().added.push((device, at.at)),
            (Effect::Binds(_), _) => {
                let bound = Bound { device, offset: delta.bind_offset, bytes: delta.bytes };
                history.multicast.get_or_insert_default().add_bound(bound);
            }
            (Effect::Unbinds(_), _) => {
                history.multicast.get_or_insert_default().remove_bound(device, delta.bind_offset)
            }
            _ => {}
        }
    }

    fn on_ended(&mut self, known: &mut OwnAllocation, at: CallSite) {
        let kind =
            if self.unmapped_since.remove(&known.id).is_some() { MemoryKind::Unmapped } else { MemoryKind::Mapped };
        if known.history.ended.is_none() {
            known.history.ended = Some(at.at);
            if let AllocationSource::Made(location) = known.history.source {
                self.own.entry(location).or_default().remove(known.bytes);
                self.move_in_book(known, Some(kind), None, at);
            }
        }
    }

    fn on_mapped(&mut self, new: &mut OwnMapping, of: Option<&OwnAllocation>, at: CallSite) {
        new.history.creation = self.count_creation(Object::Mapping, at);
        self.unmapped_ranges.set_mapped_again(new.name, new.bytes);
        self.mapped.add(new.bytes);
        if let Some(of) = of
            && self.unmapped_since.remove(&of.id).is_some()
        {
            self.move_in_book(of, Some(MemoryKind::Unmapped), Some(MemoryKind::Mapped), at);
        }
    }

    fn on_unmapped(&mut self, old: &OwnMapping, of: Option<&OwnAllocation>, at: CallSite) {
        self.mapped.remove(old.bytes);
        self.unmapped_ranges.add_unmapped(old, at);
        if let Some(of) = of.filter(|of| of.mappings == 1) {
            self.unmapped_since.insert(of.id, at.at);
            self.move_in_book(of, Some(MemoryKind::Mapped), Some(MemoryKind::Unmapped), at);
        }
        for (device, flags) in &old.history.access {
            self.update_reach(*device, of, (*flags, 0), at.at);
        }
        let unused = self.unused_mappings.as_unused(old, of, false);
        self.unused_mappings.add_mapping(unused);
    }

    fn on_granted(
        &mut self,
        known: &mut OwnMapping,
        of: Option<&OwnAllocation>,
        (access, is_whole): (AccessRights, bool),
        at: CallSite,
    ) {
        known.history.granted = Some(at);
        known.history.devices |= if is_whole { access.granted_mask() } else { !0 };
        for (device, flags) in access.each() {
            let Some(device) = self.device_uuid(device) else { continue };
            let all = &mut known.history.access;
            let before = match all.iter_mut().find(|(its, _)| *its == device) {
                Some((_, its)) => std::mem::replace(its, flags),
                None => {
                    all.push((device, flags));
                    0
                }
            };
            self.update_reach(device, of, (before, flags), at.at);
        }
    }

    fn on_reserved(&mut self, new: &mut TableEntry<Reservation, ReservationHistory>, at: CallSite) {
        new.history.creation = self.count_creation(Object::Reservation, at);
        self.reserved.add(new.bytes);
        self.unmapped_ranges.remove_touching(new.name, new.bytes);
    }

    fn on_unreserved(&mut self, old: &TableEntry<Reservation, ReservationHistory>, at: CallSite) {
        self.reserved.remove(old.bytes);
        self.unmapped_ranges.set_freed(old.name, old.bytes, at);
        self.unreserved.add(at.at);
    }

    fn on_pool_changed(&mut self, known: &mut TableEntry<Pool, PoolHistory>, delta: &Delta, at: CallSite) {
        let (pool, history) = (known.state, &mut known.history);
        history.handle = known.name;
        match delta.effect {
            Effect::Exports(_) if delta.fingerprint != 0 => {
                history.exports.truncate(MOST_EXPORTS - 1);
                history.exports.insert(0, delta.fingerprint);
            }
            Effect::Grants(_) => {
                let known = |(device, flags)| Some((self.device_uuid(device)?, (flags, at.at)));
                history.access.extend(delta.access.0.each().filter_map(known));
            }
            Effect::Ends(_) => {
                history.creations.pop();
                history.destroyed = pool.is_destroyed.then_some(at.at);
            }
            Effect::Opens(Shared { object: Object::Pointer, .. }) => history.pointers_imported += 1,
            Effect::Makes(_) | Effect::Opens(_) | Effect::Asks(_) => {
                if history.since == 0 {
                    history.since = at.at;
                }
                if history.creations.is_empty() || pool.origin == ObjectOrigin::Imported {
                    history.creations.extend(self.count_creation(Object::Pool, at));
                }
                history.imported_as = delta.fingerprint;
                history.device = pool.device.and_then(|device| self.device_uuid(device));
            }
            _ => {}
        }
    }
}

impl super::ProcessMemory {
    /// Returns the mappings that no device, or not every device with peer access, could use; none if calls may be missing. Called
    /// when all calls have been applied.
    pub fn take_unused_mappings(&mut self) -> Vec<UnusedMapping> {
        let state = &mut self.state;
        if state.has_lost(ObjectFamily::VirtualMemory) {
            return Vec::new();
        }
        let mut left = UnusedMappings::default();
        for mapping in state.mappings.each() {
            let of = state.allocations.find(mapping.allocation);
            left.add_mapping(state.keeper.unused_mappings.as_unused(mapping, of, true));
        }
        state.keeper.unused_mappings.drain().chain(left.drain()).collect()
    }
}
