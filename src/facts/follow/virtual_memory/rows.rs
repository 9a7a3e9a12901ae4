//! The rows about virtual memory.
//!
//! It builds sums for each process and device, and selects single allocations. A job has thousands of them; those that
//! others keep alive and large ones matter.

use super::flags::{access, handle_types};
use super::join::{Held, Joined, Origin, Until, most};
use super::space::{self, Number, Source, Space};
use super::{Location, VirtualMemory, join};
use crate::follow::ledger::settle::Fate;
use cupeer_report::model::{AddressSpace, Allocation, Allocations, DeviceMemory, Fingerprint, Kept, Mapping};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The most single allocations.
const MOST: usize = 20;
/// The most mappings and exports of one.
const MOST_PARTS: usize = 4;

impl VirtualMemory {
    /// The rows, as of a time.
    pub fn rows(&self, fates: &[Fate], now: u64) -> Allocations {
        let joined = self.joined();
        let mut rows = Allocations::default();
        let mut kept = BTreeMap::new();
        let mut singles = Vec::new();
        for (process, space) in self.spaces.iter().enumerate() {
            let held = joined.held(process);
            rows.devices.extend(devices(&joined, process, &held, fates));
            rows.spaces.extend(address_space(space, &fates[process]));
            let mut is_kept = HashSet::new();
            for held in &held {
                if let Some(found) = joined.kept(process, held, fates) {
                    is_kept.insert(held.origin);
                    let by = (found.until.word(), found.by_exit);
                    kept.entry((process, found.owner, held.location, by))
                        .or_insert_with(Vec::new)
                        .push((held.bytes, found));
                }
            }
            let has = |(_, allocation): &(&Number, &space::Allocation)| allocation.ended.is_none();
            let all = space.allocations.iter().filter(has).map(|(number, allocation)| {
                let origin = joined.origin(process, *number);
                (is_kept.contains(&origin), joined.bytes(origin, allocation), process, *number)
            });
            singles.extend(all);
        }
        rows.kept = kept.into_iter().map(|(key, all)| self::kept(key, &all, fates, now)).collect();
        rows.kept.sort_by_key(place);
        singles.sort_by_key(|(kept, bytes, process, number)| (!kept, Reverse(*bytes), *process, *number));
        rows.largest_more = singles.len().saturating_sub(MOST) as u64;
        singles.truncate(MOST);
        rows.multicast = self.teams(fates);
        rows.largest = single_rows(&joined, &singles, fates);
        rows
    }
}

/// Puts rows of several parts of a job in order, and keeps as many single allocations as of one.
pub fn order(rows: &mut Allocations) {
    rows.kept.sort_by_key(place);
    // Those that nobody of the record has made come last.
    rows.multicast.sort_by_key(|row| row.made_by.is_none());
    rows.largest.sort_by_key(|row| (!row.kept, Reverse(row.bytes.unwrap_or(0))));
    rows.largest_more = rows.largest_more.saturating_add(rows.largest.len().saturating_sub(MOST) as u64);
    rows.largest.truncate(MOST);
}

/// The place of what is kept among others.
fn place(kept: &Kept) -> (bool, Reverse<u64>) {
    (kept.until != Until::Now.word(), Reverse(kept.bytes))
}

impl Until {
    fn word(self) -> &'static str {
        match self {
            Until::Now => "now",
            Until::Exit(_) => "exit",
            Until::GivenUp(_) => "given up",
        }
    }

    fn at(self) -> Option<u64> {
        match self {
            Until::Now => None,
            Until::Exit(at) | Until::GivenUp(at) => Some(at),
        }
    }
}

impl Joined<'_> {
    /// The size of an allocation, 0 where it is not known.
    fn bytes(&self, origin: Origin, own: &space::Allocation) -> u64 {
        self.allocation(origin).and_then(|allocation| allocation.bytes).or(own.bytes).unwrap_or(0)
    }
}

/// What a process has of each device.
fn devices(joined: &Joined, process: usize, held: &[Held], fates: &[Fate]) -> Vec<DeviceMemory> {
    let space = &joined.spaces[process];
    let mut rows: BTreeMap<Location, DeviceMemory> = BTreeMap::new();
    let row = |location: Location| {
        let ((place, device), proc) = (location.place(), fates[process].proc.clone());
        DeviceMemory { proc, location: place, device, ..DeviceMemory::default() }
    };
    for (location, own) in &space.own {
        let row = rows.entry(*location).or_insert_with(|| row(*location));
        (row.made, row.allocations, row.bytes, row.most_bytes) = (own.times, own.now, own.bytes, own.most);
    }
    for (number, allocation) in space.allocations.iter().filter(|(_, it)| !it.exports.is_empty()) {
        let location = joined.location(joined.origin(process, *number));
        let row = rows.entry(location).or_insert_with(|| row(location));
        let is_known = |export: &&u64| joined.is_imported(space.realm, **export);
        row.exported += allocation.exports.len() as u64;
        row.never_imported += allocation.exports.iter().filter(|export| !is_known(export)).count() as u64;
    }
    let mut spans: BTreeMap<Location, Vec<_>> = BTreeMap::new();
    for held in held {
        let row = rows.entry(held.location).or_insert_with(|| row(held.location));
        row.imports += held.imports;
        if held.until.is_none() {
            row.imported += 1;
            row.imported_bytes = row.imported_bytes.saturating_add(held.bytes);
        }
        spans.entry(held.location).or_default().push((held.since, held.until, held.bytes));
    }
    for (location, spans) in spans {
        rows.entry(location).and_modify(|row| row.imported_most_bytes = most(spans.into_iter()));
    }
    for mapping in space.mappings.values() {
        let of = mapping.of.filter(|number| space.allocations.contains_key(number));
        let location = of.map_or(Location::Unknown, |number| joined.location(joined.origin(process, number)));
        let row = rows.entry(location).or_insert_with(|| row(location));
        row.mapped_bytes = row.mapped_bytes.saturating_add(mapping.bytes);
    }
    rows.into_values().collect()
}

