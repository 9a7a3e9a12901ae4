//! The table of memory pools: the pools of each process, their owners, and the devices that may access them.
//!
//! It contains the pools of one process, as its calls show. [`cupeer_books::Pools`] decides the effect of a
//! call on a pool, [`super::ledger`] tracks the handles and pointers, and [`rows`] builds the rows.

mod rows;

pub use rows::order;

use crate::follow::ledger::Realm;
use crate::follow::ledger::own::OwnPools;
use cupeer_books::{Origin, wanted::access};
use cupeer_record::Call;
use cupeer_report::model::Uuid;
use cupeer_report::values;
use cupeer_spec::effect::{Effect, End, Grant, Made, Named, Object, Question, Shared, Subject};
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap};

/// The most fingerprints of one pool.
const MOST_EXPORTS: usize = 8;
/// The most pools of one process.
const MOST: usize = 1 << 12;

/// What all processes have, in the order of the job.
#[derive(Default)]
pub struct AllPools {
    processes: Vec<Held>,
}

/// What one process has, and had.
#[derive(Default)]
pub struct Held {
    realm: Realm,
    pools: Vec<Pool>,
    /// Which of them has a handle now.
    by_handle: HashMap<u64, usize>,
    /// The imported pointers, by their addresses.
    pointers: HashMap<u64, usize>,
}

#[derive(Default)]
struct Pool {
    handle: u64,
    origin: Origin,
    types: i32,
    /// Where it lies, where the process knows: on a device, or on the host.
    device: Option<Uuid>,
    is_on_host: bool,
    since: u64,
    destroyed: Option<u64>,
    exports: Vec<u64>,
    imported_as: u64,
    pointers: u64,
    pointers_imported: u64,
    /// What devices may do, and since when.
    access: BTreeMap<Uuid, (i32, u64)>,
}

impl AllPools {
    /// Adds what the next process has, all of whose calls were read.
    pub fn add(&mut self, held: Held) {
        self.processes.push(held);
    }
}

impl Held {
    pub fn new(realm: Realm) -> Self {
        Held { realm, ..Held::default() }
    }

    /// Notes a call, which `own` knows already. `uuid` has the devices of the process by their ordinals.
    pub fn call(
        &mut self,
        function: FnId,
        call: &Call,
        at: u64,
        own: &OwnPools,
        uuid: impl Fn(Option<i32>) -> Option<Uuid>,
    ) {
        if !call.succeeded() || call.injected {
            return;
        }
        let number = |argument| call.number(argument);
        for effect in function.spec().effects() {
            match *effect {
                Effect::Makes(Made { object: Object::Pool, by, .. })
                | Effect::Asks(Question { subject: Subject::Pool, answer: by, .. })
                    // Of the answers about pools, only some are a pool.
                    if function.spec().args()[by].is_pool() =>
                {
                    let pool = number(by).and_then(|handle| own.pool(handle));
                    if let Some(pool) = pool {
                        let is_on_host = pool.device.is_none() && pool.types.is_some();
                        let (device, types) = (uuid(pool.device), pool.types.unwrap_or(0));
                        self.has(pool.handle, pool.origin, at, |new| {
                            (new.device, new.is_on_host, new.types) = (device, is_on_host, types);
                        });
                    }
                }
                Effect::Opens(Shared { object: Object::Pool, by, handle, .. }) => {
                    let fingerprint = values::handle(call, handle).map_or(0, |(fingerprint, _)| fingerprint);
                    if let Some(pool) = number(by) {
                        self.has(pool, Origin::Imported, at, |new| new.imported_as = fingerprint);
                    }
                }
                Effect::Exports(Shared { object: Object::Pool, by, handle, .. }) => {
                    let fingerprint = values::handle(call, handle).map(|(fingerprint, _)| fingerprint);
                    let pool = number(by).and_then(|pool| self.known(pool));
                    if let (Some(pool), Some(fingerprint)) = (pool, fingerprint.filter(|it| *it != 0)) {
                        pool.exports.truncate(MOST_EXPORTS - 1);
                        pool.exports.insert(0, fingerprint);
                    }
                }
                Effect::Opens(Shared { object: Object::Pointer, by, of, .. }) => {
                    self.imports(of.and_then(number), number(by))
                }
                Effect::Closes(Named { object: Object::Pointer, by }) => {
                    let pool = number(by).and_then(|address| self.pointers.remove(&address));
                    pool.into_iter().for_each(|pool| self.pools[pool].pointers -= 1);
                }
                Effect::Grants(Grant { object: Object::Pool, by, to, .. }) => {
                    let elements = call.details.elements.iter().find(|(index, _)| usize::from(*index) == to);
                    let Some(pool) = number(by).and_then(|pool| self.known(pool)) else { continue };
                    let access = elements.into_iter().flat_map(|(_, bytes)| access(bytes));
                    let known = |(device, flags)| Some((uuid(device)?, (flags, at)));
                    pool.access.extend(access.filter_map(known));
                }
                Effect::Ends(End { object: Object::Pool, by, .. }) => {
                    // A pool that was imported again is there until its last import is destroyed.
                    let ends = |handle: &u64| own.pool(*handle).is_none_or(|pool| pool.is_destroyed);
                    let pool = number(by).filter(ends).and_then(|pool| self.by_handle.remove(&pool));
                    pool.into_iter().for_each(|pool| self.pools[pool].destroyed = Some(at));
                }
                _ => {}
            }
        }
    }

