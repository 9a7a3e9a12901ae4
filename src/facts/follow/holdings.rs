//! Device memory of all processes over time, by the process that made it, and by the processes that keep it.
//!
//! The book of each process has the changes of the memory that the process made. This module adds the states that only all
//! processes together show: memory that importers keep although its owner freed it, and exports that no process imported.
//! Imported memory counts once, as memory of the exporter; the importers that hold it are listed beside it.

use crate::follow::judged::ASSUMED_LIFETIME;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{HandleTable, Import, OpenPeriod};
use crate::follow::memory::book::{MemoryKind, MemoryPlace, MemorySum};
use crate::follow::memory::{AllocationSource, Location, ProcessMemory};
use crate::follow::virtual_memory::{AllocationOrigin, ImportGraph, RetentionEnd};
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of times in a series; changes that are closer together become one.
const MOST_POINTS: usize = 500;

/// The state of memory on a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemoryState {
    /// The owner of the memory has not freed it.
    InUse,
    /// The owner exported the memory, and no process imported it.
    NeverImported,
    /// The owner unmapped the memory, and still has a handle of it.
    Unmapped,
    /// The owner freed the memory to its pool, which may keep it.
    Pooled,
    /// The owner freed the memory or ended, and importers still have it.
    Kept,
}

/// Memory of one process on a device, from one place and in one state.
#[derive(Clone, Debug)]
pub struct MemoryHolding {
    /// The process that allocated the memory.
    pub process: usize,
    pub kind: MemoryKind,
    pub state: MemoryState,
    /// The call stack of the allocations, if known.
    pub stack: Option<StackNumber>,
    /// The return address of the allocating calls, if only that is known.
    pub address: Option<u64>,
    pub bytes: u64,
    pub count: u64,
    /// Number of allocations that the place ever created, including freed ones; `None` if unknown.
    pub made: Option<u64>,
    /// The importers that keep the memory, each with the fingerprint of the handle that it imported (0 if unknown).
    /// Empty if the owner still has the memory.
    pub holders: Vec<(usize, u64)>,
    /// True if the recording shows with certainty that the memory existed at the time.
    pub is_sure: bool,
}

/// Key of a line of a series: process, kind, and state of the memory.
type LineKey = (usize, MemoryKind, MemoryState);

/// Memory on one device over time.
pub struct Series {
    pub times: Vec<u64>,
    /// For each process, kind, and state of memory: the bytes at each of the times.
    pub lines: BTreeMap<LineKey, Vec<u64>>,
}

impl MemoryHolding {
    /// Returns a holding without any memory.
    pub fn new(process: usize, kind: MemoryKind, state: MemoryState) -> Self {
        let (stack, address, made, holders) = (None, None, None, Vec::new());
        MemoryHolding { process, kind, state, stack, address, bytes: 0, count: 0, made, holders, is_sure: true }
    }
}

/// An allocation that a process keeps although its owner freed it.
struct RetainedMemory {
    owner: usize,
    /// Kind of the handle, and the number of the allocation or the fingerprint of the handle.
    id: (Object, u64),
    kind: MemoryKind,
    stack: Option<StackNumber>,
    location: Location,
    bytes: u64,
    holder: usize,
    fingerprint: u64,
    since: u64,
    until: u64,
    /// Time until which the holder certainly kept the memory.
    sure_until: u64,
}

/// An export that no process imported. Its bytes are a part of the memory of its place.
struct UnusedExport {
    process: usize,
    place: MemoryPlace,
    bytes: u64,
    since: u64,
    until: u64,
}

/// Memory of all processes of a job.
pub struct MemoryHoldings<'a> {
    memories: &'a [ProcessMemory],
    fates: &'a [ProcessEnd],
    kept: Vec<RetainedMemory>,
    unused: Vec<UnusedExport>,
}

