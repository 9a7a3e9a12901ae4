//! Facts of the report about entries, beside their state: places and times of calls, fingerprints, and sums.

use super::asleep::Asleep;
use super::book::{Book, Kind, Place};
use super::unused::{Unmapped, Unused};
use super::{Bound, Location, OwnAllocation, OwnMapping, Sum, TeamHistory};
use crate::follow::ledger::Site;
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
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap};

/// The most fingerprints of one pool.
const MOST_EXPORTS: usize = 8;

/// The time and place of a call.
#[derive(Clone, Copy)]
pub struct At {
    pub time: u64,
    pub function: FnId,
    pub site: Site,
}

/// Which of the objects that one place made something is, and the call that made it.
#[derive(Clone, Copy)]
pub struct Birth {
    pub ordinal: u64,
    pub at: At,
}

/// Where a process has an allocation from.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Source {
    /// It made it there.
    Made(Location),
    /// It imported it, by the handle of this fingerprint; 0 where that is not known.
    Imported(u64),
    /// Its creation was not seen.
    #[default]
    Unseen,
}

impl Source {
    /// The location of what the process made.
    pub fn location(self) -> Location {
        match self {
            Source::Made(location) => location,
            Source::Imported(_) | Source::Unseen => Location::Unknown,
        }
    }
}

/// Whose memory a device reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    At(Location),
    Import(u64),
}

/// Facts about an allocation.
#[derive(Default)]
pub struct AllocationHistory {
    pub source: Source,
    /// The device of an import, where the driver told it.
    pub home: Option<Uuid>,
    pub birth: Option<Birth>,
    pub since: u64,
    /// The stack of that call.
    pub made: Option<Stack>,
    /// When the process had given it up: neither a handle nor a mapping was left.
    pub ended: Option<u64>,
    /// How often it was retained, and released.
    pub retained: u64,
    pub retained_at: Option<At>,
    pub released: u64,
    pub released_at: Option<At>,
    /// The fingerprints of what it was exported as.
    pub exports: Vec<u64>,
    /// How often it was exported without one.
    pub unknown_exports: u64,
    /// Where it is a multicast object: its devices, and the memory bound to it.
    pub team: Option<TeamHistory>,
}

impl AllocationHistory {
    /// True if the call that made or imported it was seen.
    pub fn is_seen(&self) -> bool {
        self.source != Source::Unseen
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
    pub mapped: Option<At>,
    pub birth: Option<Birth>,
    /// The last call that gave access, or took it.
    pub granted: Option<At>,
    /// The devices that have access, with the flags of that.
    pub access: Vec<(Uuid, i32)>,
    /// The devices that ever got access, a bit for each ordinal; all where that is not known.
    pub devices: u64,
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
    /// The calls that made it or imported it, each of which is undone by itself.
    pub births: Vec<Birth>,
    /// Its handle, which another pool may have by now.
    pub handle: u64,
    /// Its device, where the process knows; or the host.
    pub device: Option<Uuid>,
    pub is_on_host: bool,
    pub since: u64,
    pub destroyed: Option<u64>,
    pub exports: Vec<u64>,
    pub imported_as: u64,
    pub pointers_imported: u64,
    /// What devices may do, and since when.
    pub access: BTreeMap<Uuid, (i32, u64)>,
}

impl History for PoolHistory {
    fn is_kept(&self) -> bool {
        true
    }
}

/// Facts about a process as a whole.
#[derive(Default)]
pub struct Histories {
    /// Its devices, by their ordinals.
    devices: Vec<Option<Uuid>>,
    /// The allocations that it made, by where they lie.
    pub own: BTreeMap<Location, Sum>,
    pub reserved: Sum,
    pub mapped: Sum,
    /// What devices may do with memory, by device and by whose memory it is.
    pub reach: BTreeMap<(Uuid, Target), Reach>,
    /// Mappings that were never of use.
    pub unmapped: Unmapped,
    /// The number of objects that each place has made.
    pub made: HashMap<(Object, Stack), u64>,
    /// When the last mapping of an allocation was unmapped that has only a handle.
    pub idle: HashMap<Id, u64>,
    pub asleep: Asleep,
    /// When addresses were given back.
    pub unreserved: Steps,
    /// All memory that it made, over time.
    pub book: Book,
}

impl Histories {
    /// A process that has nothing yet.
    pub fn state(devices: Vec<Option<Uuid>>) -> Process<Histories> {
        let mut state: Process<Histories> = Process::default();
        state.keeper.devices = devices;
        state
    }