    fn known(&mut self, handle: u64) -> Option<&mut Pool> {
        self.by_handle.get(&handle).map(|pool| &mut self.pools[*pool])
    }

    /// The process has a pool, which it may have had before: a default one is asked for again, and a descriptor that is
    /// imported again gives the same pool.
    fn has(&mut self, handle: u64, origin: Origin, since: u64, fill: impl FnOnce(&mut Pool)) {
        let is_again = |pool: &&mut Pool| pool.origin == origin && origin != Origin::Made;
        if let Some(known) = self.known(handle).filter(is_again) {
            return fill(known);
        }
        if self.pools.len() >= MOST {
            return;
        }
        let mut pool = Pool { handle, origin, since, ..Pool::default() };
        fill(&mut pool);
        self.by_handle.insert(handle, self.pools.len());
        self.pools.push(pool);
    }

    /// A pointer is the same however often it is imported, and gone when it is freed once.
    fn imports(&mut self, pool: Option<u64>, address: Option<u64>) {
        let pool = pool.and_then(|pool| self.by_handle.get(&pool).copied());
        let (Some(pool), Some(address)) = (pool, address) else { return };
        self.pools[pool].pointers_imported += 1;
        // If the record lacks the call that freed it, the address can belong to another pool by now.
        let before = self.pointers.insert(address, pool);
        before.into_iter().for_each(|before| self.pools[before].pointers -= 1);
        self.pools[pool].pointers += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_record::writer;
    use cupeer_report::judged::judged;

    #[test]
    fn each_import_of_a_pool_is_destroyed_by_itself() {
        let (mut held, mut own) = (Held::default(), OwnPools::default());
        let mut call = |function: FnId, argument, at| {
            let mut call = writer::call(function, at, at + 1);
            writer::set(&mut call, argument, &7_u64.to_le_bytes());
            own.note(&judged(function, 0, &call.arguments(), &call));
            held.call(function, &call, at, &own, |_| None);
            held.pools.iter().map(|pool| pool.destroyed).collect::<Vec<_>>()
        };
        let import = FnId::cuMemPoolImportFromShareableHandle;
        assert_eq!(call(import, "pool_out", 1), [None]);
        assert_eq!(call(import, "pool_out", 2), [None]);
        assert_eq!(call(FnId::cuMemPoolDestroy, "pool", 3), [None]);
        assert_eq!(call(FnId::cuMemPoolDestroy, "pool", 4), [Some(4)]);
    }
}
