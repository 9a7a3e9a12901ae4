//! Finds the allocations behind imports across processes, and the memory that imports keep alive.

use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{CallSite, HandleDomain};
use crate::follow::memory::{Location, Memory, OwnAllocation, Source};
use crate::follow::peers::Peers;
use cupeer_model::Id;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Largest length of a chain of imports and re-exports that is followed.
const MOST_EXPORTS: usize = 8;

/// The imports of all processes, each joined with the allocation that it came from.
pub struct ImportGraph<'a> {
    pub processes: &'a [Memory],
    exported: HashMap<(HandleDomain, u64), (usize, Id), foldhash::fast::RandomState>,
    imported: HashSet<(HandleDomain, u64), foldhash::fast::RandomState>,
    /// Time until which a process had imports of its own allocation; `None` if it still has one.
    own_imports: HashMap<Origin, Option<u64>, foldhash::fast::RandomState>,
}

/// Identity of the allocation that an import came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// An allocation of this process.
    Known(usize, Id),
    /// An allocation whose exporter was not recorded: the fingerprint of the handle or, if that is unknown too, the import
    /// itself.
    Unknown(u64, Id),
}

/// An allocation of another process that a process imported, once or several times.
pub struct ImportedAllocation<'a> {
    pub origin: Origin,
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
    pub idle: Option<u64>,
    pub bytes: u64,
    /// Time at which the owner gave the allocation up.
    pub freed: Option<u64>,
}

/// An allocation that an importer kept alive although its owner gave it up or ended.
pub struct RetainedAllocation {
    pub owner: usize,
    /// Time at which the owner gave it up or ended.
    pub released: u64,
    pub by_exit: bool,
    /// Time since which the importer kept it.
    pub since: u64,
    pub until: Until,
}

/// The end of the time in which an allocation was kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Until {
    /// The importer still keeps it.
    Now,
    /// The importer ended at this time.
    Exit(u64),
    /// The importer gave it up at this time.
    GivenUp(u64),
}

impl ImportedAllocation<'_> {
    /// Returns the fingerprint of the handle that was imported last; `None` if unknown.
    pub fn fingerprint(&self) -> Option<u64> {
        match self.last.history.source {
            Source::Imported(fingerprint) => Some(fingerprint).filter(|fingerprint| *fingerprint != 0),
            Source::Made(_) | Source::Unseen => None,
        }
    }
}

impl ImportGraph<'_> {
    /// Returns the imports of a process from other processes whose handles have known fingerprints, in no particular order.
    pub fn imports(&self, process: usize) -> impl Iterator<Item = AllocationImport> {
        let memory = &self.processes[process];
        let mapped = memory.allocations().filter(|own| own.mappings > 0 && own.is_imported());
        let mut first: HashMap<Origin, u64> = HashMap::new();
        for own in mapped {
            let since = first.entry(self.origin(process, own.id)).or_insert(u64::MAX);
            *since = own.history.since().min(*since);
        }
        memory.allocations().filter_map(move |own| {
            let Source::Imported(fingerprint @ 1..) = own.history.source else { return None };
            let origin = self.origin(process, own.id);
            let owned = self.allocation(origin);
            let is_own = matches!(origin, Origin::Known(owner, _) if owner == process);
            let call = own.history.birth?.call;
            let idle = memory.state.keeper.idle.get(&own.id);
            let again = first.get(&origin).map(|_| call.at).filter(|at| first[&origin] < *at);
            (!is_own).then(|| AllocationImport {
                fingerprint,
                call,
                idle: (own.mappings == 0).then(|| idle.copied().or(again)).flatten(),
                ended: own.history.ended,
                bytes: owned.and_then(|owned| owned.size()).or(own.size()).unwrap_or(0),
                freed: owned.and_then(|owned| owned.history.ended),
            })
        })
    }
}