    fn birth(&mut self, object: Object, at: At) -> Option<Birth> {
        let made = self.made.entry((object, at.site.stack)).or_default();
        *made += 1;
        Some(Birth { ordinal: *made - 1, at })
    }

    fn uuid(&self, ordinal: i32) -> Option<Uuid> {
        self.devices.get(usize::try_from(ordinal).ok()?).copied().flatten()
    }

    /// An allocation that the process made changes its state: from one kind to another; `None` before it is made, and after it has ended.
    fn moves(&mut self, of: &OwnAllocation, from: Option<Kind>, to: Option<Kind>, at: At) {
        let (Source::Made(location), Some(stack)) = (of.history.source, of.history.made) else { return };
        for (kind, sign) in [(from, -1), (to, 1)] {
            let Some(kind) = kind.filter(|_| of.team.is_none()) else { continue };
            self.book.add(Place { kind, location, stack }, at.time, sign, i64::from(sign) * of.bytes as i64);
        }
    }

    fn reaches(&mut self, device: Uuid, of: Option<&OwnAllocation>, (before, after): (i32, i32), at: u64) {
        let target = match of.map(|of| of.history.source) {
            Some(Source::Made(location)) => Target::At(location),
            Some(Source::Imported(fingerprint)) => Target::Import(fingerprint),
            Some(Source::Unseen) | None => return,
        };
        if target == Target::At(Location::Device(device)) || before == 0 && after == 0 {
            return;
        }
        let reach = self.reach.entry((device, target)).or_default();
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
    type At = At;
    type OfAllocation = AllocationHistory;
    type OfMapping = MappingHistory;
    type OfReservation = ReservationHistory;
    type OfPool = PoolHistory;
    type Allocations = Indexed<Allocation, AllocationHistory>;
    type Mappings = Indexed<Mapping, MappingHistory>;
    type Reservations = Indexed<Reservation, ReservationHistory>;
    type Pools = Indexed<Pool, PoolHistory>;
    type Pointers = Indexed<Pointer, ()>;

    fn allocated(&mut self, new: &mut OwnAllocation, imported_as: u64, at: At) {
        let location = || match (new.team, new.types) {
            (Some(_), _) => Location::Multicast,
            (_, None) => Location::Unknown,
            _ => Location::of(new.device, |device| self.uuid(device?)),
        };
        let source = match new.origin {
            Origin::Made => Source::Made(location()),
            Origin::Imported => Source::Imported(imported_as),
            Origin::Found => Source::Unseen,
        };
        let wanted = |wanted: u32| (wanted != 0).then_some(wanted);
        let team = new.team.map(|team| TeamHistory { wanted: wanted(team.wanted), ..TeamHistory::default() });
        let home = new.device.and_then(|device| self.uuid(device)).filter(|_| new.is_imported());
        let since = at.time;
        let (birth, made) = (self.birth(Object::Allocation, at), Some(at.site.stack));
        let history =
            AllocationHistory { source, home, birth, since, made, team, ..AllocationHistory::default() };
        new.history = history;
        if let Source::Made(location) = source {
            self.own.entry(location).or_default().add(new.bytes);
            self.moves(new, None, Some(Kind::Mapped), at);
        }
    }

    fn changed(&mut self, known: &mut OwnAllocation, delta: &Delta, at: At) {
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
            (Effect::Joins(_), _) => history.team.get_or_insert_default().added.push((device, at.time)),
            (Effect::Binds(_), _) => {
                let bound = Bound { device, at: delta.at, bytes: delta.bytes };
                history.team.get_or_insert_default().binds(bound);
            }
            (Effect::Unbinds(_), _) => history.team.get_or_insert_default().unbinds(device, delta.at),
            _ => {}
        }
    }