impl<'a> MemoryHoldings<'a> {
    /// Reads the books of all processes. `knows_all` returns true for a process if all imports of its memory by others were
    /// recorded.
    pub fn new(
        imports: &ImportGraph<'a>,
        ledger: &HandleTable,
        fates: &'a [ProcessEnd],
        knows_all: impl Fn(usize) -> bool,
    ) -> Self {
        let memories = imports.processes;
        let mut kept = Vec::new();
        for holder in 0..fates.len() {
            add_kept_allocations(imports, holder, fates, &mut kept);
        }
        add_kept_openings(memories, ledger, fates, &mut kept);
        let mut unused = Vec::new();
        for process in (0..fates.len()).filter(|process| knows_all(*process)) {
            add_unused_exports(imports, process, &mut unused);
        }
        add_unused_handles(memories, ledger, &knows_all, &mut unused);
        MemoryHoldings { memories, fates, kept, unused }
    }

    /// Returns all memory on a device at a time, of processes for which `is_here` returns true: the largest holding first.
    pub fn memory_at(&self, device: Uuid, time: u64, is_here: impl Fn(usize) -> bool) -> Vec<MemoryHolding> {
        let location = Location::Device(device);
        let mut rows: Vec<MemoryHolding> = Vec::new();
        for (process, memory) in self.memories.iter().enumerate().filter(|(it, _)| is_here(*it)) {
            let Some(is_sure) = self.was_running(process, time) else { continue };
            let book = &memory.state.keeper.book;
            let is_sure = is_sure && book.is_exact() && !self.fates[process].has_lost;
            let mut places = book.memory_at(time);
            places.retain(|place, _| place.location == location);
            let unused = self.unused.iter().filter(|it| it.process == process && it.place.location == location);
            let unused = subtract_unused(unused.filter(|it| it.since <= time && time < it.until), &mut places);
            let state = |place: &MemoryPlace| match place.kind {
                MemoryKind::Unmapped => MemoryState::Unmapped,
                MemoryKind::Pooled => MemoryState::Pooled,
                MemoryKind::Memory | MemoryKind::Mapped | MemoryKind::Pool | MemoryKind::Small => MemoryState::InUse,
            };
            let rest = places.iter().map(|(place, sum)| (*place, state(place), *sum));
            let all = unused.into_iter().map(|(place, sum)| (place, MemoryState::NeverImported, sum)).chain(rest);
            let row = |(place, state, MemorySum { count, bytes, made }): (MemoryPlace, MemoryState, MemorySum)| {
                let stack = Some(place.stack);
                MemoryHolding { stack, bytes, count, made, is_sure, ..MemoryHolding::new(process, place.kind, state) }
            };
            rows.extend(all.filter(|(.., sum)| sum.bytes > 0).map(row));
        }
        rows.extend(self.retained_rows(location, time, is_here));
        rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.process, row.state, row.stack));
        rows
    }

    /// Returns true if a process certainly ran at a time, false if it probably ran, and `None` if it had ended.
    pub fn was_running(&self, process: usize, time: u64) -> Option<bool> {
        let fate = &self.fates[process];
        (time < known_end(fate)).then_some(fate.alive == Some(true) || time <= fate.ran_until.max(fate.last_seen))
    }

    /// Returns the memory that importers keep, by owner and place. Each allocation counts once, however many importers keep it.
    fn retained_rows(&self, location: Location, time: u64, is_here: impl Fn(usize) -> bool) -> Vec<MemoryHolding> {
        let mut allocations: BTreeMap<(usize, Object, u64), Vec<&RetainedMemory>> = BTreeMap::new();
        for kept in self.retained_at(time).filter(|it| it.location == location && is_here(it.owner)) {
            allocations.entry((kept.owner, kept.id.0, kept.id.1)).or_default().push(kept);
        }
        let mut rows: BTreeMap<(usize, MemoryKind, Option<StackNumber>), MemoryHolding> = BTreeMap::new();
        for kept in allocations.values() {
            let first = kept[0];
            let row = rows.entry((first.owner, first.kind, first.stack)).or_insert_with(|| MemoryHolding {
                stack: first.stack,
                ..MemoryHolding::new(first.owner, first.kind, MemoryState::Kept)
            });
            row.bytes += kept.iter().map(|it| it.bytes).max().unwrap_or(0);
            row.count += 1;
            row.is_sure &= kept.iter().any(|it| time < it.sure_until);
            for it in kept {
                if !row.holders.iter().any(|(holder, _)| *holder == it.holder) {
                    row.holders.push((it.holder, it.fingerprint));
                }
            }
        }
        rows.into_values().collect()
    }

    /// Returns the number of bytes of `owner` on a device that `holder` keeps at a time.
    pub fn bytes_kept_by(&self, holder: usize, owner: usize, device: Uuid, time: u64) -> u64 {
        let key = (holder, owner, Location::Device(device));
        let its = self.retained_at(time).filter(|it| (it.holder, it.owner, it.location) == key);
        its.map(|it| it.bytes).sum()
    }

    /// Returns all memory that is kept at a time.
    fn retained_at(&self, time: u64) -> impl Iterator<Item = &RetainedMemory> {
        self.kept.iter().filter(move |it| it.since <= time && time < it.until)
    }

    /// Returns the device on which importers keep the most bytes at a time.
    pub fn device_with_most_kept(&self, time: u64) -> Option<Uuid> {
        let mut devices: BTreeMap<Uuid, u64> = BTreeMap::new();
        for it in self.retained_at(time) {
            let Some(device) = it.location.device() else { continue };
            *devices.entry(device).or_default() += it.bytes;
        }
        devices.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(device, _)| device)
    }

    /// Returns all devices on which processes for which `is_here` returns true ever had memory.
    pub fn devices(&self, is_here: impl Fn(usize) -> bool) -> BTreeSet<Uuid> {
        let books = self.memories.iter().enumerate().filter(|(process, _)| is_here(*process));
        let changes = books.flat_map(|(_, memory)| memory.state.keeper.book.changes());
        changes.filter_map(|(place, _)| place.location.device()).collect()
    }

    /// Returns the memory on a device over time, of processes for which `is_here` returns true, at up to [`MOST_POINTS`] times.
    pub fn series_of_device(&self, device: Uuid, is_here: impl Fn(usize) -> bool) -> Series {
        let location = Location::Device(device);
        let mut changes: Vec<(u64, LineKey, i64)> = Vec::new();
        for (process, memory) in self.memories.iter().enumerate().filter(|(it, _)| is_here(*it)) {
            let own = memory.state.keeper.book.changes().filter(|(place, _)| place.location == location);
            let own = own.filter(|(place, _)| place.kind != MemoryKind::Pooled);
            let mut left: BTreeMap<MemoryKind, i64> = BTreeMap::new();
            for (place, change) in own {
                changes.push((change.at, (process, place.kind, MemoryState::InUse), change.bytes));
                *left.entry(place.kind).or_default() += change.bytes;
            }
            let end = known_end(&self.fates[process]);
            let ended = left.into_iter().filter(|_| end != u64::MAX);
            changes.extend(ended.map(|(kind, bytes)| (end, (process, kind, MemoryState::InUse), -bytes)));
        }
        let mut spans: BTreeMap<(usize, Object, u64), (&RetainedMemory, u64, u64)> = BTreeMap::new();
        for it in self.kept.iter().filter(|it| it.location == location && is_here(it.owner)) {
            let span = spans.entry((it.owner, it.id.0, it.id.1)).or_insert((it, it.since, it.until));
            (span.1, span.2) = (span.1.min(it.since), span.2.max(it.until));
        }
        for (it, since, until) in spans.into_values() {
            let (key, bytes) = ((it.owner, it.kind, MemoryState::Kept), it.bytes as i64);
            changes.push((since, key, bytes));
            changes.extend((until != u64::MAX).then_some((until, key, -bytes)));
        }
        changes.sort_unstable();
        build_series(&changes)
    }
}

