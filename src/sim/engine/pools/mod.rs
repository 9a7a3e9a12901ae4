//! Memory pools: the default one of each device, those that a program makes, and those of other processes that it
//! imports.
//!
//! No memory can be allocated from an imported pool: it only receives pointers that the other process exports. Access is
//! granted for a whole pool, and by each process for itself.

mod access;
mod attributes;
mod life;
mod pointers;
mod sharing;

#[cfg(test)]
mod tests {
    use super::super::answer::fail;
    use super::super::driver::{DEVICE, Driver, PINNED};
    use cupeer_spec::abi::{CUmemLocation, CUmemLocationType};
    use cupeer_spec::results::Result as Code;

    const FIRST: CUmemLocation = CUmemLocation { kind: CUmemLocationType(DEVICE), id: 0 };

    /// A pool of the first device that may leave the process as a descriptor.
    pub(super) fn shareable(driver: &mut Driver) -> u64 {
        driver.create_pool(PINNED, 1, FIRST, 0).unwrap()
    }

    /// So many bytes of it.
    pub(super) fn allocation(driver: &mut Driver, pool: u64, size: u64) -> u64 {
        let pool = driver.memory.pools.find_pool(pool).unwrap();
        driver.allocate_from_pool(pool, size).unwrap()
    }

    #[test]
    fn a_pool_gives_out_what_it_may_and_its_place_is_used_again() {
        let mut driver = Driver::in_context();
        let small = driver.create_pool(PINNED, 0, FIRST, 4096).unwrap();
        let at = driver.memory.pools.find_pool(small).unwrap();
        let a = allocation(&mut driver, small, 4000);
        assert_eq!(driver.allocate_from_pool(at, 512), fail(Code::OUT_OF_MEMORY));
        driver.destroy_pool(small).unwrap();
        assert!(driver.destroy_pool(small).unwrap_err().messages[0].contains("already marked"));
        let other = shareable(&mut driver);
        assert_ne!(driver.memory.pools.find_pool(other), Ok(at), "it is in use");
        driver.free_device(a).unwrap();
        let third = shareable(&mut driver);
        assert_eq!(driver.memory.pools.find_pool(third), Ok(at));
    }
}
