//! Facts about entries that are not in their state: places and times of calls, fingerprints, and sums.

use super::asleep::Asleep;
use super::book::{Book, Kind, Place};
use super::unused::{Unmapped, Unused};
use super::{Location, OwnAllocation, OwnMapping};
use crate::follow::ledger::CallSite;
use crate::follow::peers::Reach;
use crate::follow::steps::Steps;
use cupeer_model::alloc_props::Access;
use cupeer_model::{
    Allocation, Delta, Family, History, Id, Indexed, Keeper, Known, Mapping, Origin, Pointer, Pool, Process,
    Reservation, Table, View,
};
use cupeer_report::model::Uuid;
use cupeer_report::places::Stack;
use cupeer_spec::effect::{Effect, Object, Shared};
use std::collections::{BTreeMap, HashMap};

/// Largest number of stored fingerprints of one pool.
const MOST_EXPORTS: usize = 8;

/// The call that created an object, and the ordinal of the object among all objects that the same place created.
#[derive(Clone, Copy)]
pub struct Birth {
    pub ordinal: u64,
    pub call: CallSite,
}

/// Origin of an allocation in a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The process created it at this location.
    Made(Location),
    /// The process imported it by the handle with this fingerprint; 0 if unknown.
    Imported(u64),
    /// The call by which the process got it is not in the recording.
    #[default]
    Unseen,
}

impl Source {
    /// Returns the location, which is known if the process created the allocation.
    pub fn location(self) -> Location {
        match self {
            Source::Made(location) => location,
            Source::Imported(_) | Source::Unseen => Location::Unknown,
        }
    }
}

/// Facts about an allocation.
#[derive(Default)]
pub struct AllocationHistory {
    pub source: Source,
    /// The device of an imported allocation, if the driver reported it.
    pub home: Option<Uuid>,
    /// The call that created, imported, or first retained the allocation.
    pub birth: Option<Birth>,
    /// Time at which neither a handle nor a mapping was left in the process.
    pub ended: Option<u64>,
    /// Number of times that it was retained, and released.
    pub retained: u64,
    pub retained_at: Option<CallSite>,
    pub released: u64,
    pub released_at: Option<CallSite>,
    /// The fingerprints of its exported handles.
    pub exports: Vec<u64>,
    /// Number of exports with an unknown fingerprint.
    pub unknown_exports: u64,
    /// Devices and bound memory of a multicast object.
    pub team: Option<TeamHistory>,
}

impl AllocationHistory {
    /// Returns true if the call that created or imported the allocation was seen.
    pub fn is_seen(&self) -> bool {
        self.source != Source::Unseen
    }

    /// Returns the time at which the allocation was created, imported, or first retained.
    pub fn since(&self) -> u64 {
        self.birth.map_or(0, |birth| birth.call.at)
    }

    /// Returns the stack of the call that created, imported, or first retained the allocation.
    pub fn stack(&self) -> Option<Stack> {
        self.birth.map(|birth| birth.call.site.stack)
    }
}

impl History for AllocationHistory {
    fn is_kept(&self) -> bool {
        let is_shared = !self.exports.is_empty() || self.unknown_exports > 0;
        is_shared || matches!(self.source, Source::Imported(_)) || self.team.is_some()
    }
}

/// Facts about a mapping.
#[derive(Default)]
pub struct MappingHistory {
    pub birth: Option<Birth>,
    /// The last call that granted or removed access of devices.
    pub granted: Option<CallSite>,
    /// The devices that have access, each with its CUmemAccess_flags.
    pub access: Vec<(Uuid, i32)>,
    /// Bit mask of the ordinals of devices that ever got access; all bits are set if that is unknown.
    pub devices: u64,
}

impl MappingHistory {
    /// Returns the call that created the mapping.
    pub fn mapped(&self) -> Option<CallSite> {
        self.birth.map(|birth| birth.call)
    }
}