/// Builds a series from changes in the order of time. Changes in one of at most [`MOST_POINTS`] equal parts of the time become
/// one.
fn build_series(changes: &[(u64, LineKey, i64)]) -> Series {
    let (first, last) = (changes.first().map_or(0, |it| it.0), changes.last().map_or(0, |it| it.0));
    let width = ((last - first) / (MOST_POINTS as u64 - 1)).max(1);
    let part = |at: u64| (at - first) / width;
    let mut sums: BTreeMap<LineKey, i64> = changes.iter().map(|(_, line, _)| (*line, 0)).collect();
    let mut series = Series { times: Vec::new(), lines: BTreeMap::new() };
    for changes in changes.chunk_by(|one, next| part(one.0) == part(next.0)) {
        changes.iter().for_each(|(_, line, bytes)| *sums.entry(*line).or_default() += bytes);
        series.times.extend(changes.last().map(|(at, ..)| *at));
        for (line, sum) in &sums {
            series.lines.entry(*line).or_default().push((*sum).max(0) as u64);
        }
    }
    series
}

/// Returns the time by which a process had ended; `u64::MAX` if the recording does not show an end.
fn known_end(fate: &ProcessEnd) -> u64 {
    match fate.alive {
        Some(false) => fate.ended_by.unwrap_or(fate.last_seen.saturating_add(ASSUMED_LIFETIME)),
        _ => u64::MAX,
    }
}

