//! Finds the allocations behind imports across processes, and the memory that imports keep alive.

use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{CallSite, HandleDomain};
use crate::follow::memory::{AllocationSource, Location, OwnAllocation, ProcessMemory};
use crate::follow::peers::PeerMatrix;
use cupeer_model::Id;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of imports and re-exports through which the origin of an allocation is followed.
const MOST_HOPS: usize = 8;

/// The imports of all processes, each joined with the allocation that it came from.
pub struct ImportGraph<'a> {
    pub processes: &'a [ProcessMemory],
    exported: HashMap<(HandleDomain, u64), (usize, Id), foldhash::fast::RandomState>,
    imported: HashSet<(HandleDomain, u64), foldhash::fast::RandomState>,
    /// Time until which a process had imports of its own allocation; `None` if it still has one.
    own_imports: HashMap<AllocationOrigin, Option<u64>, foldhash::fast::RandomState>,
}

/// Identity of the allocation that an import came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AllocationOrigin {
    /// An allocation, by the index of its owner and its identity there.
    Known(usize, Id),
    /// An allocation whose exporter was not recorded: the fingerprint of the handle or, if that is unknown too, the import
    /// itself.
    Unknown(u64, Id),
}

/// An allocation of another process that a process imported, once or several times.
pub struct ImportedAllocation<'a> {
    pub origin: AllocationOrigin,
    pub location: Location,
    pub bytes: u64,
    /// Time of the first import.
    pub since: u64,
    pub until: Option<u64>,
    pub imports: u64,
    /// The latest import.
    pub last: &'a OwnAllocation,
}

/// An import of another process's allocation.
pub struct AllocationImport {
    /// The fingerprint of the handle.
    pub fingerprint: u64,
    pub call: CallSite,
    /// Time at which the process had neither a handle nor a mapping of the import any more.
    pub ended: Option<u64>,
    /// Time since which the process has only a handle of the import: it unmapped the import, or uses an earlier import of the
    /// same allocation.
    pub unmapped_since: Option<u64>,
    pub bytes: u64,
    /// Time at which the owner gave the allocation up.
    pub given_up_at: Option<u64>,
}

/// An allocation that an importer kept alive although its owner gave it up or ended.
pub struct RetainedAllocation {
    pub owner: usize,
    /// Time at which the owner gave the allocation up or ended.
    pub released: u64,
    pub by_exit: bool,
    /// Time since which the importer kept the allocation.
    pub since: u64,
    pub until: RetentionEnd,
}

/// The end of the time in which an allocation was kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RetentionEnd {
    /// The importer still keeps the allocation.
    Now,
    /// The importer ended at this time.
    Exit(u64),
    /// The importer gave the allocation up at this time.
    GivenUp(u64),
}

impl ImportedAllocation<'_> {
    /// Returns the fingerprint of the handle that was imported last; `None` if unknown.
    pub fn fingerprint(&self) -> Option<u64> {
        match self.last.history.source {
            AllocationSource::Imported(fingerprint) => Some(fingerprint).filter(|fingerprint| *fingerprint != 0),
            AllocationSource::Made(_) | AllocationSource::Unseen => None,
        }
    }
}

impl ImportGraph<'_> {
    /// Returns the imports of a process from other processes whose handles have known fingerprints, in no particular order.
    pub fn imports_of(&self, process: usize) -> impl Iterator<Item = AllocationImport> {
        let memory = &self.processes[process];
        let mapped = memory.allocations().filter(|own| own.mappings > 0 && own.is_imported());
        let mut first: HashMap<AllocationOrigin, u64> = HashMap::new();
        for own in mapped {
            let since = first.entry(self.find_origin(process, own.id)).or_insert(u64::MAX);
            *since = own.history.created_at().min(*since);
        }
        memory.allocations().filter_map(move |own| {
            let AllocationSource::Imported(fingerprint @ 1..) = own.history.source else { return None };
            let origin = self.find_origin(process, own.id);
            let owned = self.allocation_of(origin);
            let is_own = matches!(origin, AllocationOrigin::Known(owner, _) if owner == process);
            let call = own.history.creation?.call;
            let idle = memory.state.keeper.unmapped_since.get(&own.id);
            let again = first.get(&origin).map(|_| call.at).filter(|at| first[&origin] < *at);
            (!is_own).then(|| AllocationImport {
                fingerprint,
                call,
                unmapped_since: (own.mappings == 0).then(|| idle.copied().or(again)).flatten(),
                ended: own.history.ended,
                bytes: owned.and_then(|owned| owned.size()).or(own.size()).unwrap_or(0),
                given_up_at: owned.and_then(|owned| owned.history.ended),
            })
        })
    }
}

