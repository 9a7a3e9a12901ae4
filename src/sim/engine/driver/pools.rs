//! Memory pools: the default pool of each device, pools that the program creates, and imported pools.

use super::super::answer::{Answer, fail, fail_if};
use super::stores::MemoryBlock;
use super::table::PointerTable;
use cupeer_spec::results::Result as Code;

/// Handle of the default pool of the first device: an address in the first page, which no other object has.
const DEFAULT: u64 = 0x100;

/// The way in which a pool came to this process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum PoolOrigin {
    #[default]
    Default,
    Created,
    Imported,
}

/// The state of a memory pool.
#[derive(Default, Debug)]
pub(crate) struct Pool {
    pub(in crate::engine) handle: u64,
    /// True if the pool was destroyed. Allocations from it may still exist.
    pub(in crate::engine) is_destroyed: bool,
    pub(in crate::engine) origin: PoolOrigin,
    /// Number of destroy calls after which the pool is destroyed.
    pub(in crate::engine) references: usize,
    pub(in crate::engine) device: usize,
    /// True if the pool is on a device that this process does not see. Then `device` has no meaning.
    pub(in crate::engine) is_hidden: bool,
    /// Handle types by which the pool can be exported: bits of `CUmemAllocationHandleType`.
    pub(in crate::engine) types: i32,
    /// The most bytes that can be allocated from the pool at a time.
    pub(in crate::engine) most: u64,
    pub(in crate::engine) reuse: [u32; 3],
    pub(in crate::engine) release_threshold: u64,
    pub(in crate::engine) used: u64,
    pub(in crate::engine) high: u64,
    /// Ordinals of the other devices that have access to the pool.
    pub(in crate::engine) shared: Vec<usize>,
    /// Table of exported pointers: of a pool of this process since its first export, or of an imported pool.
    pub(in crate::engine) table: Option<PointerTable>,
}

impl Pool {
    pub(crate) fn new(handle: u64, origin: PoolOrigin, device: usize) -> Pool {
        Pool { handle, origin, references: 1, device, most: u64::MAX, reuse: [1; 3], ..Pool::default() }
    }

    /// Returns true if the pool is on this device. `device` is an ordinal.
    pub(crate) fn is_on(&self, device: usize) -> bool {
        self.device == device && !self.is_hidden
    }

    /// Returns true if the pool was destroyed and none of its allocations is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_destroyed && self.used == 0
    }
}

/// All pools of a process. The default pools come first, in the order of their devices.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(in crate::engine) pools: Vec<Pool>,
    /// The index of the pool from which each device allocates.
    pub(in crate::engine) current: Vec<usize>,
}

impl Pools {
    pub(crate) fn new(devices: usize) -> Pools {
        let default = |device| Pool::new(DEFAULT + 16 * device as u64, PoolOrigin::Default, device);
        Pools { pools: (0..devices).map(default).collect(), current: (0..devices).collect() }
    }

    /// Returns the index of the pool with a handle. Fails for a destroyed pool.
    pub(crate) fn find_pool(&self, handle: u64) -> Answer<usize> {
        let pool = self.find_even_destroyed(handle).filter(|pool| !self.pools[*pool].is_destroyed);
        pool.ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Returns the index of the pool with a handle, also of a destroyed pool, unless another pool has taken
    /// its index or its handle.
    pub(crate) fn find_even_destroyed(&self, handle: u64) -> Option<usize> {
        let position = |is_destroyed: bool| {
            self.pools.iter().position(|pool| pool.handle == handle && pool.is_destroyed == is_destroyed)
        };
        position(false).or_else(|| position(true))
    }

    /// Returns the handle of a pool, or 0 if it was destroyed.
    pub(crate) fn handle(&self, pool: usize) -> u64 {
        if self.pools[pool].is_destroyed { 0 } else { self.pools[pool].handle }
    }

    /// Returns the handle of the pool from which a device allocates.
    pub(crate) fn current_handle(&self, device: usize) -> u64 {
        self.handle(self.current_pool(device))
    }

    /// Returns the ordinal of the device that has the memory of a pool.
    pub(crate) fn device_of_pool(&self, pool: usize) -> usize {
        self.pools[pool].device
    }

    /// Returns the handle types by which a pool can be exported.
    pub(crate) fn export_types(&self, pool: usize) -> i32 {
        self.pools[pool].types
    }

    /// Returns the index of the pool from which a device allocates.
    pub(crate) fn current_pool(&self, device: usize) -> usize {
        self.current[device]
    }

    /// `cuDeviceSetMemPool`, which fails for an imported pool, because no memory can be allocated from it.
    pub(crate) fn set_current(&mut self, device: usize, pool: usize) -> Answer {
        let wanted = &self.pools[pool];
        fail_if(wanted.device != device || wanted.origin == PoolOrigin::Imported, Code::INVALID_VALUE)?;
        self.current[device] = pool;
        Ok(())
    }

    /// Adds a pool. It takes the index of a pool that is gone, if there is one.
    pub(crate) fn add_pool(&mut self, pool: Pool) {
        match self.pools.iter_mut().find(|known| known.is_gone()) {
            Some(place) => *place = pool,
            None => self.pools.push(pool),
        }
    }

    /// Returns the number of calls of `cuMemPoolDestroy` after which all pools are destroyed.
    pub(crate) fn count_destroys_left(&self) -> usize {
        let alive = self.pools.iter().filter(|pool| pool.origin != PoolOrigin::Default && !pool.is_destroyed);
        alive.map(|pool| pool.references).sum()
    }

    /// Returns the memory of the tables of exported pointers.
    pub(crate) fn table_blocks(&self) -> impl Iterator<Item = &MemoryBlock> {
        self.pools.iter().filter_map(|pool| Some(&pool.table.as_ref()?.block))
    }

    /// Returns true if this process imported pointers that it had itself exported.
    pub(crate) fn has_own_imports(&self) -> bool {
        let is_own = |pool: &Pool| pool.table.as_ref().is_some_and(|table| table.block.is_own());
        self.pools.iter().any(|pool| pool.origin == PoolOrigin::Imported && pool.used > 0 && is_own(pool))
    }

    /// Removes an entry from the table of exported pointers of a pool.
    pub(crate) fn withdraw_pointer(&mut self, pool: usize, slot: u16) {
        if let Some(table) = &mut self.pools[pool].table {
            table.withdraw(slot);
        }
    }

    /// Fails if a pool is imported, or has less than `size` bytes left.
    pub(crate) fn check_room(&self, pool: usize, size: u64) -> Answer {
        let pool = &self.pools[pool];
        fail_if(pool.origin == PoolOrigin::Imported, Code::INVALID_VALUE)?;
        let fits = pool.used.checked_add(size).is_some_and(|used| used <= pool.most);
        if fits { Ok(()) } else { fail(Code::OUT_OF_MEMORY) }
    }

    /// Adds the bytes of a new allocation or an imported pointer to the use of a pool.
    pub(crate) fn add_use(&mut self, pool: usize, size: u64) {
        let pool = &mut self.pools[pool];
        pool.used += size;
        pool.high = pool.high.max(pool.used);
    }
}
