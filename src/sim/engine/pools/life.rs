//! Creates and destroys pools.

use super::super::answer::{Answer, fail, invalid, invalid_if};
use super::super::driver::{DEVICE, DEVICE_TYPES, Driver, HOST, HOST_NUMA, PINNED, Pool, PoolOrigin};
use super::super::space::HandleKind;
use cupeer_spec::abi::CUmemLocation;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemPoolCreate`, after its null checks: creates a pool with a capacity in bytes; 0 stands for no
    /// limit.
    pub(crate) fn create_pool(&mut self, kind: i32, types: i32, place: CUmemLocation, most: u64) -> Answer<u64> {
        match place.kind.0 {
            DEVICE => {}
            // The attributes of the device report no support.
            HOST | HOST_NUMA if types == 0 => return fail(Code::NOT_SUPPORTED),
            HOST => {
                return invalid("poolProps: handleTypes must be 0 for HOST memory location type");
            }
            HOST_NUMA => return fail(Code::INVALID_VALUE),
            other => {
                return invalid(format!("poolProps: Invalid location type ({other:#x})"));
            }
        }
        let wrong_id = |_| invalid(format!("poolProps: Invalid location id ({})", place.id));
        let device = self.check_ordinal(place.id).or_else(wrong_id)?;
        if kind != PINNED {
            return invalid(format!("poolProps: Invalid allocation type ({kind:#x})"));
        }
        // A pool with the handle type FABRIC can be created, but its export fails, because the machine has no
        // IMEX channel.
        if types & !DEVICE_TYPES != 0 {
            let text = format!(
                "poolProps: Invalid handle type specified for the mempool (specified: {types:#x}, supported: {DEVICE_TYPES:#x})"
            );
            return invalid(text);
        }
        let most = if most == 0 { u64::MAX } else { most };
        let handle = self.space.new_handle(HandleKind::Pool)?;
        self.memory.pools.add_pool(Pool { types, most, ..Pool::new(handle, PoolOrigin::Created, device) });
        Ok(handle)
    }

    /// `cuMemPoolDestroy`: allocations of the pool stay until they are freed; but imported pointers must be
    /// freed first. As recorded, a pool that was imported twice can be destroyed twice.
    pub(crate) fn destroy_pool(&mut self, handle: u64) -> Answer {
        let pools = &mut self.memory.pools;
        let at = pools.find_even_destroyed(handle).ok_or(Code::INVALID_VALUE)?;
        let pool = &mut pools.pools[at];
        invalid_if(pool.is_destroyed, "CUmemoryPool handle already marked for destruction")?;
        invalid_if(pool.origin == PoolOrigin::Default, "Cannot destroy a default mempool")?;
        invalid_if(
            pool.origin == PoolOrigin::Imported && pool.used > 0,
            "Cannot destroy memory pool with existing alive allocations",
        )?;
        pool.references -= 1;
        if pool.references > 0 {
            return Ok(());
        }
        pool.is_destroyed = true;
        if pools.current[pool.device] == at {
            pools.current[pool.device] = pool.device;
        }
        self.drop_table(at);
        self.space.recycle_handle(HandleKind::Pool, handle);
        Ok(())
    }

    /// Subtracts the bytes of a freed allocation from the use of a pool.
    pub(crate) fn subtract_use(&mut self, pool: usize, size: u64) {
        self.memory.pools.pools[pool].used -= size;
        self.drop_table(pool);
    }

    /// Releases the table of a pool that was destroyed and has no allocations left.
    fn drop_table(&mut self, at: usize) {
        let pool = &mut self.memory.pools.pools[at];
        if pool.is_gone()
            && let Some(mut table) = pool.table.take()
        {
            self.stores.forget_pointers(at, |slot| table.withdraw(slot));
            self.release_block(table.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::driver::FABRIC;
    use cupeer_spec::abi::CUmemLocationType;

    #[test]
    fn a_pool_is_on_a_device() {
        let mut driver = Driver::in_context();
        let mut create = |kind, types, place, id| {
            let place = CUmemLocation { kind: CUmemLocationType(place), id };
            driver.create_pool(kind, types, place, 0).map(drop).map_err(|failure| failure.code)
        };
        assert_eq!(create(PINNED, 1, DEVICE, 1), Ok(()));
        assert_eq!(create(PINNED, FABRIC, DEVICE, 1), Ok(()));
        for (kind, types, place, id) in [
            (0, 0, DEVICE, 0),
            (PINNED, 1, DEVICE, 99),
            (PINNED, 0, 0, 0),
            (PINNED, 1, HOST, 0),
            (PINNED, 2, DEVICE, 0),
            (PINNED, 16, DEVICE, 0),
        ] {
            assert_eq!(create(kind, types, place, id), Err(Code::INVALID_VALUE), "{kind} {types} {place} {id}");
        }
        assert_eq!(create(PINNED, 0, HOST, 0), Err(Code::NOT_SUPPORTED));
        assert_eq!(driver.memory.pools.set_current(0, 1), fail(Code::INVALID_VALUE), "another device's default one");
    }
}
