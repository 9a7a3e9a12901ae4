//! The rows about virtual memory.
//!
//! There are sums for each process and device, and rows for single allocations. A job has thousands of allocations, so only those
//! that importers keep alive and the largest have rows.

use super::join;
use super::join::{AllocationOrigin, ImportGraph, ImportedAllocation, RetentionEnd, most_bytes_at_once};
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::memory::{AllocationSource, Location, OwnAllocation, OwnMapping, ProcessMemory};
use cupeer_model::{Id, Table};
use cupeer_report::model::{
    Access, AddressSpace, Allocation, Allocations, DeviceMemory, Fingerprint, Kept, Mapping, Uuid,
};
use cupeer_spec::abi::{CUmemAccess_flags, CUmemAllocationHandleType};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// Number of rows of single allocations: those that importers keep first, then the largest.
const MOST_SINGLE_ROWS: usize = 20;
/// Largest number of mappings, and of exports, in the row of one allocation.
const MOST_PARTS: usize = 4;

impl ImportGraph<'_> {
    /// Returns the rows of the report, for the state at the time `now`.
    pub fn rows(&self, fates: &[ProcessEnd], now: u64) -> Allocations {
        let mut rows = Allocations::default();
        let mut kept = BTreeMap::new();
        let mut singles = Vec::new();
        for (process, memory) in self.processes.iter().enumerate() {
            let held = self.imported_allocations(process);
            rows.devices.extend(device_rows(self, process, &held, fates));
            rows.spaces.extend(address_space(memory, &fates[process]));
            let mut is_kept = HashSet::new();
            for held in &held {
                if let Some(found) = self.retention(process, held, fates) {
                    is_kept.insert(held.origin);
                    let by = (found.until.word(), found.by_exit);
                    kept.entry((process, found.owner, held.location, by))
                        .or_insert_with(Vec::new)
                        .push((held.bytes, found));
                }
            }
            let has = |allocation: &&OwnAllocation| allocation.history.ended.is_none();
            let all = memory.allocations().filter(has).map(|allocation| {
                let origin = self.find_origin(process, allocation.id);
                (is_kept.contains(&origin), self.size_of(origin, allocation), process, allocation.id)
            });
            singles.extend(all);
        }
        rows.kept = kept.into_iter().map(|(key, all)| self::kept_row(key, &all, fates, now)).collect();
        rows.kept.sort_by_key(sort_key);
        singles.sort_by_key(|(kept, bytes, process, number)| (!kept, Reverse(*bytes), *process, *number));
        rows.largest_more = singles.len().saturating_sub(MOST_SINGLE_ROWS) as u64;
        singles.truncate(MOST_SINGLE_ROWS);
        rows.multicast = self.multicast_rows(fates);
        rows.largest = single_rows(self, &singles, fates);
        rows
    }

    /// Returns the size of an allocation; 0 if unknown.
    fn size_of(&self, origin: AllocationOrigin, own: &OwnAllocation) -> u64 {
        self.allocation_of(origin).and_then(|allocation| allocation.size()).or(own.size()).unwrap_or(0)
    }
}

/// Sorts rows that come from several parts of a job, and drops rows of single allocations beyond the largest number.
pub fn sort_and_truncate(rows: &mut Allocations) {
    rows.kept.sort_by_key(sort_key);
    // Objects without a known creator come last.
    rows.multicast.sort_by_key(|row| row.made_by.is_none());
    rows.largest.sort_by_key(|row| (!row.kept, Reverse(row.bytes.unwrap_or(0))));
    rows.largest_more = rows.largest_more.saturating_add(rows.largest.len().saturating_sub(MOST_SINGLE_ROWS) as u64);
    rows.largest.truncate(MOST_SINGLE_ROWS);
}

/// Returns the sort key of a row about kept memory.
fn sort_key(kept: &Kept) -> (bool, Reverse<u64>) {
    (kept.until != RetentionEnd::Now.word(), Reverse(kept.bytes))
}

impl RetentionEnd {
    fn word(self) -> &'static str {
        match self {
            RetentionEnd::Now => "now",
            RetentionEnd::Exit(_) => "exit",
            RetentionEnd::GivenUp(_) => "given up",
        }
    }

    fn time(self) -> Option<u64> {
        match self {
            RetentionEnd::Now => None,
            RetentionEnd::Exit(at) | RetentionEnd::GivenUp(at) => Some(at),
        }
    }
}

/// Returns the memory of a process on each device.
fn device_rows(
    imports: &ImportGraph,
    process: usize,
    held: &[ImportedAllocation],
    fates: &[ProcessEnd],
) -> Vec<DeviceMemory> {
    let memory = &imports.processes[process];
    let mut rows: BTreeMap<Location, DeviceMemory> = BTreeMap::new();
    let row = |location: Location| {
        let ((place, device), proc) = (location.to_report_location(), fates[process].proc.clone());
        DeviceMemory { proc, location: place, device, ..DeviceMemory::default() }
    };
    for (location, own) in &memory.state.keeper.own {
        let row = rows.entry(*location).or_insert_with(|| row(*location));
        (row.made, row.allocations, row.bytes, row.most_bytes) = (own.times, own.now, own.bytes, own.most);
    }
    for allocation in memory.allocations().filter(|it| !it.history.exports.is_empty()) {
        let exports = &allocation.history.exports;
        let location = imports.location_of_own(process, allocation);
        let row = rows.entry(location).or_insert_with(|| row(location));
        let is_known = |export: &&u64| imports.is_imported(memory.domain, **export);
        row.exported += exports.len() as u64;
        row.never_imported += exports.iter().filter(|export| !is_known(export)).count() as u64;
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
        rows.entry(location).and_modify(|row| row.imported_most_bytes = most_bytes_at_once(spans.into_iter()));
    }
    for mapping in memory.state.mappings.each() {
        let of = memory.state.allocations.find(mapping.allocation);
        let location = of.map_or(Location::Unknown, |of| imports.location_of_own(process, of));
        let row = rows.entry(location).or_insert_with(|| row(location));
        row.mapped_bytes = row.mapped_bytes.saturating_add(mapping.bytes);
    }
    rows.into_values().collect()
}

