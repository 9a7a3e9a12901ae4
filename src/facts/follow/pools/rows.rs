//! The rows about memory pools: all pools that processes shared or let other devices access.

use super::{AllPools, Pool};
use crate::follow::ledger::Realm;
use crate::follow::ledger::settle::Fate;
use crate::follow::peers::Peers;
use crate::follow::peers::Reach;
use crate::follow::virtual_memory::{access, handle_types};
use cupeer_books::Origin;
use cupeer_report::model::{self, Fingerprint, Where};
use std::collections::HashMap;

/// The most rows.
const MOST: usize = 200;

/// Puts rows in the order of time. Not all of very many are shown.
pub fn order(rows: &mut Vec<model::Pool>) {
    rows.sort_by_key(|row| row.since_ns);
    rows.truncate(MOST);
}

impl AllPools {
    /// Adds the access that devices have to the pools of others to the matrix: each pool counts as one mapping.
    pub fn add_reach(&self, peers: &mut Peers) {
        let mut homes = HashMap::new();
        for held in &self.processes {
            for pool in held.pools.iter() {
                homes.extend(pool.exports.iter().map(|export| ((held.realm, *export), pool.device)));
            }
        }
        for (process, held) in self.processes.iter().enumerate() {
            for pool in &held.pools {
                let to = homes.get(&(held.realm, pool.imported_as)).copied().flatten().or(pool.device);
                for (from, (flags, at)) in pool.access.iter().filter(|(from, _)| Some(**from) != to) {
                    let is_on = *flags != 0 && pool.destroyed.is_none();
                    let off = if *flags == 0 { Some(*at) } else { pool.destroyed };
                    let reach = Reach { granted: 1, on: u64::from(is_on), last: *at, off };
                    peers.grant(process, Some(*from), to, &reach);
                }
            }
        }
    }

    /// The rows.
    pub fn rows(&self, fates: &[Fate]) -> Vec<model::Pool> {
        let (mut exported, mut importers) = (HashMap::new(), HashMap::new());
        for (process, held) in self.processes.iter().enumerate() {
            for (number, pool) in held.pools.iter().enumerate() {
                let place = (process, number);
                exported.extend(pool.exports.iter().map(|export| ((held.realm, *export), place)));
                if pool.imported_as != 0 {
                    let all: &mut Vec<usize> = importers.entry((held.realm, pool.imported_as)).or_default();
                    all.push(process);
                }
            }
        }
        let mut rows = Vec::new();
        for (process, held) in self.processes.iter().enumerate() {
            for pool in held.pools.iter().filter(|pool| pool.is_told()) {
                let owner = exported.get(&(held.realm, pool.imported_as)).copied();
                rows.push(self.row(process, pool, owner, fates, |row| {
                    row.importers = imported_by(held.realm, pool, &importers, fates);
                }));
            }
        }
        order(&mut rows);
        rows
    }

    fn row(
        &self,
        process: usize,
        pool: &Pool,
        owner: Option<(usize, usize)>,
        fates: &[Fate],
        fill: impl FnOnce(&mut model::Pool),
    ) -> model::Pool {
        // What is imported lies where its owner has it.
        let made = owner.map_or(pool, |(owner, number)| &self.processes[owner].pools[number]);
        let location = match made.device {
            Some(_) => Where::Device,
            None if made.is_on_host => Where::Host,
            None => Where::Unknown,
        };
        let access = access(pool.access.iter().map(|(device, (flags, _))| (*device, *flags)));
        let owner = match pool.origin {
            Origin::Imported => owner.map(|(owner, _)| fates[owner].proc.clone()),
            Origin::Made | Origin::Default => Some(fates[process].proc.clone()),
        };
        let mut row = model::Pool {
            proc: fates[process].proc.clone(),
            handle: format!("{:#x}", pool.handle),
            location,
            device: made.device,
            origin: match pool.origin {
                Origin::Made => "made",
                Origin::Imported => "imported",
                Origin::Default => "default",
            },
            owner,
            handle_types: handle_types(pool.types),
            since_ns: pool.since,
            destroyed_ns: pool.destroyed,
            left: pool.origin != Origin::Default
                && pool.destroyed.is_none()
                && fates[process].alive == Some(false),
            exports: pool.exports.iter().rev().map(|export| Fingerprint(*export)).collect(),
            imported_as: (pool.imported_as != 0).then_some(Fingerprint(pool.imported_as)),
            importers: Vec::new(),
            pointers: pool.pointers,
            pointers_imported: pool.pointers_imported,
            access,
        };
        fill(&mut row);
        row
    }
}

impl Pool {
    /// Default pools are of interest only where others were given access, and others where they could be shared.
    fn is_told(&self) -> bool {
        self.origin != Origin::Default || !self.access.is_empty() || !self.exports.is_empty()
    }
}

/// The processes that imported a pool of one, each once, in the order of the job.
fn imported_by(
    realm: Realm,
    pool: &Pool,
    importers: &HashMap<(Realm, u64), Vec<usize>>,
    fates: &[Fate],
) -> Vec<model::Proc> {
    let all = pool.exports.iter().filter_map(|export| importers.get(&(realm, *export))).flatten();
    let mut all: Vec<usize> = all.copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|process| fates[process].proc.clone()).collect()
}
