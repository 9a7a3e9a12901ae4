//! Tracks the memory pools of one process from its own calls: its own pools, its imported pools, and pointers into
//! these. Pools of other processes are not tracked.

use crate::call::Call;
use crate::places::Places;
use cupeer_spec::effect::{Effect, End, Made, Named, Object, Question, Shared, Subject};

/// Where a pool comes from.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The process has made it.
    #[default]
    Made,
    /// Another one has.
    Imported,
    /// It is the one that a device always has.
    Default,
}

/// A pool of the process, or one that it has imported.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its handle in the process; 0 where there is none.
    pub handle: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// The handle types that it was made with, where that is known.
    pub types: Option<i32>,
    /// The device that it is on, as the process numbers it; `None` where that is not known, or it is on none.
    pub device: Option<i32>,
    /// How often it was imported, and not destroyed since; 0 of others.
    pub imports: u32,
    /// Whether the process has exported it.
    pub is_exported: bool,
    /// Whether it is destroyed, and only remembered.
    pub is_destroyed: bool,
}

/// Memory of an imported pool that was imported.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Imported {
    /// Its address; 0 where there is none.
    pub address: u64,
    /// The pool.
    pub pool: u64,
}

/// What a process has.
#[derive(Default)]
pub struct Pools<P, M> {
    pools: P,
    pointers: M,
    has_lost: bool,
}

impl<P: Places<Pool>, M: Places<Imported>> Pools<P, M> {
    /// Nothing yet, with these places for more.
    pub const fn new(pools: P, pointers: M) -> Self {
        Pools { pools, pointers, has_lost: false }
    }

    /// The pool of a handle; also one that is destroyed, as long as nothing else was seen to have its handle.
    pub fn pool(&self, handle: u64) -> Option<Pool> {
        self.pools.as_ref().iter().find(|known| known.handle == handle && handle != 0).copied()
    }

    /// How many pointers of an imported pool are imported now.
    pub fn open(&self, pool: u64) -> u64 {
        self.pointers.as_ref().iter().filter(|known| known.address != 0 && known.pool == pool).count() as u64
    }

    /// Whether it is known that something is missing.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Notes that something has happened of which is not known what.
    pub fn lose(&mut self) {
        self.has_lost = true;
    }

    /// Notes a call that has returned.
    pub fn note(&mut self, call: &Call) {
        let spec = call.function.spec();
        for effect in spec.effects().iter().filter(|_| call.result == 0) {
            match *effect {
                Effect::Makes(Made { object: Object::Pool, by, .. }) => {
                    let wanted = call.wanted();
                    let (types, device) = (wanted.map(|it| it.types), wanted.and_then(|it| it.device));
                    self.made(Pool { handle: call.at(by), types, device, ..Pool::default() });
                }
                Effect::Asks(Question { subject: Subject::Pool, device, answer, .. })
                    if spec.args()[answer].is_pool() =>
                {
                    let device = Some(call.at(device) as i32);
                    self.made(Pool {
                        handle: call.at(answer),
                        origin: Origin::Default,
                        device,
                        ..Pool::default()
                    });
                }
                Effect::Opens(Shared { object: Object::Pool, by, .. }) => {
                    let handle = call.at(by);
                    // Each import is destroyed by itself.
                    let imports = self.known(handle).map_or(0, |pool| pool.imports) + 1;
                    self.made(Pool { handle, origin: Origin::Imported, imports, ..Pool::default() });
                }
                Effect::Exports(Shared { object: Object::Pool, by, .. }) => {
                    self.known(call.at(by)).into_iter().for_each(|pool| pool.is_exported = true);
                }
                Effect::Ends(End { object: Object::Pool, by, .. }) => {
                    self.known(call.at(by)).into_iter().for_each(|pool| {
                        pool.imports = pool.imports.saturating_sub(1);
                        pool.is_destroyed = pool.imports == 0;
                    });
                }
                Effect::Opens(Shared { object: Object::Pointer, by, of, .. }) => {
                    let pool = of.map_or(0, |pool| call.at(pool));
                    self.imported(Imported { address: call.at(by), pool });
                }
                Effect::Closes(Named { object: Object::Pointer, by }) => self.freed(call.at(by)),
                _ => {}
            }
        }
    }

    fn known(&mut self, handle: u64) -> Option<&mut Pool> {
        self.pools.as_mut().iter_mut().find(|known| known.handle == handle && handle != 0)
    }

