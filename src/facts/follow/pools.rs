//! The table of memory pools: all pools that processes shared or let other devices access.

use crate::follow::ledger::HandleDomain;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::memory::{PoolHistory, ProcessMemory};
use crate::follow::peers::MappingAccess;
use crate::follow::peers::PeerMatrix;
use crate::follow::virtual_memory::{access_rows, handle_type_names};
use cupeer_model::{ObjectOrigin, Pool, Table, TableEntry};
use cupeer_report::model::{self, Fingerprint, Where};
use std::collections::{BTreeSet, HashMap};

/// A pool, with its history.
pub type OwnPool = TableEntry<Pool, PoolHistory>;

/// Number of rows of pools in the report: the first ones by time; further ones are dropped.
const MOST_ROWS: usize = 200;

/// Sorts rows by time, and drops those beyond the largest number.
pub fn sort_and_truncate(rows: &mut Vec<model::Pool>) {
    rows.sort_by_key(|row| row.since_ns);
    rows.truncate(MOST_ROWS);
}

/// The pools that processes exported, each with its process, by the fingerprint of the handle.
type ExportedPools<'a> = HashMap<(HandleDomain, u64), (usize, &'a OwnPool)>;

fn index_exported(processes: &[ProcessMemory]) -> ExportedPools<'_> {
    let mut all = ExportedPools::new();
    for (process, memory) in processes.iter().enumerate() {
        for pool in memory.state.pools.each() {
            all.extend(pool.history.exports.iter().map(|export| ((memory.domain, *export), (process, pool))));
        }
    }
    all
}

/// Adds the access of devices to pools on other devices to the peer matrix. Each pool counts as one mapping.
pub fn add_pool_access(processes: &[ProcessMemory], peers: &mut PeerMatrix) {
    let exported = index_exported(processes);
    for (process, memory) in processes.iter().enumerate() {
        for pool in memory.state.pools.each() {
            let PoolHistory { device, destroyed, imported_as, access, .. } = &pool.history;
            let owner = exported.get(&(memory.domain, *imported_as));
            let to = owner.and_then(|(_, pool)| pool.history.device).or(*device);
            for (from, (flags, at)) in access.iter().filter(|(from, _)| Some(**from) != to) {
                let is_on = *flags != 0 && destroyed.is_none();
                let off = if *flags == 0 { Some(*at) } else { *destroyed };
                let reach =
                    MappingAccess { granted: 1, mappings_now: u64::from(is_on), last_granted: *at, lost_at: off };
                peers.add_mapping_access(process, Some(*from), to, &reach);
            }
        }
    }
}

/// Returns the rows of the report.
pub fn rows(processes: &[ProcessMemory], fates: &[ProcessEnd]) -> Vec<model::Pool> {
    let exported = index_exported(processes);
    let mut importers: HashMap<(HandleDomain, u64), Vec<usize>> = HashMap::new();
    for (process, memory) in processes.iter().enumerate() {
        for pool in memory.state.pools.each().filter(|pool| pool.history.imported_as != 0) {
            importers.entry((memory.domain, pool.history.imported_as)).or_default().push(process);
        }
    }
    let proc = |process: usize| fates[process].proc.clone();
    let mut rows = Vec::new();
    for (process, memory) in processes.iter().enumerate() {
        for pool in memory.state.pools.each().filter(|pool| has_row(pool)) {
            let owner = exported.get(&(memory.domain, pool.history.imported_as)).copied();
            let exports = pool.history.exports.iter();
            let by = exports.filter_map(|export| importers.get(&(memory.domain, *export))).flatten();
            let by: BTreeSet<usize> = by.copied().collect();
            let pointers = memory.state.pointers.each().filter(|pointer| pointer.pool == pool.id);
            rows.push(model::Pool {
                owner: match pool.origin {
                    ObjectOrigin::Imported => owner.map(|(owner, _)| proc(owner)),
                    ObjectOrigin::Made | ObjectOrigin::Found => Some(proc(process)),
                },
                importers: by.into_iter().map(proc).collect(),
                pointers: pointers.count() as u64,
                // An imported pool is on the device of the exported pool.
                ..row(&fates[process], pool, owner.map_or(pool, |(_, made)| made))
            });
        }
    }
    sort_and_truncate(&mut rows);
    rows
}

/// Returns the row of a pool on the device of `made`, which is the exporter's pool. Facts from other processes are not filled in.
fn row(fate: &ProcessEnd, pool: &OwnPool, made: &OwnPool) -> model::Pool {
    let (history, device) = (&pool.history, made.history.device);
    model::Pool {
        proc: fate.proc.clone(),
        handle: format!("{:#x}", history.handle),
        location: match device {
            Some(_) => Where::Device,
            None if made.is_on_host() => Where::Host,
            None => Where::Unknown,
        },
        device,
        origin: match pool.origin {
            ObjectOrigin::Made => "made",
            ObjectOrigin::Imported => "imported",
            ObjectOrigin::Found => "default",
        },
        owner: None,
        handle_types: handle_type_names(pool.types.unwrap_or(0)),
        since_ns: history.since,
        destroyed_ns: history.destroyed,
        left: pool.origin != ObjectOrigin::Found && history.destroyed.is_none() && fate.alive == Some(false),
        exports: history.exports.iter().rev().map(|export| Fingerprint(*export)).collect(),
        imported_as: (history.imported_as != 0).then_some(Fingerprint(history.imported_as)),
        importers: Vec::new(),
        pointers: 0,
        pointers_imported: history.pointers_imported,
        access: access_rows(history.access.iter().map(|(device, (flags, _))| (*device, *flags))),
    }
}

/// Returns true if a pool has a row: it could be shared, or is a default pool to which other devices got access.
fn has_row(pool: &OwnPool) -> bool {
    pool.origin != ObjectOrigin::Found || !pool.history.access.is_empty() || !pool.history.exports.is_empty()
}