    fn ended(&mut self, known: &mut OwnAllocation, at: At) {
        let kind = if self.idle.remove(&known.id).is_some() { Kind::Unmapped } else { Kind::Mapped };
        if known.history.ended.is_none() {
            known.history.ended = Some(at.time);
            if let Source::Made(location) = known.history.source {
                self.own.entry(location).or_default().remove(known.bytes);
                self.moves(known, Some(kind), None, at);
            }
        }
    }

    fn mapped(&mut self, new: &mut OwnMapping, of: Option<&OwnAllocation>, at: At) {
        new.history.mapped = Some(at);
        new.history.birth = self.birth(Object::Mapping, at);
        self.asleep.mapped(new.name, new.bytes);
        self.mapped.add(new.bytes);
        if let Some(of) = of
            && self.idle.remove(&of.id).is_some()
        {
            self.moves(of, Some(Kind::Unmapped), Some(Kind::Mapped), at);
        }
    }

    fn unmapped(&mut self, old: &OwnMapping, of: Option<&OwnAllocation>, at: At) {
        self.mapped.remove(old.bytes);
        self.asleep.unmapped(old, at.site, at.time);
        if let Some(of) = of.filter(|of| of.mappings == 1) {
            self.idle.insert(of.id, at.time);
            self.moves(of, Some(Kind::Mapped), Some(Kind::Unmapped), at);
        }
        for (device, flags) in &old.history.access {
            self.reaches(*device, of, (*flags, 0), at.time);
        }
        let unused = self.unmapped.unused(old, of, false);
        self.unmapped.count(unused);
    }

    fn granted(
        &mut self,
        known: &mut OwnMapping,
        of: Option<&OwnAllocation>,
        (access, is_whole): (Access, bool),
        at: At,
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
            self.reaches(device, of, (before, flags), at.time);
        }
    }

    fn reserved(&mut self, new: &mut Known<Reservation, ReservationHistory>, at: At) {
        new.history.birth = self.birth(Object::Reservation, at);
        self.reserved.add(new.bytes);
        self.asleep.forget(new.name, new.bytes);
    }

    fn unreserved(&mut self, old: &Known<Reservation, ReservationHistory>, at: At) {
        self.reserved.remove(old.bytes);
        self.asleep.unreserved(old.name, old.bytes, at.site, at.time);
        self.unreserved.add(at.time);
    }

    fn pool_changed(&mut self, known: &mut Known<Pool, PoolHistory>, delta: &Delta, at: At) {
        let (pool, history) = (known.state, &mut known.history);
        history.handle = known.name;
        match delta.effect {
            Effect::Exports(_) if delta.fingerprint != 0 => {
                history.exports.truncate(MOST_EXPORTS - 1);
                history.exports.insert(0, delta.fingerprint);
            }
            Effect::Grants(_) => {
                let known = |(device, flags)| Some((self.uuid(device)?, (flags, at.time)));
                history.access.extend(delta.access.0.each().filter_map(known));
            }
            Effect::Ends(_) => {
                history.births.pop();
                history.destroyed = pool.is_destroyed.then_some(at.time);
            }
            Effect::Opens(Shared { object: Object::Pointer, .. }) => history.pointers_imported += 1,
            Effect::Makes(_) | Effect::Opens(_) | Effect::Asks(_) => {
                if history.since == 0 {
                    history.since = at.time;
                }
                if history.births.is_empty() || pool.origin == Origin::Imported {
                    history.births.extend(self.birth(Object::Pool, at));
                }
                history.imported_as = delta.fingerprint;
                history.device = pool.device.and_then(|device| self.uuid(device));
                history.is_on_host = pool.is_on_host();
            }
            _ => {}
        }
    }
}

impl super::Memory {
    /// The mappings that no device, or not every device with peer access, could use, once all calls are noted; none if calls may
    /// be missing.
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