impl History for MappingHistory {}

/// Facts about a reservation.
#[derive(Default)]
pub struct ReservationHistory {
    pub birth: Option<Birth>,
}

impl History for ReservationHistory {}

/// Facts about a pool.
#[derive(Default)]
pub struct PoolHistory {
    /// The calls that created or imported the pool. The process must destroy the pool once for each of them.
    pub births: Vec<Birth>,
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

impl History for PoolHistory {
    fn is_kept(&self) -> bool {
        true
    }
}

/// The part of one process in a multicast object: its devices, its bound memory, and the call that waits.
#[derive(Default)]
pub struct TeamHistory {
    /// The devices that this process added, each with the time.
    pub added: Vec<(Option<Uuid>, u64)>,
    /// The memory that this process bound and did not unbind.
    pub bound: Vec<Bound>,
    /// Number of times that it bound memory, and unbound it.
    pub binds: u64,
    pub unbinds: u64,
    /// A call that binds memory and has not returned.
    pub waits: Option<CallSite>,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub device: Option<Uuid>,
    /// Offset in the multicast object, in bytes.
    pub at: u64,
    pub bytes: u64,
}

impl TeamHistory {
    fn binds(&mut self, bound: Bound) {
        self.binds += 1;
        self.bound.push(bound);
    }

    /// Removes the memory that was bound for a device at an offset. Memory whose device is unknown is removed by its offset
    /// alone.
    fn unbinds(&mut self, device: Option<Uuid>, at: u64) {
        self.unbinds += 1;
        let is_it = |bound: &Bound| bound.at == at && (bound.device == device || bound.device.is_none());
        if let Some(index) = self.bound.iter().position(is_it) {
            self.bound.swap_remove(index);
        }
    }
}

/// Number and bytes of entries, now and at most.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sum {
    pub times: u64,
    pub now: u64,
    pub bytes: u64,
    pub most: u64,
}

impl Sum {
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
pub struct Histories {
    /// Its devices, by their ordinals.
    devices: Vec<Option<Uuid>>,
    /// The allocations that it created, by location.
    pub own: BTreeMap<Location, Sum>,
    pub reserved: Sum,
    pub mapped: Sum,
    /// Access of devices to memory, by device and owner.
    pub reach: BTreeMap<(Uuid, Source), Reach>,
    /// The ended mappings that devices could not use.
    pub unmapped: Unmapped,
    /// Number of objects that each place ever created, by kind.
    pub made: HashMap<(Object, Stack), u64>,
    /// For each allocation that has a handle and no mapping any more, the time at which its last mapping ended.
    pub idle: HashMap<Id, u64>,
    pub asleep: Asleep,
    /// The times at which reserved addresses were freed.
    pub unreserved: Steps,
    /// All memory that the process allocated, over time.
    pub book: Book,
}

impl Histories {
    /// Returns the state of a process that has nothing yet.
    pub fn state(devices: Vec<Option<Uuid>>) -> Process<Histories> {
        let mut state: Process<Histories> = Process::default();
        state.keeper.devices = devices;
        state
    }

    fn birth(&mut self, object: Object, at: CallSite) -> Option<Birth> {
        let made = self.made.entry((object, at.site.stack)).or_default();
        *made += 1;
        Some(Birth { ordinal: *made - 1, call: at })
    }

    fn uuid(&self, ordinal: i32) -> Option<Uuid> {
        self.devices.get(usize::try_from(ordinal).ok()?).copied().flatten()
    }

    /// Notes in the book that an allocation which the process created moved from one kind to another. `None` is the kind before
    /// its creation and after its end.
    fn moves(&mut self, of: &OwnAllocation, from: Option<Kind>, to: Option<Kind>, at: CallSite) {
        let (Source::Made(location), Some(stack)) = (of.history.source, of.history.stack()) else { return };
        for (kind, sign) in [(from, -1), (to, 1)] {
            let Some(kind) = kind.filter(|_| of.team.is_none()) else { continue };
            self.book.add(Place { kind, location, stack }, at.at, sign, i64::from(sign) * of.bytes as i64);
        }
    }