/// Adds the imported allocations of virtual memory that a process keeps although their owners released them.
fn add_kept_allocations(imports: &ImportGraph, holder: usize, fates: &[ProcessEnd], all: &mut Vec<RetainedMemory>) {
    for held in imports.imported_allocations(holder) {
        let Some(found) = imports.retention(holder, &held, fates) else { continue };
        let AllocationOrigin::Known(owner, number) = held.origin else { continue };
        let (until, sure_until) = match found.until {
            RetentionEnd::Now => (u64::MAX, u64::MAX),
            RetentionEnd::GivenUp(at) => (at, at),
            RetentionEnd::Exit(at) => (known_end(&fates[holder]), at.max(fates[holder].ran_until)),
        };
        all.push(RetainedMemory {
            owner,
            id: (Object::Allocation, number.into()),
            kind: MemoryKind::Mapped,
            stack: imports.allocation_of(held.origin).and_then(|allocation| allocation.history.creating_stack()),
            location: held.location,
            bytes: held.bytes,
            holder,
            fingerprint: held.fingerprint().unwrap_or(0),
            since: found.since,
            until,
            sure_until,
        });
    }
}

/// Adds the memory that processes have open by legacy handles although its exporters freed it.
fn add_kept_openings(
    memories: &[ProcessMemory],
    ledger: &HandleTable,
    fates: &[ProcessEnd],
    all: &mut Vec<RetainedMemory>,
) {
    for entry in ledger.handles().iter().filter(|entry| entry.kind.is_memory()) {
        let Some(export) = entry.export.as_deref() else { continue };
        let Some(freed) = export.ended.and_then(|ended| ended.at) else { continue };
        let owner = export.process;
        let made = memories[owner].state.keeper.book.place_of_exported(entry.fingerprint);
        for import in entry.imports.iter().filter(|import| import.process != export.process) {
            for time in &import.times {
                let Some((until, sure_until)) = open_until(fates, import, time) else { continue };
                all.extend((freed.max(time.opened) < until).then(|| RetainedMemory {
                    owner,
                    id: (entry.kind, entry.fingerprint),
                    kind: made.map_or(MemoryKind::Memory, |place| place.kind),
                    stack: made.map(|place| place.stack),
                    location: export.device.map_or(Location::Unknown, Location::Device),
                    bytes: export.bytes.unwrap_or(0),
                    holder: import.process,
                    fingerprint: entry.fingerprint,
                    since: freed.max(time.opened),
                    until,
                    sure_until,
                }));
            }
        }
    }
}