fn address_space(memory: &ProcessMemory, fate: &ProcessEnd) -> Option<AddressSpace> {
    let (reserved, mapped) = (memory.state.keeper.reserved, memory.state.keeper.mapped);
    let is_used = reserved.times > 0 || mapped.times > 0;
    is_used.then(|| AddressSpace {
        proc: fate.proc.clone(),
        reservations: reserved.now,
        reserved_bytes: reserved.bytes,
        reserved_most_bytes: reserved.most,
        mappings: mapped.now,
        mapped_bytes: mapped.bytes,
        mapped_most_bytes: mapped.most,
        unmapped_bytes: memory.state.keeper.unmapped_ranges.unmapped_bytes(),
    })
}

/// Key of a row: the holder, the owner, the location, the kind of end, and true if the owner had ended.
type KeptKey = (usize, usize, Location, (&'static str, bool));

fn kept_row(
    (holder, owner, location, (until, by_exit)): KeptKey,
    all: &[(u64, join::RetainedAllocation)],
    fates: &[ProcessEnd],
    now: u64,
) -> Kept {
    let (place, device) = location.to_report_location();
    let ends = || all.iter().map(|(_, kept)| kept.until.time());
    Kept {
        proc: fates[holder].proc.clone(),
        owner: fates[owner].proc.clone(),
        location: place,
        device,
        allocations: all.len() as u64,
        bytes: most_bytes_at_once(all.iter().map(|(bytes, kept)| (kept.since, kept.until.time(), *bytes))),
        given_up_by: if by_exit { "exit" } else { "release" },
        given_up_ns: all.iter().map(|(_, kept)| kept.released).min().unwrap_or(0),
        until,
        until_ns: ends().max().flatten(),
        longest_ns: all
            .iter()
            .map(|(_, kept)| kept.until.time().unwrap_or(now).saturating_sub(kept.since))
            .max()
            .unwrap_or(0),
    }
}

fn single_rows(imports: &ImportGraph, singles: &[(bool, u64, usize, Id)], fates: &[ProcessEnd]) -> Vec<Allocation> {
    let mapping = |mapping: &OwnMapping| Mapping {
        address: format!("{:#x}", mapping.name),
        bytes: mapping.bytes,
        access: access_rows(mapping.history.access.iter().copied()),
    };
    let row = |(is_kept, bytes, process, number): &(bool, u64, usize, Id)| {
        let state = &imports.processes[*process].state;
        let allocation = state.allocations.find(*number)?;
        let mappings = state.mappings.each().filter(|mapping| mapping.allocation == *number);
        let history = &allocation.history;
        let origin = imports.find_origin(*process, *number);
        let (place, device) = imports.location_of_own(*process, allocation).to_report_location();
        let owner = match origin {
            AllocationOrigin::Known(owner, _) => Some(fates[owner].proc.clone()),
            AllocationOrigin::Unknown(..) => None,
        };
        let imported = match history.source {
            AllocationSource::Imported(fingerprint @ 1..) => Some(Fingerprint(fingerprint)),
            _ => None,
        };
        let exports = history.exports.iter().rev().take(MOST_PARTS).rev();
        Some(Allocation {
            proc: fates[*process].proc.clone(),
            handle: (allocation.references > 0).then(|| format!("{:#x}", allocation.name)),
            location: place,
            device,
            bytes: (*bytes > 0).then_some(*bytes),
            owner,
            since_ns: history.created_at(),
            handle_types: handle_type_names(allocation.types.unwrap_or(0)),
            references: allocation.references.into(),
            retained: history.retained,
            released: history.released,
            exports: exports.map(|export| Fingerprint(*export)).collect(),
            imported_as: imported,
            mappings: mappings.take(MOST_PARTS).map(mapping).collect(),
            mapped: allocation.mappings.into(),
            kept: *is_kept,
        })
    };
    singles.iter().filter_map(row).collect()
}

/// Returns one row for each device with access, with the name of its flags.
pub fn access_rows(all: impl Iterator<Item = (Uuid, i32)>) -> Vec<Access> {
    let row = |(device, flags): (Uuid, i32)| {
        let word = CUmemAccess_flags(flags).name();
        Access { device, flags: word.map_or_else(|| flags.to_string(), str::to_owned) }
    };
    all.filter(|(_, flags)| *flags != 0).map(row).collect()
}

/// Returns the names of the handle types in a bit mask.
pub fn handle_type_names(types: i32) -> Vec<&'static str> {
    let known = CUmemAllocationHandleType::VALUES.iter();
    known.filter(|(bit, _)| *bit != 0 && types & bit == *bit).map(|(_, name)| *name).collect()
}