    fn reaches(&mut self, device: Uuid, of: Option<&OwnAllocation>, (before, after): (i32, i32), at: u64) {
        let source = of.map_or(Source::Unseen, |of| of.history.source);
        let is_own = source == Source::Made(Location::Device(device));
        if source == Source::Unseen || is_own || before == 0 && after == 0 {
            return;
        }
        let reach = self.reach.entry((device, source)).or_default();
        if after != 0 {
            reach.granted += u64::from(before == 0);
            reach.on += u64::from(before == 0);
            (reach.last, reach.off) = (at, None);
        } else {
            reach.on = reach.on.saturating_sub(1);
            reach.off = (reach.on == 0).then_some(at);
        }
    }
}

impl Keeper for Histories {
    type At = CallSite;
    type OfAllocation = AllocationHistory;
    type OfMapping = MappingHistory;
    type OfReservation = ReservationHistory;
    type OfPool = PoolHistory;
    type Allocations = Indexed<Allocation, AllocationHistory>;
    type Mappings = Indexed<Mapping, MappingHistory>;
    type Reservations = Indexed<Reservation, ReservationHistory>;
    type Pools = Indexed<Pool, PoolHistory>;
    type Pointers = Indexed<Pointer, ()>;

    fn allocated(&mut self, new: &mut OwnAllocation, imported_as: u64, at: CallSite) {
        let location = || match (new.team, new.types) {
            (Some(_), _) => Location::Multicast,
            (_, None) => Location::Unknown,
            _ => Location::of_device(new.device, |device| self.uuid(device?)),
        };
        let source = match new.origin {
            Origin::Made => Source::Made(location()),
            Origin::Imported => Source::Imported(imported_as),
            Origin::Found => Source::Unseen,
        };
        let home = new.device.and_then(|device| self.uuid(device)).filter(|_| new.is_imported());
        let (birth, team) = (self.birth(Object::Allocation, at), new.team.map(|_| TeamHistory::default()));
        new.history = AllocationHistory { source, home, birth, team, ..AllocationHistory::default() };
        if let Source::Made(location) = source {
            self.own.entry(location).or_default().add(new.bytes);
            self.moves(new, None, Some(Kind::Mapped), at);
        }
    }

    fn changed(&mut self, known: &mut OwnAllocation, delta: &Delta, at: CallSite) {
        let history = &mut known.history;
        let device = delta.device.and_then(|device| self.uuid(device));
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
            (Effect::Joins(_), _) => history.team.get_or_insert_default().added.push((device, at.at)),
            (Effect::Binds(_), _) => {
                let bound = Bound { device, at: delta.at, bytes: delta.bytes };
                history.team.get_or_insert_default().binds(bound);
            }
            (Effect::Unbinds(_), _) => history.team.get_or_insert_default().unbinds(device, delta.at),
            _ => {}
        }
    }

    fn ended(&mut self, known: &mut OwnAllocation, at: CallSite) {
        let kind = if self.idle.remove(&known.id).is_some() { Kind::Unmapped } else { Kind::Mapped };
        if known.history.ended.is_none() {
            known.history.ended = Some(at.at);
            if let Source::Made(location) = known.history.source {
                self.own.entry(location).or_default().remove(known.bytes);
                self.moves(known, Some(kind), None, at);
            }
        }
    }

    fn mapped(&mut self, new: &mut OwnMapping, of: Option<&OwnAllocation>, at: CallSite) {
        new.history.birth = self.birth(Object::Mapping, at);
        self.asleep.mapped(new.name, new.bytes);
        self.mapped.add(new.bytes);
        if let Some(of) = of
            && self.idle.remove(&of.id).is_some()
        {
            self.moves(of, Some(Kind::Unmapped), Some(Kind::Mapped), at);
        }
    }