/// Returns the time until which an importer had a handle open, and the time until which that is certain. `None` if the
/// recording does not show it.
fn open_until(fates: &[ProcessEnd], import: &Import, time: &OpenPeriod) -> Option<(u64, u64)> {
    let fate = &fates[import.process];
    match time.ended {
        Some(ended) => ended.at.map(|at| (at, at)),
        None if fate.has_lost || time.close_prevented_since.is_some() => None,
        None if fate.alive == Some(false) => Some((known_end(fate), fate.last_seen.max(fate.ran_until))),
        None => Some((u64::MAX, u64::MAX)),
    }
}

/// Adds the allocations of virtual memory that a process exported and no process imported.
fn add_unused_exports(imports: &ImportGraph, process: usize, all: &mut Vec<UnusedExport>) {
    let memory = &imports.processes[process];
    for own in memory.allocations() {
        let history = &own.history;
        let (AllocationSource::Made(location), Some(stack)) = (history.source, history.creating_stack()) else {
            continue;
        };
        let is_imported = history.exports.iter().any(|export| imports.is_imported(memory.domain, *export));
        if history.exports.is_empty() || history.unknown_exports > 0 || is_imported || own.multicast.is_some() {
            continue;
        }
        let kind = if own.mappings > 0 { MemoryKind::Mapped } else { MemoryKind::Unmapped };
        let (since, until) = (history.created_at(), history.ended.unwrap_or(u64::MAX));
        let place = MemoryPlace { kind, location, stack };
        all.push(UnusedExport { process, place, bytes: own.bytes, since, until });
    }
}

/// Adds the memory that processes exported by legacy handles and no process opened.
fn add_unused_handles(
    memories: &[ProcessMemory],
    ledger: &HandleTable,
    knows_all: &impl Fn(usize) -> bool,
    all: &mut Vec<UnusedExport>,
) {
    let mut known = BTreeSet::new();
    for (entry, export) in ledger.undamaged_exports().filter(|(entry, _)| entry.kind == Object::Memory) {
        let (process, since) = (export.process, export.first.at);
        let place = memories[process].state.keeper.book.place_of_exported(entry.fingerprint);
        let (Some(place), Some(bytes)) = (place, export.bytes) else { continue };
        let until = export.ended.map_or(u64::MAX, |ended| ended.at.unwrap_or(0));
        if entry.imports.is_empty() && knows_all(process) && known.insert((process, export.address, since)) {
            all.push(UnusedExport { process, place, bytes, since, until });
        }
    }
}

/// Subtracts exports that no process imported from the memory of their places. Returns the subtracted memory by place.
fn subtract_unused<'u>(
    unused: impl Iterator<Item = &'u UnusedExport>,
    places: &mut BTreeMap<MemoryPlace, MemorySum>,
) -> BTreeMap<MemoryPlace, MemorySum> {
    let mut taken: BTreeMap<MemoryPlace, MemorySum> = BTreeMap::new();
    for one in unused {
        // The allocation may have been mapped or unmapped since the export, and is then in the other place.
        let other = match one.place.kind {
            MemoryKind::Mapped => MemoryKind::Unmapped,
            MemoryKind::Unmapped => MemoryKind::Mapped,
            kind => kind,
        };
        for kind in [one.place.kind, other] {
            let place = MemoryPlace { kind, ..one.place };
            if let Some(left) = places.get_mut(&place)
                && left.bytes >= one.bytes
            {
                (left.count, left.bytes) = (left.count.saturating_sub(1), left.bytes - one.bytes);
                let sum = taken.entry(place).or_insert(MemorySum { count: 0, bytes: 0, ..*left });
                (sum.count, sum.bytes) = (sum.count + 1, sum.bytes + one.bytes);
                break;
            }
        }
    }
    taken
}
