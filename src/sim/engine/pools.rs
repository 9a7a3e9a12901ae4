//! The default memory pool of each device: its attributes, and who may reach it.

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

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    reuse: [u32; 3],
    release_threshold: u64,
    used: u64,
    high: u64,
    /// The ordinals of other devices that may reach it.
    shared: Vec<usize>,
}

impl Default for Pool {
    fn default() -> Self {
        Pool { reuse: [1; 3], release_threshold: 0, used: 0, high: 0, shared: Vec::new() }
    }
}

impl Pool {
    /// Counts what is allocated.
    pub(crate) fn take(&mut self, size: u64) {
        self.used += size;
        self.high = self.high.max(self.used);
    }

    /// Counts what is freed.
    pub(crate) fn give(&mut self, size: u64) {
        self.used -= size;
    }
}

impl Driver {
    /// `cuMemPoolGetAttribute`.
    pub(crate) fn pool_attribute(&self, device: usize, attribute: i32) -> Answer<Value> {
        let pool = &self.memory.pools[device];
        Ok(match attribute {
            _ if REUSE.contains(&attribute) => Value::Word(pool.reuse[attribute as usize - 1]),
            RELEASE_THRESHOLD => Value::Wide(pool.release_threshold),
            RESERVED | USED => Value::Wide(pool.used),
            RESERVED_HIGH | USED_HIGH => Value::Wide(pool.high),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// `cuMemPoolSetAttribute`: the high marks can be set to zero alone.
    pub(crate) fn set_pool_attribute(
        &mut self,
        device: usize,
        attribute: i32,
        word: impl Fn() -> u32,
        wide: impl Fn() -> u64,
    ) -> Answer {
        let pool = &mut self.memory.pools[device];
        match attribute {
            _ if REUSE.contains(&attribute) => pool.reuse[attribute as usize - 1] = u32::from(word() != 0),
            RELEASE_THRESHOLD => pool.release_threshold = wide(),
            RESERVED_HIGH | USED_HIGH if wide() == 0 => pool.high = pool.used,
            _ => return fail(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// Whether a device reaches the pool of another.
    pub(crate) fn pool_is_shared(&self, home: usize, other: usize) -> bool {
        home == other || self.memory.pools[home].shared.contains(&other)
    }

    /// `cuMemPoolSetAccess` for one device: it cannot be taken from the pool's own.
    pub(crate) fn share_pool(&mut self, home: usize, other: usize, shared: bool) -> Answer {
        if home == other {
            return if shared { Ok(()) } else { fail(Code::INVALID_DEVICE) };
        }
        if shared && !self.link(other, home).is_some_and(|link| link.can_access) {
            return fail(Code::INVALID_DEVICE);
        }
        let pool = &mut self.memory.pools[home];
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
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        driver.create_context(0, 0).unwrap();
        let a = driver.allocate_from_pool(0, 1000).unwrap();
        assert_eq!(driver.pool_attribute(0, USED), Ok(Value::Wide(1024)));
        driver.free(a).unwrap();
        assert_eq!(driver.pool_attribute(0, USED), Ok(Value::Wide(0)));
        assert_eq!(driver.pool_attribute(0, USED_HIGH), Ok(Value::Wide(1024)));
        driver.set_pool_attribute(0, USED_HIGH, || 0, || 0).unwrap();
        assert_eq!(driver.pool_attribute(0, USED_HIGH), Ok(Value::Wide(0)));
        assert_eq!(driver.pool_attribute(0, 99), fail(Code::INVALID_VALUE));
    }

    #[test]
    fn a_pool_is_shared_over_a_link() {
        let mut driver = Driver::new(Topology::parse("none:2").unwrap(), vec![0, 1]);
        assert_eq!(driver.share_pool(0, 1, true), fail(Code::INVALID_DEVICE));
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        assert!(!driver.pool_is_shared(0, 1) && driver.pool_is_shared(0, 0));
        driver.share_pool(0, 1, true).unwrap();
        assert!(driver.pool_is_shared(0, 1));
        assert_eq!(driver.share_pool(0, 0, false), fail(Code::INVALID_DEVICE));
    }
}