    fn unmapped(&mut self, old: &OwnMapping, of: Option<&OwnAllocation>, at: CallSite) {
        self.mapped.remove(old.bytes);
        self.asleep.unmapped(old, at);
        if let Some(of) = of.filter(|of| of.mappings == 1) {
            self.idle.insert(of.id, at.at);
            self.moves(of, Some(Kind::Mapped), Some(Kind::Unmapped), at);
        }
        for (device, flags) in &old.history.access {
            self.reaches(*device, of, (*flags, 0), at.at);
        }
        let unused = self.unmapped.unused(old, of, false);
        self.unmapped.count(unused);
    }

    fn granted(
        &mut self,
        known: &mut OwnMapping,
        of: Option<&OwnAllocation>,
        (access, is_whole): (Access, bool),
        at: CallSite,
    ) {
        known.history.granted = Some(at);
        known.history.devices |= if is_whole { access.granted() } else { !0 };
        for (device, flags) in access.each() {
            let Some(device) = self.uuid(device) else { continue };
            let all = &mut known.history.access;
            let before = match all.iter_mut().find(|(its, _)| *its == device) {
                Some((_, its)) => std::mem::replace(its, flags),
                None => {
                    all.push((device, flags));
                    0
                }
            };
            self.reaches(device, of, (before, flags), at.at);
        }
    }

    fn reserved(&mut self, new: &mut Known<Reservation, ReservationHistory>, at: CallSite) {
        new.history.birth = self.birth(Object::Reservation, at);
        self.reserved.add(new.bytes);
        self.asleep.forget(new.name, new.bytes);
    }

    fn unreserved(&mut self, old: &Known<Reservation, ReservationHistory>, at: CallSite) {
        self.reserved.remove(old.bytes);
        self.asleep.unreserved(old.name, old.bytes, at);
        self.unreserved.add(at.at);
    }

    fn pool_changed(&mut self, known: &mut Known<Pool, PoolHistory>, delta: &Delta, at: CallSite) {
        let (pool, history) = (known.state, &mut known.history);
        history.handle = known.name;
        match delta.effect {
            Effect::Exports(_) if delta.fingerprint != 0 => {
                history.exports.truncate(MOST_EXPORTS - 1);
                history.exports.insert(0, delta.fingerprint);
            }
            Effect::Grants(_) => {
                let known = |(device, flags)| Some((self.uuid(device)?, (flags, at.at)));
                history.access.extend(delta.access.0.each().filter_map(known));
            }
            Effect::Ends(_) => {
                history.births.pop();
                history.destroyed = pool.is_destroyed.then_some(at.at);
            }
            Effect::Opens(Shared { object: Object::Pointer, .. }) => history.pointers_imported += 1,
            Effect::Makes(_) | Effect::Opens(_) | Effect::Asks(_) => {
                if history.since == 0 {
                    history.since = at.at;
                }
                if history.births.is_empty() || pool.origin == Origin::Imported {
                    history.births.extend(self.birth(Object::Pool, at));
                }
                history.imported_as = delta.fingerprint;
                history.device = pool.device.and_then(|device| self.uuid(device));
            }
            _ => {}
        }
    }
}

impl super::Memory {
    /// Returns the mappings that no device, or not every device with peer access, could use; none if calls may be missing. Called
    /// when all calls have been applied.
    pub fn unused(&mut self) -> Vec<Unused> {
        let state = &mut self.state;
        if state.has_lost(Family::VirtualMemory) {
            return Vec::new();
        }
        let mut left = Unmapped::default();
        for mapping in state.mappings.each() {
            let of = state.allocations.entry(mapping.of);
            left.count(state.keeper.unmapped.unused(mapping, of, true));
        }
        state.keeper.unmapped.drain().chain(left.drain()).collect()
    }
}
