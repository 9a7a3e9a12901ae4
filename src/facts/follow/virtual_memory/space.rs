//! Tracks the memory of one process: allocations by their handles, reserved addresses, and mappings.
//!
//! It changes one step at a time. `calls` reads the calls; memory of other processes is not tracked.

use super::team::{Bound, Team};
use super::{Location, Realm};
use crate::follow::peers::Reach;
use cupeer_report::model::Uuid;
use std::collections::{BTreeMap, HashMap};

/// The number of an allocation in its process.
pub type Number = u32;

/// What a call takes, once it has returned.
pub type Taking = Box<dyn FnOnce(&mut Space) + Send + Sync>;

/// One process.
#[derive(Default)]
pub struct Space {
    pub realm: Realm,
    /// What calls have taken that had not returned when the last one began, by when they returned.
    pub(super) waiting: Vec<(u64, Taking)>,
    /// The allocations that it has, and those that it shared and has given up.
    pub allocations: BTreeMap<Number, Allocation>,
    by_handle: HashMap<u64, Number, foldhash::fast::RandomState>,
    made: Number,
    /// Of what it made itself, by where that lies.
    pub own: BTreeMap<Location, Sum>,
    reservations: HashMap<u64, u64, foldhash::fast::RandomState>,
    pub reserved: Sum,
    pub mappings: BTreeMap<u64, Mapping>,
    pub mapped: Sum,
    /// What devices may do with memory, by device and by whose memory it is.
    pub reach: BTreeMap<(Uuid, Target), Reach>,
}

/// A count of things that come and go, and of their bytes.
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

    fn remove(&mut self, bytes: u64) {
        self.now = self.now.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// An allocation, as one process has it.
pub struct Allocation {
    pub handle: u64,
    pub source: Source,
    /// The size; of an import, that of its mapping.
    pub bytes: Option<u64>,
    pub since: u64,
    /// When the process had given it up: neither a handle nor a mapping was left.
    pub ended: Option<u64>,
    /// How many references its handle has now.
    pub references: u64,
    /// How often it was retained, and released.
    pub retained: u64,
    pub released: u64,
    /// How often it is mapped now.
    pub mappings: u64,
    /// The fingerprints of what it was exported as.
    pub exports: Vec<u64>,
    /// How often it was exported without one.
    pub unknown_exports: u64,
    /// Where it is a multicast object: its devices, and the memory bound to it.
    pub team: Option<Team>,
}

impl Allocation {
    /// An allocation that the process has by one reference since a time.
    pub fn new(handle: u64, source: Source, bytes: Option<u64>, since: u64) -> Self {
        Allocation {
            handle,
            source,
            bytes,
            since,
            ended: None,
            references: 1,
            retained: 0,
            released: 0,
            mappings: 0,
            exports: Vec::new(),
            unknown_exports: 0,
            team: None,
        }
    }

    fn is_shared(&self) -> bool {
        !self.exports.is_empty() || self.unknown_exports > 0 || matches!(self.source, Source::Imported(_))
    }

    fn target(&self) -> Target {
        match self.source {
            Source::Made { location, .. } => Target::At(location),
            Source::Imported(fingerprint) => Target::Import(fingerprint),
        }
    }
}

/// Where a process has an allocation from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// It made it, with these types of handles.
    Made { location: Location, types: i32 },
    /// It imported it, by the handle of this fingerprint; 0 where that is not known.
    Imported(u64),
}

/// By what memory is named that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    Handle(u64),
    Address(u64),
}

/// Whose memory a device reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    At(Location),
    Import(u64),
}

/// Addresses at which an allocation is mapped.
pub struct Mapping {
    pub bytes: u64,
    pub of: Option<Number>,
    /// The devices that have access, with the flags of that.
    pub access: Vec<(Uuid, i32)>,
}

impl Space {
    /// A process that has nothing yet.
    pub fn new(realm: Realm) -> Self {
        Space { realm, ..Space::default() }
    }

    /// The allocation of a handle.
    pub fn of_handle(&self, handle: u64) -> Option<&Allocation> {
        self.allocations.get(self.by_handle.get(&handle)?)
    }

    pub(super) fn takes(&mut self, allocation: Allocation) {
        if let Source::Made { location, .. } = allocation.source {
            self.own.entry(location).or_default().add(allocation.bytes.unwrap_or(0));
        }
        let number = self.made;
        self.made += 1;
        // What had this handle before has ended without our seeing how.
        if let Some(old) = self.by_handle.insert(allocation.handle, number) {
            let since = allocation.since;
            self.allocations.entry(old).and_modify(|old| old.references = 0);
            self.ends_if_unused(old, since);
        }
        self.allocations.insert(number, allocation);
    }

    /// One reference more, by the handle or by an address at which it is mapped.
    pub(super) fn retains(&mut self, handle: u64, address: Option<u64>) {
        let at = address.and_then(|address| self.mapping_at(address)).and_then(|mapping| mapping.of);
        let Some(number) = at.or_else(|| self.by_handle.get(&handle).copied()) else { return };
        let Some(allocation) = self.allocations.get_mut(&number) else { return };
        allocation.references += 1;
        allocation.retained += 1;
        allocation.handle = handle;
        self.by_handle.insert(handle, number);
    }

    fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some(mapping)
    }

    /// One reference less.
    pub(super) fn releases(&mut self, handle: u64, at: u64) {
        let Some(number) = self.by_handle.get(&handle).copied() else { return };
        let Some(allocation) = self.allocations.get_mut(&number) else { return };
        allocation.references = allocation.references.saturating_sub(1);
        allocation.released += 1;
        if allocation.references == 0 {
            self.by_handle.remove(&handle);
            self.ends_if_unused(number, at);
        }
    }

    pub(super) fn exports(&mut self, handle: u64, fingerprint: Option<u64>) {
        let Some(number) = self.by_handle.get(&handle) else { return };
        let Some(allocation) = self.allocations.get_mut(number) else { return };
        match fingerprint {
            Some(known) if allocation.exports.contains(&known) => {}
            Some(new) => allocation.exports.push(new),
            None => allocation.unknown_exports += 1,
        }
    }

    /// What the process has done with a multicast object of this handle.
    pub(super) fn team(&mut self, handle: u64) -> Option<&mut Team> {
        let allocation = self.allocations.get_mut(self.by_handle.get(&handle)?)?;
        Some(allocation.team.get_or_insert_default())
    }

    /// Memory is bound to a multicast object: of a device that is named, or else of the one on which it lies.
    pub(super) fn binds(&mut self, team: u64, memory: Named, bound: Bound) {
        let number = match memory {
            Named::Handle(handle) => self.by_handle.get(&handle).copied(),
            Named::Address(address) => self.mapping_at(address).and_then(|mapping| mapping.of),
        };
        let own = number.and_then(|number| self.allocations.get(&number)).map(|allocation| allocation.source);
        let home = match own {
            Some(Source::Made { location, .. }) => location.device(),
            _ => None,
        };
        if let Some(team) = self.team(team) {
            team.binds(Bound { device: bound.device.or(home), ..bound });
        }
    }

    pub(super) fn reserves(&mut self, address: u64, bytes: u64) {
        if let Some(old) = self.reservations.insert(address, bytes) {
            self.reserved.remove(old);
        }
        self.reserved.add(bytes);
    }

    pub(super) fn frees(&mut self, address: u64) {
        if let Some(bytes) = self.reservations.remove(&address) {
            self.reserved.remove(bytes);
        }
    }

    pub(super) fn maps(&mut self, address: u64, bytes: u64, handle: u64, at: u64) {
        self.unmaps(address, 1, at);
        let of = self.by_handle.get(&handle).copied();
        if let Some(allocation) = of.and_then(|number| self.allocations.get_mut(&number)) {
            allocation.mappings += 1;
            // All of an allocation is mapped at once.
            allocation.bytes.get_or_insert(bytes);
        }
        self.mapped.add(bytes);
        self.mappings.insert(address, Mapping { bytes, of, access: Vec::new() });
    }

    /// Unmaps what begins in a range.
    pub(super) fn unmaps(&mut self, address: u64, bytes: u64, at: u64) {
        let range = address..address.saturating_add(bytes);
        let starts: Vec<u64> = self.mappings.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            let Some(mapping) = self.mappings.remove(&start) else { continue };
            self.mapped.remove(mapping.bytes);
            let Some(number) = mapping.of else { continue };
            for (device, flags) in mapping.access {
                self.reaches(device, number, flags, 0, at);
            }
            if let Some(allocation) = self.allocations.get_mut(&number) {
                allocation.mappings = allocation.mappings.saturating_sub(1);
            }
            self.ends_if_unused(number, at);
        }
    }

    /// Sets what devices may do with all that is mapped in a range.
    pub(super) fn grants(&mut self, address: u64, bytes: u64, devices: &[(Uuid, i32)], at: u64) {
        let range = address..address.saturating_add(bytes);
        let mut changed = Vec::new();
        for mapping in self.mappings.range_mut(range).map(|(_, mapping)| mapping) {
            for (device, flags) in devices {
                let known = mapping.access.iter_mut().find(|(known, _)| known == device);
                let before = match known {
                    Some((_, known)) => std::mem::replace(known, *flags),
                    None => {
                        mapping.access.push((*device, *flags));
                        0
                    }
                };
                changed.extend(mapping.of.map(|number| (*device, number, before, *flags)));
            }
        }
        for (device, number, before, flags) in changed {
            self.reaches(device, number, before, flags, at);
        }
    }

    fn reaches(&mut self, device: Uuid, number: Number, before: i32, after: i32, at: u64) {
        let Some(target) = self.allocations.get(&number).map(Allocation::target) else { return };
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

    /// Ends what the process has neither a handle nor a mapping of. What it shared is remembered.
    fn ends_if_unused(&mut self, number: Number, at: u64) {
        let Some(allocation) = self.allocations.get_mut(&number) else { return };
        if allocation.references > 0 || allocation.mappings > 0 || allocation.ended.is_some() {
            return;
        }
        allocation.ended = Some(at);
        if let Source::Made { location, .. } = allocation.source {
            self.own.entry(location).or_default().remove(allocation.bytes.unwrap_or(0));
        }
        if !allocation.is_shared() && allocation.team.is_none() {
            self.allocations.remove(&number);
        }
    }
}
