//! Attributes of pools.

use super::super::answer::{Answer, AttributeValue, fail};
use super::super::driver::Pools;
use cupeer_spec::results::Result as Code;

/// CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES to CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.
const REUSE: std::ops::RangeInclusive<i32> = 1..=3;
/// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
const RELEASE_THRESHOLD: i32 = 4;
/// CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT.
const RESERVED: i32 = 5;
/// CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH.
const RESERVED_HIGH: i32 = 6;
/// CU_MEMPOOL_ATTR_USED_MEM_CURRENT.
const USED: i32 = 7;
/// CU_MEMPOOL_ATTR_USED_MEM_HIGH.
const USED_HIGH: i32 = 8;

impl Pools {
    /// `cuMemPoolGetAttribute`.
    pub(crate) fn attribute(&self, pool: usize, attribute: i32) -> Answer<AttributeValue> {
        let pool = &self.pools[pool];
        Ok(match attribute {
            _ if REUSE.contains(&attribute) => AttributeValue::Word(pool.reuse[attribute as usize - 1]),
            RELEASE_THRESHOLD => AttributeValue::Wide(pool.release_threshold),
            RESERVED | USED => AttributeValue::Wide(pool.used),
            RESERVED_HIGH | USED_HIGH => AttributeValue::Wide(pool.high),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// `cuMemPoolSetAttribute`. The highest sizes can only be set to zero.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::driver::Driver;

    #[test]
    fn used_bytes_are_counted() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_from_pool(0, 1000).unwrap();
        assert_eq!(driver.memory.pools.attribute(0, USED), Ok(AttributeValue::Wide(1024)));
        driver.free_device(a).unwrap();
        let pools = &mut driver.memory.pools;
        assert_eq!(pools.attribute(0, USED), Ok(AttributeValue::Wide(0)));
        assert_eq!(pools.attribute(0, USED_HIGH), Ok(AttributeValue::Wide(1024)));
        pools.set_attribute(0, USED_HIGH, || 0, || 0).unwrap();
        assert_eq!(pools.attribute(0, USED_HIGH), Ok(AttributeValue::Wide(0)));
        assert_eq!(pools.attribute(0, 99), fail(Code::INVALID_VALUE));
    }
}
