//! The table of memory pools: all pools that processes shared or let other devices access.

use crate::follow::ledger::Realm;
use crate::follow::ledger::settle::Fate;
use crate::follow::memory::{Memory, PoolHistory};
use crate::follow::peers::Peers;
use crate::follow::peers::Reach;
use crate::follow::virtual_memory::{access, handle_types};
use cupeer_model::{Known, Origin, Pool, Table};
use cupeer_report::model::{self, Fingerprint, Where};
use std::collections::{BTreeSet, HashMap};

/// A pool, with its history.
pub type OwnPool = Known<Pool, PoolHistory>;

/// The most rows.
const MOST: usize = 200;

/// Puts rows in the order of time. Not all of very many are shown.
pub fn order(rows: &mut Vec<model::Pool>) {
    rows.sort_by_key(|row| row.since_ns);
    rows.truncate(MOST);
}

/// Adds the access that devices have to the pools of others to the matrix: each pool counts as one mapping.
pub fn add_reach(processes: &[Memory], peers: &mut Peers) {
    let mut homes = HashMap::new();
    for (realm, pool) in processes.iter().flat_map(pools_of) {
        homes.extend(pool.history.exports.iter().map(|export| ((realm, *export), pool.history.device)));
    }
    for (process, memory) in processes.iter().enumerate() {
        for (realm, pool) in pools_of(memory) {
            let PoolHistory { device, destroyed, imported_as, access, .. } = &pool.history;
            let to = homes.get(&(realm, *imported_as)).copied().flatten().or(*device);
            for (from, (flags, at)) in access.iter().filter(|(from, _)| Some(**from) != to) {
                let is_on = *flags != 0 && destroyed.is_none();
                let off = if *flags == 0 { Some(*at) } else { *destroyed };
                let reach = Reach { granted: 1, on: u64::from(is_on), last: *at, off };
                peers.grant(process, Some(*from), to, &reach);
            }
        }
    }
}

fn pools_of(memory: &Memory) -> impl Iterator<Item = (Realm, &OwnPool)> {
    memory.state.pools.each().map(|pool| (memory.realm, pool))
}

/// The rows.
pub fn rows(processes: &[Memory], fates: &[Fate]) -> Vec<model::Pool> {
    let mut exported = HashMap::new();
    let mut importers: Importers = HashMap::new();
    for (process, memory) in processes.iter().enumerate() {
        for (realm, pool) in pools_of(memory) {
            let exports = pool.history.exports.iter();
            exported.extend(exports.map(|export| ((realm, *export), (process, pool))));
            if pool.history.imported_as != 0 {
                importers.entry((realm, pool.history.imported_as)).or_default().push(process);
            }
        }
    }
    let mut rows = Vec::new();
    for (process, memory) in processes.iter().enumerate() {
        for (realm, pool) in pools_of(memory).filter(|(_, pool)| is_told(pool)) {
            let owner = exported.get(&(realm, pool.history.imported_as)).copied();
            let pointers = memory.state.pointers.each().filter(|pointer| pointer.pool == pool.id);
            rows.push(model::Pool {
                owner: match pool.origin {
                    Origin::Imported => owner.map(|(owner, _)| fates[owner].proc.clone()),
                    Origin::Made | Origin::Found => Some(fates[process].proc.clone()),
                },
                importers: imported_by(realm, pool, &importers, fates),
                pointers: pointers.count() as u64,
                // What is imported lies where its owner has it.
                ..row(&fates[process], pool, owner.map_or(pool, |(_, made)| made))
            });
        }
    }
    order(&mut rows);
    rows
}

/// The row of a pool that lies where another one does, without what other processes have of it.
fn row(fate: &Fate, pool: &OwnPool, made: &OwnPool) -> model::Pool {
    let (history, device) = (&pool.history, made.history.device);
    model::Pool {
        proc: fate.proc.clone(),
        handle: format!("{:#x}", history.handle),
        location: match device {
            Some(_) => Where::Device,
            None if made.history.is_on_host => Where::Host,
            None => Where::Unknown,
        },
        device,
        origin: match pool.origin {
            Origin::Made => "made",
            Origin::Imported => "imported",
            Origin::Found => "default",
        },
        owner: None,
        handle_types: handle_types(pool.types.unwrap_or(0)),
        since_ns: history.since,
        destroyed_ns: history.destroyed,
        left: pool.origin != Origin::Found && history.destroyed.is_none() && fate.alive == Some(false),
        exports: history.exports.iter().rev().map(|export| Fingerprint(*export)).collect(),
        imported_as: (history.imported_as != 0).then_some(Fingerprint(history.imported_as)),
        importers: Vec::new(),
        pointers: 0,
        pointers_imported: history.pointers_imported,
        access: access(history.access.iter().map(|(device, (flags, _))| (*device, *flags))),
    }
}

/// True for pools that could be shared. Default pools matter only if others were given access.
fn is_told(pool: &OwnPool) -> bool {
    pool.origin != Origin::Found || !pool.history.access.is_empty() || !pool.history.exports.is_empty()
}

/// The processes that imported a pool, by the fingerprint of its handle.
type Importers = HashMap<(Realm, u64), Vec<usize>>;

/// The processes that imported a pool of one, each once, in the order of the job.
fn imported_by(realm: Realm, pool: &OwnPool, importers: &Importers, fates: &[Fate]) -> Vec<model::Proc> {
    let all = pool.history.exports.iter().filter_map(|export| importers.get(&(realm, *export))).flatten();
    let all: BTreeSet<usize> = all.copied().collect();
    all.into_iter().map(|process| fates[process].proc.clone()).collect()
}
