//! Memory pools: the default one of each device, those that a program makes, and those of other processes that it
//! imports.
//!
//! Of another process's pool nothing can be allocated: it is there for the pointers that the other exports. Access is
//! granted to a pool as a whole, and by each process for itself.

mod access;
mod attributes;
mod life;
mod pointers;
mod sharing;
mod table;

use super::answer::{Answer, fail};
use super::vmm::Block;
use cupeer_spec::results::Result as Code;
use table::Table;

/// Where the handles of default pools start: addresses in the first page, which nothing else can have.
const DEFAULT: u64 = 0x100;

/// Whose pool it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Origin {
    #[default]
    Default,
    Created,
    Imported,
}

/// A pool.
#[derive(Default, Debug)]
struct Pool {
    handle: u64,
    /// What is allocated of it may still be there.
    is_destroyed: bool,
    origin: Origin,
    /// How often it must be destroyed.
    references: usize,
    device: usize,
    /// It is of a device that the process does not see: `device` is another one.
    is_hidden: bool,
    /// As what it may leave the process: bits of `CUmemAllocationHandleType`.
    types: i32,
    /// The most bytes that it gives out.
    most: u64,
    reuse: [u32; 3],
    release_threshold: u64,
    used: u64,
    high: u64,
    /// The ordinals of other devices that may reach it.
    shared: Vec<usize>,
    /// What is exported of it: from its first export on, and of an import.
    table: Option<Table>,
}

impl Pool {
    fn new(handle: u64, origin: Origin, device: usize) -> Pool {
        Pool { handle, origin, references: 1, device, most: u64::MAX, reuse: [1; 3], ..Pool::default() }
    }

    /// Whether it is a device's own.
    fn is_of(&self, device: usize) -> bool {
        self.device == device && !self.is_hidden
    }

    /// Whether nothing of it is left.
    fn is_gone(&self) -> bool {
        self.is_destroyed && self.used == 0
    }
}

/// All pools of a process: the default ones first, in the order of their devices.
#[derive(Debug)]
pub(crate) struct Pools {
    pools: Vec<Pool>,
    /// The pool that each device allocates from.
    current: Vec<usize>,
}

impl Pools {
    pub(crate) fn new(devices: usize) -> Pools {
        let default = |device| Pool::new(DEFAULT + 16 * device as u64, Origin::Default, device);
        Pools { pools: (0..devices).map(default).collect(), current: (0..devices).collect() }
    }

    /// The pool behind a handle.
    pub(crate) fn find(&self, handle: u64) -> Answer<usize> {
        let pool = self.find_any(handle).filter(|pool| !self.pools[*pool].is_destroyed);
        pool.ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// The same, though it be destroyed: as long as no other pool has its place.
    fn find_any(&self, handle: u64) -> Option<usize> {
        self.pools.iter().position(|pool| pool.handle == handle)
    }

    /// The handle of a pool: 0 once it is destroyed.
    pub(crate) fn handle(&self, pool: usize) -> u64 {
        if self.pools[pool].is_destroyed { 0 } else { self.pools[pool].handle }
    }

    /// The handle of the pool that a device allocates from.
    pub(crate) fn current_handle(&self, device: usize) -> u64 {
        self.handle(self.current(device))
    }

    /// The device whose memory it is.
    pub(crate) fn device(&self, pool: usize) -> usize {
        self.pools[pool].device
    }

    /// The types of handles that it was created for.
    pub(crate) fn types(&self, pool: usize) -> i32 {
        self.pools[pool].types
    }

    /// The pool that a device allocates from.
    pub(crate) fn current(&self, device: usize) -> usize {
        self.current[device]
    }

    /// `cuDeviceSetMemPool`: not with an import, of which nothing can be allocated.
    pub(crate) fn set_current(&mut self, device: usize, pool: usize) -> Answer {
        let wanted = &self.pools[pool];
        if wanted.device != device || wanted.origin == Origin::Imported {
            return fail(Code::INVALID_VALUE);
        }
        self.current[device] = pool;
        Ok(())
    }

    /// Adds a pool, in the place of one of which nothing is left.
    fn add(&mut self, pool: Pool) {
        match self.pools.iter_mut().find(|known| known.is_gone()) {
            Some(place) => *place = pool,
            None => self.pools.push(pool),
        }
    }

    /// How often pools must still be destroyed.
    pub(crate) fn count(&self) -> usize {
        let alive = self.pools.iter().filter(|pool| pool.origin != Origin::Default && !pool.is_destroyed);
        alive.map(|pool| pool.references).sum()
    }

    /// Where the tables of pools are.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Block> {
        self.pools.iter().filter_map(|pool| Some(&pool.table.as_ref()?.block))
    }

    /// Whether pointers of this process's own pools are imported.
    pub(crate) fn has_own_imports(&self) -> bool {
        let is_own = |pool: &Pool| pool.table.as_ref().is_some_and(|table| table.block.is_own());
        self.pools.iter().any(|pool| pool.origin == Origin::Imported && pool.used > 0 && is_own(pool))
    }

    /// Takes an entry out of the table of a pool.
    pub(crate) fn withdraw(&mut self, pool: usize, slot: u16) {
        if let Some(table) = &mut self.pools[pool].table {
            table.take(slot);
        }
    }

    /// Refuses what a pool does not give out.
    pub(crate) fn check_room(&self, pool: usize, size: u64) -> Answer {
        let pool = &self.pools[pool];
        if pool.origin == Origin::Imported {
            return fail(Code::INVALID_VALUE);
        }
        let fits = pool.used.checked_add(size).is_some_and(|used| used <= pool.most);
        if fits { Ok(()) } else { fail(Code::OUT_OF_MEMORY) }
    }

    /// Counts what is allocated, or imported.
    pub(crate) fn take(&mut self, pool: usize, size: u64) {
        let pool = &mut self.pools[pool];
        pool.used += size;
        pool.high = pool.high.max(pool.used);
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Driver;
    use super::super::vmm::{DEVICE, PINNED};
    use super::*;
    use cupeer_spec::abi::{CUmemLocation, CUmemLocationType};

    const FIRST: CUmemLocation = CUmemLocation { kind: CUmemLocationType(DEVICE), id: 0 };

    /// A pool of the first device that may leave the process as a descriptor.
    pub(super) fn shareable(driver: &mut Driver) -> u64 {
        driver.create_pool(PINNED, 1, FIRST, 0).unwrap()
    }

    /// So many bytes of it.
    pub(super) fn allocation(driver: &mut Driver, pool: u64, size: u64) -> u64 {
        let pool = driver.memory.pools.find(pool).unwrap();
        driver.allocate_from_pool(pool, size).unwrap()
    }

    #[test]
    fn a_pool_gives_out_what_it_may_and_its_place_is_used_again() {
        let mut driver = Driver::in_context();
        let small = driver.create_pool(PINNED, 0, FIRST, 4096).unwrap();
        let at = driver.memory.pools.find(small).unwrap();
        let a = allocation(&mut driver, small, 4000);
        assert_eq!(driver.allocate_from_pool(at, 512), fail(Code::OUT_OF_MEMORY));
        driver.destroy_pool(small).unwrap();
        assert!(driver.destroy_pool(small).unwrap_err().messages[0].contains("already marked"));
        let other = shareable(&mut driver);
        assert_ne!(driver.memory.pools.find(other), Ok(at), "it is in use");
        driver.free(a).unwrap();
        let third = shareable(&mut driver);
        assert_eq!(driver.memory.pools.find(third), Ok(at));
    }
}
