//! The shared memory that processes have, and its recorded uses by handle: which process read or wrote which bytes, in the
//! order of time.

use crate::follow::collect::Collected;
use crate::follow::ledger::{HandleEntry, ObjectEnd, OpenPeriod};
use crate::follow::uses::MemoryUse;
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, HashMap};

/// Number of uses above which the uses of a memory are not compared at all.
const MOST_COMPARED: usize = 1024;

/// The addresses of shared memory in a process that exported or opened it, with the time in which they are valid.
#[derive(Clone, Copy)]
pub struct SharedRange<'a> {
    pub start: u64,
    bytes: u64,
    pub from: u64,
    pub until: u64,
    pub entry: &'a HandleEntry,
    /// The open of the memory; `None` if the process exported it.
    pub open: Option<&'a OpenPeriod>,
}

/// The address ranges of shared memory, by process.
pub type SharedRanges<'a> = HashMap<usize, Vec<SharedRange<'a>>>;

/// Use of shared memory by a process.
#[derive(Clone, Copy)]
pub struct ProcessUse<'a> {
    pub process: usize,
    pub used: &'a MemoryUse,
    pub offset: u64,
}

/// Shared memory, its exporter, and its uses in the order of time.
pub struct UsedMemory<'a> {
    pub entry: &'a HandleEntry,
    pub owner: usize,
    pub all: Vec<ProcessUse<'a>>,
}

impl SharedRange<'_> {
    /// Returns true if the range contains all of `bytes` bytes at an address, at a time.
    pub fn contains(&self, address: u64, bytes: u64, at: u64) -> bool {
        self.start <= address
            && address - self.start <= self.bytes.saturating_sub(bytes)
            && (self.from..self.until).contains(&at)
    }
}

/// Returns the address ranges of memory that processes exported or opened.
pub fn find_shared_ranges<'a>(all: &'a Collected) -> SharedRanges<'a> {
    let mut ranges = SharedRanges::new();
    let ended = |ended: Option<ObjectEnd>| ended.map_or(u64::MAX, |ended| ended.at.unwrap_or(0));
    for entry in all.ledger.handles().iter().filter(|entry| entry.kind.is_memory()) {
        let Some(export) = &entry.export else { continue };
        let Some(bytes) = export.bytes else { continue };
        let made = SharedRange {
            start: export.address,
            bytes,
            from: export.first.at,
            until: ended(export.ended),
            entry,
            open: None,
        };
        ranges.entry(export.process).or_default().push(made);
        for import in &entry.imports {
            let of = |time: &'a OpenPeriod| SharedRange {
                start: time.address,
                from: time.opened,
                until: ended(time.ended),
                open: Some(time),
                ..made
            };
            ranges.entry(import.process).or_default().extend(import.times.iter().map(of));
        }
    }
    ranges
}

/// Returns the shared memory at the address of a use, and the offset in the memory.
pub fn find_memory_of_use<'a>(
    all: &'a Collected,
    ranges: &SharedRanges<'a>,
    process: usize,
    used: &MemoryUse,
) -> Option<(&'a HandleEntry, u64)> {
    let shared = |handle| all.find_handle(process, Object::Allocation, handle);
    used.handle.and_then(shared).map(|entry| (entry, used.offset)).or_else(|| {
        let at = |range: &&SharedRange| range.contains(used.address, used.bytes, used.at);
        let range = ranges.get(&process)?.iter().find(at)?;
        Some((range.entry, used.address - range.start))
    })
}

impl ProcessUse<'_> {
    /// Returns true if this use writes bytes that another use reads or writes.
    pub fn writes_bytes_of(&self, other: &ProcessUse) -> bool {
        self.used.is_write && self.overlaps(other)
    }

    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.used.bytes)
    }

    pub fn overlaps(&self, other: &ProcessUse) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

impl UsedMemory<'_> {
    /// Returns true if the recording has all copies and memsets that used the memory, and they are few enough to be compared.
    pub fn is_comparable(&self, all: &Collected) -> bool {
        let mut uses = all.stats.iter().map(|stats| &stats.uses);
        self.all.len() <= MOST_COMPARED && all.has_all_calls_of(self.entry.domain) && !uses.any(|it| it.is_cut)
    }
}

/// Returns the shared memory that recorded copies used.
pub fn find_used_memories<'a>(all: &'a Collected, ranges: &SharedRanges<'a>) -> Vec<UsedMemory<'a>> {
    let mut memories: BTreeMap<_, UsedMemory> = BTreeMap::new();
    for (process, stats) in all.stats.iter().enumerate() {
        for used in &stats.uses.all {
            let Some((entry, offset)) = find_memory_of_use(all, ranges, process, used) else { continue };
            let Some(owner) = entry.export.as_ref().map(|export| export.process) else { continue };
            let key = (entry.domain, entry.fingerprint);
            let memory = memories.entry(key).or_insert_with(|| UsedMemory { entry, owner, all: Vec::new() });
            memory.all.push(ProcessUse { process, used, offset });
        }
    }
    memories.values_mut().for_each(|memory| memory.all.sort_by_key(|touch| touch.used.at));
    memories.into_values().collect()
}

/// The time of the last use of each handle's memory, by process and handle.
#[derive(Default)]
pub struct LastUses(HashMap<(usize, *const HandleEntry), u64>);

impl LastUses {
    pub fn new(all: &Collected, ranges: &SharedRanges) -> LastUses {
        let mut last_uses = LastUses::default();
        for (process, stats) in all.stats.iter().enumerate() {
            let mut known: Vec<&SharedRange> = ranges.get(&process).into_iter().flatten().collect();
            known.sort_by_key(|range| range.start);
            for used in &stats.uses.all {
                let shared = |handle| all.find_handle(process, Object::Allocation, handle);
                let virtual_memory = used.handle.and_then(shared);
                let until = known.partition_point(|range| range.start <= used.address);
                let start = known[..until].last().map_or(0, |range| range.start);
                let near = known[..until].iter().rev().take_while(|range| range.start == start);
                let at = near.filter(|range| range.contains(used.address, 1, used.at)).map(|range| range.entry);
                for entry in at.chain(virtual_memory) {
                    let last = last_uses.0.entry((process, std::ptr::from_ref(entry))).or_default();
                    *last = used.at.max(*last);
                }
            }
        }
        last_uses
    }

    /// Returns the time at which a process last used the memory of a handle.
    pub fn last_use_by(&self, process: usize, entry: &HandleEntry) -> Option<u64> {
        self.0.get(&(process, std::ptr::from_ref(entry))).copied()
    }

    /// Returns the time at which the exporter or any importer last used the memory of a handle.
    pub fn last_use_by_any(&self, entry: &HandleEntry) -> Option<u64> {
        let exporter = entry.export.iter().map(|export| export.process);
        let all = exporter.chain(entry.imports.iter().map(|import| import.process));
        all.filter_map(|process| self.last_use_by(process, entry)).max()
    }
}