impl<'a> ImportGraph<'a> {
    /// Joins the imports of all processes with the exports that they came from.
    pub fn new(processes: &'a [Memory]) -> ImportGraph<'a> {
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
                if let Source::Imported(fingerprint) = allocation.history.source {
                    imports.imported.insert((memory.domain, fingerprint));
                }
            }
        }
        for (process, memory) in processes.iter().enumerate() {
            for import in memory.allocations() {
                let origin = imports.origin(process, import.id);
                let is_own =
                    matches!(origin, Origin::Known(owner, made) if owner == process && made != import.id);
                if is_own {
                    let until = imports.own_imports.entry(origin).or_insert(import.history.ended);
                    *until = until.zip(import.history.ended).map(|(a, b)| a.max(b));
                }
            }
        }
        imports
    }

    /// Adds the access of devices to memory on other devices to the peer matrix.
    pub fn add_reach(&self, peers: &mut Peers) {
        for (process, memory) in self.processes.iter().enumerate() {
            for ((from, source), reach) in &memory.state.keeper.reach {
                let to = match source {
                    Source::Imported(fingerprint) => self.location_of(memory.domain, *fingerprint),
                    source => source.location(),
                };
                // Host memory has no peers, and a device is not a peer of itself.
                if to != Location::Host && to != Location::Device(*from) {
                    peers.grant(process, Some(*from), to.device(), reach);
                }
            }
        }
    }

    /// Returns true if a process imported the handle of a fingerprint.
    pub fn is_imported(&self, domain: HandleDomain, fingerprint: u64) -> bool {
        self.imported.contains(&(domain, fingerprint))
    }

    pub fn origin(&self, process: usize, number: Id) -> Origin {
        let (mut process, mut number) = (process, number);
        for _ in 0..MOST_EXPORTS {
            let own = self.processes[process].state.allocations.entry(number);
            let Some(Source::Imported(fingerprint)) = own.map(|own| own.history.source) else {
                break;
            };
            let Some(exported) = self.exported.get(&(self.processes[process].domain, fingerprint)) else {
                return Origin::Unknown(fingerprint, if fingerprint == 0 { number } else { Id::NONE });
            };
            (process, number) = *exported;
        }
        Origin::Known(process, number)
    }

    pub fn allocation(&self, origin: Origin) -> Option<&'a OwnAllocation> {
        match origin {
            Origin::Known(process, number) => self.processes[process].state.allocations.entry(number),
            Origin::Unknown(..) => None,
        }
    }

    /// Returns the location of an allocation.
    pub fn location(&self, origin: Origin) -> Location {
        match self.allocation(origin).map(|allocation| allocation.history.source) {
            Some(Source::Made(location)) => location,
            _ => Location::Unknown,
        }
    }

    /// Returns the location of a process's allocation: from the creating process, or else from the driver at the import.
    pub fn location_of_own(&self, process: usize, own: &OwnAllocation) -> Location {
        match self.location(self.origin(process, own.id)) {
            Location::Unknown => own.history.home.map_or(Location::Unknown, Location::Device),
            known => known,
        }
    }

    fn location_of(&self, domain: HandleDomain, fingerprint: u64) -> Location {
        let exported = self.exported.get(&(domain, fingerprint));
        exported.map_or(Location::Unknown, |(process, number)| self.location(self.origin(*process, *number)))
    }

    /// Returns the allocations of other processes that a process ever imported, once each, in the order of their first imports.
    pub fn held(&self, process: usize) -> Vec<ImportedAllocation<'a>> {
        let mut held: BTreeMap<Origin, ImportedAllocation> = BTreeMap::new();
        for import in self.processes[process].allocations() {
            if !matches!(import.history.source, Source::Imported(_)) {
                continue;
            }
            let origin = self.origin(process, import.id);
            // An import of its own allocation is no import from others.
            if matches!(origin, Origin::Known(owner, _) if owner == process) {
                continue;
            }
            let known = self.allocation(origin).and_then(|allocation| allocation.size());
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
                    since: import.history.since(),
                    until: import.history.ended,
                    imports: 1,
                    last: import,
                });
        }
        let mut held: Vec<ImportedAllocation> = held.into_values().collect();
        held.sort_by_key(|held| held.since);
        held
    }

    /// Returns the time in which a process kept an allocation alive that its owner had released, or whose owner had ended.
    pub fn kept(
        &self,
        holder: usize,
        held: &ImportedAllocation,
        fates: &[ProcessEnd],
    ) -> Option<RetainedAllocation> {
        let Origin::Known(owner, _) = held.origin else { return None };
        let ended = self.owner_ended(held.origin);
        let is_gone = fates[owner].alive == Some(false);
        let released = ended.or(is_gone.then_some(fates[owner].last_seen))?;
        let fate = &fates[holder];
        let until = match held.until {
            Some(at) => Until::GivenUp(at),
            None if fate.alive == Some(false) => Until::Exit(fate.last_seen),
            None => Until::Now,
        };
        let since = released.max(held.since);
        let is_kept = match until {
            Until::Now => true,
            Until::Exit(at) | Until::GivenUp(at) => since < at,
        };
        is_kept.then_some(RetainedAllocation { owner, released, by_exit: ended.is_none(), since, until })
    }

    /// Returns the time at which the process that created an allocation had given it up, including its own imports of the
    /// allocation.
    fn owner_ended(&self, origin: Origin) -> Option<u64> {
        let own = self.allocation(origin)?.history.ended?;
        match self.own_imports.get(&origin) {
            Some(imports) => imports.map(|imports| imports.max(own)),
            None => Some(own),
        }
    }
}

/// Returns the largest number of bytes that existed at one time. Each span is a begin, an end (`None` if still there), and bytes.
pub fn most(spans: impl Iterator<Item = (u64, Option<u64>, u64)>) -> u64 {
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