impl<'a> ImportGraph<'a> {
    /// Joins the imports of all processes with the exports that they came from.
    pub fn new(processes: &'a [ProcessMemory]) -> ImportGraph<'a> {
        let mut imports = ImportGraph {
            processes,
            exported: HashMap::default(),
            imported: HashSet::default(),
            own_imports: HashMap::default(),
        };
        for (process, memory) in processes.iter().enumerate() {
            for allocation in memory.allocations() {
                for export in &allocation.history.exports {
                    imports.exported.insert((memory.domain, *export), (process, allocation.id));
                }
                if let AllocationSource::Imported(fingerprint) = allocation.history.source {
                    imports.imported.insert((memory.domain, fingerprint));
                }
            }
        }
        for (process, memory) in processes.iter().enumerate() {
            for import in memory.allocations() {
                let origin = imports.find_origin(process, import.id);
                let is_own =
                    matches!(origin, AllocationOrigin::Known(owner, made) if owner == process && made != import.id);
                if is_own {
                    let until = imports.own_imports.entry(origin).or_insert(import.history.ended);
                    *until = until.zip(import.history.ended).map(|(a, b)| a.max(b));
                }
            }
        }
        imports
    }

    /// Adds the access of devices to memory on other devices to the peer matrix.
    pub fn add_mapping_access(&self, peers: &mut PeerMatrix) {
        for (process, memory) in self.processes.iter().enumerate() {
            for ((from, source), reach) in &memory.state.keeper.reach {
                let to = match source {
                    AllocationSource::Imported(fingerprint) => self.location_of_handle(memory.domain, *fingerprint),
                    source => source.location(),
                };
                // Host memory has no peers, and a device is not a peer of itself.
                if to != Location::Host && to != Location::Device(*from) {
                    peers.add_mapping_access(process, Some(*from), to.device(), reach);
                }
            }
        }
    }

    /// Returns true if a process imported the handle of a fingerprint.
    pub fn is_imported(&self, domain: HandleDomain, fingerprint: u64) -> bool {
        self.imported.contains(&(domain, fingerprint))
    }

    pub fn find_origin(&self, process: usize, number: Id) -> AllocationOrigin {
        let (mut process, mut number) = (process, number);
        for _ in 0..MOST_HOPS {
            let own = self.processes[process].state.allocations.find(number);
            let Some(AllocationSource::Imported(fingerprint)) = own.map(|own| own.history.source) else {
                break;
            };
            let Some(exported) = self.exported.get(&(self.processes[process].domain, fingerprint)) else {
                return AllocationOrigin::Unknown(fingerprint, if fingerprint == 0 { number } else { Id::NONE });
            };
            (process, number) = *exported;
        }
        AllocationOrigin::Known(process, number)
    }

    pub fn allocation_of(&self, origin: AllocationOrigin) -> Option<&'a OwnAllocation> {
        match origin {
            AllocationOrigin::Known(process, number) => self.processes[process].state.allocations.find(number),
            AllocationOrigin::Unknown(..) => None,
        }
    }

    /// Returns the location of an allocation.
    pub fn location_of_origin(&self, origin: AllocationOrigin) -> Location {
        match self.allocation_of(origin).map(|allocation| allocation.history.source) {
            Some(AllocationSource::Made(location)) => location,
            _ => Location::Unknown,
        }
    }

    /// Returns the location of a process's allocation: from the creating process, or else from the driver at the import.
    pub fn location_of_own(&self, process: usize, own: &OwnAllocation) -> Location {
        match self.location_of_origin(self.find_origin(process, own.id)) {
            Location::Unknown => own.history.device.map_or(Location::Unknown, Location::Device),
            known => known,
        }
    }

