//! Memory pools: the default one of each device, and those that a program makes, which no other process can open.

use super::answer::{Answer, fail};
use super::pointers::Value;
use super::process::Driver;
use cupeer_spec::results::Result as Code;

/// CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES to CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.
const REUSE: std::ops::RangeInclusive<i32> = 1..=3;
const RELEASE_THRESHOLD: i32 = 4;
/// The current and highest sizes of what is reserved and what is used.
const RESERVED: i32 = 5;
const RESERVED_HIGH: i32 = 6;
const USED: i32 = 7;
const USED_HIGH: i32 = 8;
/// Where the handles of default pools start: addresses in the first page, which nothing else can have.
const DEFAULT: u64 = 0x100;

/// A pool.
#[derive(Clone, Default, Debug)]
struct Pool {
    /// 0 once it is destroyed.
    handle: u64,
    device: usize,
    /// The most bytes that it gives out.
    most: u64,
    reuse: [u32; 3],
    release_threshold: u64,
    used: u64,
    high: u64,
    /// The ordinals of other devices that may reach it.
    shared: Vec<usize>,
}

impl Pool {
    fn new(handle: u64, device: usize, most: u64) -> Pool {
        Pool { handle, device, most, reuse: [1; 3], ..Pool::default() }
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
        let default = |device| Pool::new(DEFAULT + 16 * device as u64, device, u64::MAX);
        Pools { pools: (0..devices).map(default).collect(), current: (0..devices).collect() }
    }

    /// The pool behind a handle.
    pub(crate) fn find(&self, handle: u64) -> Answer<usize> {
        let pool = self.pools.iter().position(|pool| pool.handle == handle && handle != 0);
        pool.ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// The handle of a pool.
    pub(crate) fn handle(&self, pool: usize) -> u64 {
        self.pools[pool].handle
    }

    /// The handle of the pool that a device allocates from.
    pub(crate) fn current_handle(&self, device: usize) -> u64 {
        self.handle(self.current(device))
    }

    /// The device whose memory it is.
    pub(crate) fn device(&self, pool: usize) -> usize {
        self.pools[pool].device
    }

    /// The pool that a device allocates from.
    pub(crate) fn current(&self, device: usize) -> usize {
        self.current[device]
    }

    /// `cuDeviceSetMemPool`.
    pub(crate) fn set_current(&mut self, device: usize, pool: usize) -> Answer {
        if self.pools[pool].device != device {
            return fail(Code::INVALID_VALUE);
        }
        self.current[device] = pool;
        Ok(())
    }

    /// Adds a pool.
    pub(crate) fn add(&mut self, handle: u64, device: usize, most: u64) {
        self.pools.push(Pool::new(handle, device, most));
    }

    /// `cuMemPoolDestroy`: what is allocated of it stays until it is freed.
    pub(crate) fn destroy(&mut self, pool: usize) -> Answer {
        let device = self.pools[pool].device;
        if pool == device {
            return fail(Code::INVALID_VALUE);
        }
        self.pools[pool].handle = 0;
        if self.current[device] == pool {
            self.current[device] = device;
        }
        Ok(())
    }

    /// Refuses what a pool does not give out.
    pub(crate) fn check_room(&self, pool: usize, size: u64) -> Answer {
        let pool = &self.pools[pool];
        let fits = pool.used.checked_add(size).is_some_and(|used| used <= pool.most);
        if fits { Ok(()) } else { fail(Code::OUT_OF_MEMORY) }
    }

    /// Counts what is allocated.
    pub(crate) fn take(&mut self, pool: usize, size: u64) {
        let pool = &mut self.pools[pool];
        pool.used += size;
        pool.high = pool.high.max(pool.used);
    }

    /// Counts what is freed.
    pub(crate) fn give(&mut self, pool: usize, size: u64) {
        self.pools[pool].used -= size;
    }

    /// `cuMemPoolGetAttribute`.
    pub(crate) fn attribute(&self, pool: usize, attribute: i32) -> Answer<Value> {
        let pool = &self.pools[pool];
        Ok(match attribute {
            _ if REUSE.contains(&attribute) => Value::Word(pool.reuse[attribute as usize - 1]),
            RELEASE_THRESHOLD => Value::Wide(pool.release_threshold),
            RESERVED | USED => Value::Wide(pool.used),
            RESERVED_HIGH | USED_HIGH => Value::Wide(pool.high),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// `cuMemPoolSetAttribute`: the high marks can only be set to zero.
    pub(crate) fn set_attribute(
        &mut self,
        pool: usize,
        attribute: i32,
        word: impl Fn() -> u32,
        wide: impl Fn() -> u64,
    ) -> Answer {
        let pool = &mut self.pools[pool];
        match attribute {
            _ if REUSE.contains(&attribute) => pool.reuse[attribute as usize - 1] = u32::from(word() != 0),
            RELEASE_THRESHOLD => pool.release_threshold = wide(),
            RESERVED_HIGH | USED_HIGH if wide() == 0 => pool.high = pool.used,
            _ => return fail(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// Whether a device reaches a pool.
    pub(crate) fn is_shared(&self, pool: usize, other: usize) -> bool {
        let pool = &self.pools[pool];
        pool.device == other || pool.shared.contains(&other)
    }
}

impl Driver {
    /// `cuMemPoolSetAccess` for one device: it cannot be taken from the pool's own.
    pub(crate) fn share_pool(&mut self, pool: usize, other: usize, shared: bool) -> Answer {
        let home = self.memory.pools.device(pool);
        if home == other {
            return if shared { Ok(()) } else { fail(Code::INVALID_DEVICE) };
        }
        if shared && !self.link(other, home).is_some_and(|link| link.can_access) {
            return fail(Code::INVALID_DEVICE);
        }
        let pool = &mut self.memory.pools.pools[pool];
        pool.shared.retain(|device| *device != other);
        if shared {
            pool.shared.push(other);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn what_is_used_is_counted() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_from_pool(0, 1000).unwrap();
        assert_eq!(driver.memory.pools.attribute(0, USED), Ok(Value::Wide(1024)));
        driver.free(a).unwrap();
        let pools = &mut driver.memory.pools;
        assert_eq!(pools.attribute(0, USED), Ok(Value::Wide(0)));
        assert_eq!(pools.attribute(0, USED_HIGH), Ok(Value::Wide(1024)));
        pools.set_attribute(0, USED_HIGH, || 0, || 0).unwrap();
        assert_eq!(pools.attribute(0, USED_HIGH), Ok(Value::Wide(0)));
        assert_eq!(pools.attribute(0, 99), fail(Code::INVALID_VALUE));
    }

    #[test]
    fn a_pool_is_shared_over_a_link() {
        let mut driver = Driver::new(Topology::parse("none:2").unwrap(), vec![0, 1]);
        assert_eq!(driver.share_pool(0, 1, true), fail(Code::INVALID_DEVICE));
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        assert!(!driver.memory.pools.is_shared(0, 1) && driver.memory.pools.is_shared(0, 0));
        driver.share_pool(0, 1, true).unwrap();
        assert!(driver.memory.pools.is_shared(0, 1));
        assert_eq!(driver.share_pool(0, 0, false), fail(Code::INVALID_DEVICE));
        assert_eq!(driver.memory.pools.set_current(0, 1), fail(Code::INVALID_VALUE), "another device's");
    }
}