    /// Notes a pool that the process has now.
    pub fn made(&mut self, pool: Pool) {
        let is_same = |known: &Pool| known.handle == pool.handle;
        self.has_lost |=
            !self.pools.put(pool, is_same, |known| known.handle == 0, |known| known.is_destroyed);
    }

    fn imported(&mut self, pointer: Imported) {
        let is_same = |known: &Imported| known.address == pointer.address;
        self.has_lost |= !self.pointers.put(pointer, is_same, |known| known.address == 0, |_| false);
    }

    /// However often it was imported.
    fn freed(&mut self, address: u64) {
        let known = self.pointers.as_mut().iter_mut().filter(|known| known.address == address);
        known.for_each(|known| *known = Imported::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::returned;
    use cupeer_spec::function::FnId;

    #[test]
    fn a_pool_is_known_by_where_it_comes_from() {
        let mut pools = Pools::new([Pool::default(); 3], [Imported::default(); 1]);
        // The type, the handle types.
        returned(FnId::cuMemPoolCreate, &[("pool", 1), ("poolProps", 1 | 1 << 32)], |call| pools.note(call));
        returned(FnId::cuDeviceGetDefaultMemPool, &[("pool_out", 2), ("dev", 1)], |call| pools.note(call));
        returned(FnId::cuMemPoolImportFromShareableHandle, &[("pool_out", 3)], |call| pools.note(call));
        let origins = [1, 2, 3].map(|handle| pools.pool(handle).map(|pool| pool.origin));
        assert_eq!(origins, [Origin::Made, Origin::Default, Origin::Imported].map(Some));
        let known = pools.pool(1).expect("it is known");
        assert_eq!((known.types, known.is_exported), (Some(1), false));
        assert_eq!(pools.pool(2).and_then(|pool| pool.device), Some(1));
        returned(FnId::cuMemPoolExportToShareableHandle, &[("pool", 1)], |call| pools.note(call));
        assert!(pools.pool(1).is_some_and(|pool| pool.is_exported && !pool.is_destroyed));
        // How access is asked for makes none.
        returned(FnId::cuMemPoolGetAccess, &[("memPool", 9), ("flags", 3)], |call| pools.note(call));
        assert!(pools.pool(3).is_some() && pools.pool(9).is_none() && !pools.has_lost());
        returned(FnId::cuMemPoolDestroy, &[("pool", 3)], |call| pools.note(call));
        assert!(pools.pool(3).is_some_and(|pool| pool.is_destroyed));
        returned(FnId::cuMemPoolCreate, &[("pool", 4)], |call| pools.note(call));
        assert!(pools.pool(4).is_some() && pools.pool(3).is_none() && !pools.has_lost());
        returned(FnId::cuMemPoolCreate, &[("pool", 5)], |call| pools.note(call));
        assert!(pools.has_lost() && pools.pool(0).is_none());
    }

    #[test]
    fn each_import_of_a_pool_is_destroyed_by_itself() {
        let mut pools = Pools::new(Vec::new(), Vec::new());
        for _ in 0..2 {
            returned(FnId::cuMemPoolImportFromShareableHandle, &[("pool_out", 3)], |call| pools.note(call));
        }
        for is_destroyed in [false, true] {
            returned(FnId::cuMemPoolDestroy, &[("pool", 3)], |call| pools.note(call));
            assert_eq!(pools.pool(3).map(|pool| pool.is_destroyed), Some(is_destroyed));
        }
    }

    #[test]
    fn a_pointer_is_imported_until_it_is_freed_however_often() {
        let mut pools = Pools::new(Vec::new(), Vec::new());
        for address in [0x10, 0x20, 0x10] {
            returned(FnId::cuMemPoolImportPointer, &[("ptr_out", address), ("pool", 7)], |call| {
                pools.note(call)
            });
        }
        assert_eq!((pools.open(7), pools.open(8)), (2, 0));
        returned(FnId::cuMemFreeAsync, &[("dptr", 0x10)], |call| pools.note(call));
        returned(FnId::cuMemFree_v2, &[("dptr", 0x999)], |call| pools.note(call));
        assert_eq!(pools.open(7), 1);
        returned(FnId::cuMemFree_v2, &[("dptr", 0x20)], |call| pools.note(call));
        assert_eq!((pools.open(7), pools.has_lost()), (0, false));
    }
}