    fn location_of_handle(&self, domain: HandleDomain, fingerprint: u64) -> Location {
        let exported = self.exported.get(&(domain, fingerprint));
        exported
            .map_or(Location::Unknown, |(process, number)| self.location_of_origin(self.find_origin(*process, *number)))
    }

    /// Returns the allocations of other processes that a process ever imported, once each, in the order of their first imports.
    pub fn imported_allocations(&self, process: usize) -> Vec<ImportedAllocation<'a>> {
        let mut held: BTreeMap<AllocationOrigin, ImportedAllocation> = BTreeMap::new();
        for import in self.processes[process].allocations() {
            if !matches!(import.history.source, AllocationSource::Imported(_)) {
                continue;
            }
            let origin = self.find_origin(process, import.id);
            // An import of its own allocation is no import from others.
            if matches!(origin, AllocationOrigin::Known(owner, _) if owner == process) {
                continue;
            }
            let known = self.allocation_of(origin).and_then(|allocation| allocation.size());
            let bytes = known.or(import.size()).unwrap_or(0);
            held.entry(origin)
                .and_modify(|held| {
                    held.until = held.until.zip(import.history.ended).map(|(a, b)| a.max(b));
                    held.imports += 1;
                    held.bytes = held.bytes.max(bytes);
                    held.last = import;
                })
                .or_insert_with(|| ImportedAllocation {
                    origin,
                    location: self.location_of_own(process, import),
                    bytes,
                    since: import.history.created_at(),
                    until: import.history.ended,
                    imports: 1,
                    last: import,
                });
        }
        let mut held: Vec<ImportedAllocation> = held.into_values().collect();
        held.sort_by_key(|held| held.since);
        held
    }

    /// Returns from when to when a process kept an allocation alive that its owner had released, or whose owner had
    /// ended; `None` if it did not.
    pub fn retention(
        &self,
        holder: usize,
        held: &ImportedAllocation,
        fates: &[ProcessEnd],
    ) -> Option<RetainedAllocation> {
        let AllocationOrigin::Known(owner, _) = held.origin else { return None };
        let ended = self.given_up_by_owner_at(held.origin);
        let is_gone = fates[owner].alive == Some(false);
        let released = ended.or(is_gone.then_some(fates[owner].last_seen))?;
        let fate = &fates[holder];
        let until = match held.until {
            Some(at) => RetentionEnd::GivenUp(at),
            None if fate.alive == Some(false) => RetentionEnd::Exit(fate.last_seen),
            None => RetentionEnd::Now,
        };
        let since = released.max(held.since);
        let is_kept = match until {
            RetentionEnd::Now => true,
            RetentionEnd::Exit(at) | RetentionEnd::GivenUp(at) => since < at,
        };
        is_kept.then_some(RetainedAllocation { owner, released, by_exit: ended.is_none(), since, until })
    }

    /// Returns the time at which the process that created an allocation had given it up, including its own imports of the
    /// allocation.
    fn given_up_by_owner_at(&self, origin: AllocationOrigin) -> Option<u64> {
        let own = self.allocation_of(origin)?.history.ended?;
        match self.own_imports.get(&origin) {
            Some(imports) => imports.map(|imports| imports.max(own)),
            None => Some(own),
        }
    }
}

/// Returns the largest number of bytes that existed at one time. Each span is a begin, an end (`None` if still there), and bytes.
pub fn most_bytes_at_once(spans: impl Iterator<Item = (u64, Option<u64>, u64)>) -> u64 {
    let mut changes: Vec<(u64, bool, u64)> = Vec::new();
    for (since, until, bytes) in spans {
        changes.push((since, true, bytes));
        changes.extend(until.map(|until| (until, false, bytes)));
    }
    // At equal times, ends come before begins.
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, 0);
    for (_, begins, bytes) in changes {
        now = if begins { now.saturating_add(bytes) } else { now.saturating_sub(bytes) };
        most = most.max(now);
    }
    most
}