fn address_space(space: &Space, fate: &Fate) -> Option<AddressSpace> {
    let is_used = space.reserved.times > 0 || space.mapped.times > 0;
    is_used.then(|| AddressSpace {
        proc: fate.proc.clone(),
        reservations: space.reserved.now,
        reserved_bytes: space.reserved.bytes,
        reserved_most_bytes: space.reserved.most,
        mappings: space.mapped.now,
        mapped_bytes: space.mapped.bytes,
        mapped_most_bytes: space.mapped.most,
    })
}

/// Who kept what of whom, how until when, and whether its owner had ended.
type Key = (usize, usize, Location, (&'static str, bool));

fn kept(
    (holder, owner, location, (until, by_exit)): Key,
    all: &[(u64, join::KeptAllocation)],
    fates: &[Fate],
    now: u64,
) -> Kept {
    let (place, device) = location.place();
    let ends = || all.iter().map(|(_, kept)| kept.until.at());
    Kept {
        proc: fates[holder].proc.clone(),
        owner: fates[owner].proc.clone(),
        location: place,
        device,
        allocations: all.len() as u64,
        bytes: most(all.iter().map(|(bytes, kept)| (kept.since, kept.until.at(), *bytes))),
        given_up_by: if by_exit { "exit" } else { "release" },
        given_up_ns: all.iter().map(|(_, kept)| kept.released).min().unwrap_or(0),
        until,
        until_ns: ends().max().flatten(),
        longest_ns: all
            .iter()
            .map(|(_, kept)| kept.until.at().unwrap_or(now).saturating_sub(kept.since))
            .max()
            .unwrap_or(0),
    }
}

fn single_rows(joined: &Joined, singles: &[(bool, u64, usize, Number)], fates: &[Fate]) -> Vec<Allocation> {
    let mut mappings: HashMap<(usize, Number), Vec<Mapping>> = HashMap::new();
    let chosen: HashSet<(usize, Number)> =
        singles.iter().map(|(_, _, process, number)| (*process, *number)).collect();
    let processes: HashSet<usize> = chosen.iter().map(|(process, _)| *process).collect();
    for process in processes {
        for (address, mapping) in &joined.spaces[process].mappings {
            let Some(key) = mapping.of.map(|number| (process, number)).filter(|key| chosen.contains(key))
            else {
                continue;
            };
            let mapped = mappings.entry(key).or_default();
            if mapped.len() < MOST_PARTS {
                let (address, bytes) = (format!("{address:#x}"), mapping.bytes);
                mapped.push(Mapping { address, bytes, access: access(mapping.access.iter().copied()) });
            }
        }
    }
    let mut row = |(is_kept, bytes, process, number): &(bool, u64, usize, Number)| {
        let allocation = &joined.spaces[*process].allocations[number];
        let origin = joined.origin(*process, *number);
        let (place, device) = joined.location(origin).place();
        let owner = match origin {
            Origin::Known(owner, _) => Some(fates[owner].proc.clone()),
            Origin::Unknown(..) => None,
        };
        let (types, imported) = match allocation.source {
            Source::Made { types, .. } => (types, None),
            Source::Imported(fingerprint) => (0, (fingerprint != 0).then_some(Fingerprint(fingerprint))),
        };
        let exports = allocation.exports.iter().rev().take(MOST_PARTS).rev();
        Allocation {
            proc: fates[*process].proc.clone(),
            handle: (allocation.references > 0).then(|| format!("{:#x}", allocation.handle)),
            location: place,
            device,
            bytes: (*bytes > 0).then_some(*bytes),
            owner,
            since_ns: allocation.since,
            handle_types: handle_types(types),
            references: allocation.references,
            retained: allocation.retained,
            released: allocation.released,
            exports: exports.map(|export| Fingerprint(*export)).collect(),
            imported_as: imported,
            mappings: mappings.remove(&(*process, *number)).unwrap_or_default(),
            mapped: allocation.mappings,
            kept: *is_kept,
        }
    };
    singles.iter().map(&mut row).collect()
}
