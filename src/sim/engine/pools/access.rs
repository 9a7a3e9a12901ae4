//! Access of devices to pools. A device has access to a whole pool, or none.

use super::super::answer::{Answer, fail, invalid, refuse, refuse_if};
use super::super::driver::{ALL_HOSTS, AccessRights, DEVICE, Driver, PoolOrigin, Pools};
use cupeer_spec::abi::{CUmemAccess_flags, CUmemAccessDesc, CUmemLocation};
use cupeer_spec::results::Result as Code;

impl Pools {
    /// Returns the rights of a device for a pool.
    pub(crate) fn rights(&self, pool: usize, device: usize) -> AccessRights {
        let pool = &self.pools[pool];
        if pool.is_on(device) || pool.shared.contains(&device) {
            AccessRights::ReadWrite
        } else {
            AccessRights::Nothing
        }
    }
}

impl Driver {
    /// `cuMemPoolSetAccess`, after its null check. If one of the requests is wrong, nothing changes.
    pub(crate) fn set_pool_access(&mut self, handle: u64, wishes: &[CUmemAccessDesc]) -> Answer {
        let at = self.memory.pools.find_pool(handle)?;
        let mut granted = Vec::new();
        for (index, wish) in wishes.iter().enumerate() {
            refuse_if(
                wish.location.kind.0 != DEVICE,
                Code::NOT_SUPPORTED,
                "Invalid mapping location type request: Device memory can only be mapped on device",
            )?;
            let rights = match AccessRights::from_flags(wish.flags) {
                Some(AccessRights::Read) => {
                    return refuse(Code::NOT_SUPPORTED, "Mempools do not support Read-Only flag");
                }
                Some(rights) => rights,
                None => {
                    return invalid(format!("Index {index}: Invalid flag specified ({:#x})", wish.flags.0));
                }
            };
            // The driver has no message about the ordinal.
            let device = self.check_ordinal(wish.location.id).or(fail(Code::INVALID_DEVICE))?;
            if self.memory.pools.pools[at].is_on(device) {
                refuse_if(
                    rights == AccessRights::Nothing,
                    Code::INVALID_DEVICE,
                    "Modifying accessibility of memory pool on owning device is not supported",
                )?;
            } else if rights > AccessRights::Nothing && !self.can_reach_pool(device, at) {
                return fail(Code::INVALID_DEVICE);
            } else {
                granted.push((device, rights));
            }
        }
        let pool = &mut self.memory.pools.pools[at];
        for (device, rights) in granted {
            pool.shared.retain(|known| *known != device);
            if rights > AccessRights::Nothing {
                pool.shared.push(device);
            }
        }
        Ok(())
    }

    /// `cuMemPoolGetAccess`, after its null checks.
    pub(crate) fn pool_access(&self, handle: u64, place: CUmemLocation) -> Answer<CUmemAccess_flags> {
        let pool = self.memory.pools.find_pool(handle)?;
        let rights = match place.kind.0 {
            DEVICE => {
                let wrong = |_| {
                    let text = format!("Specified invalid device ordinal({}) in location->id", place.id);
                    invalid(text)
                };
                self.memory.pools.rights(pool, self.check_ordinal(place.id).or_else(wrong)?)
            }
            // Host code cannot touch device memory.
            kind if ALL_HOSTS.contains(&kind) => AccessRights::Nothing,
            _ => return invalid("Specified invalid location type in location->type"),
        };
        Ok(CUmemAccess_flags(rights as i32))
    }

    /// Returns true if a device has a path to the memory of a pool.
    fn can_reach_pool(&self, device: usize, pool: usize) -> bool {
        let pool = &self.memory.pools.pools[pool];
        let home = match &pool.table {
            // This process may not see the device of an imported pool.
            Some(table) if pool.origin == PoolOrigin::Imported => table.block.part.device,
            _ => self.visible[pool.device],
        };
        self.has_path(self.visible[device], home)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{allocation, shareable};
    use super::*;
    use crate::engine::stack;
    use crate::engine::transfers::{AddressRole, TransferShape, TransferSide};
    use cupeer_spec::abi::CUmemLocationType;
    use cupeer_topology::Topology;

    fn for_device(device: i32, flags: i32) -> CUmemAccessDesc {
        let location = CUmemLocation { kind: CUmemLocationType(DEVICE), id: device };
        CUmemAccessDesc { location, flags: CUmemAccess_flags(flags) }
    }

    #[test]
    fn all_wishes_are_granted_or_none() {
        let mut driver = Driver::in_context();
        let pool = shareable(&mut driver);
        let mut code = |wishes: &[CUmemAccessDesc]| driver.set_pool_access(pool, wishes).map_err(|f| f.code);
        for (second, expected) in [
            (for_device(0, 0), Code::INVALID_DEVICE),
            (for_device(99, 3), Code::INVALID_DEVICE),
            (for_device(1, 1), Code::NOT_SUPPORTED),
            (for_device(1, 2), Code::INVALID_VALUE),
        ] {
            assert_eq!(code(&[for_device(1, 3), second]), Err(expected));
        }
        let of = |driver: &Driver, device| driver.pool_access(pool, for_device(device, 0).location).map(|f| f.0);
        assert_eq!((of(&driver, 0), of(&driver, 1)), (Ok(3), Ok(0)));
        driver.set_pool_access(pool, &[for_device(1, 3), for_device(0, 3)]).unwrap();
        assert_eq!(of(&driver, 1), Ok(3));
        driver.set_pool_access(pool, &[for_device(1, 0)]).unwrap();
        assert_eq!(of(&driver, 1), Ok(0));
        driver.set_pool_access(pool, &[]).unwrap();
    }

    #[test]
    fn without_a_link_there_is_no_access() {
        let mut driver = Driver::new(Topology::parse("none:2").unwrap(), vec![0, 1]);
        let pool = shareable(&mut driver);
        assert_eq!(driver.set_pool_access(pool, &[for_device(1, 3)]), fail(Code::INVALID_DEVICE));
        driver.set_pool_access(pool, &[for_device(1, 0)]).unwrap();
    }

    #[test]
    fn access_is_asked_of_the_context_that_copies() {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        let other = driver.create_context(1, 0).unwrap();
        driver.create_context(0, 0).unwrap();
        let pool = shareable(&mut driver);
        let at = allocation(&mut driver, pool, 4096);
        let (byte, here) = (7u8, driver.current_context_handle().unwrap());
        let host = TransferSide::flat(&raw const byte as u64, AddressRole::Any);
        let device = TransferSide::flat(at, AddressRole::Any);
        let copy = |driver: &Driver, device| driver.look_up_copy(host, device, TransferShape::flat(1)).map(drop);
        assert_eq!(copy(&driver, device), Ok(()));
        assert_eq!(copy(&driver, device.with_context(other)).unwrap_err().code, Code::INVALID_VALUE);
        stack::pop_context();
        let refused = copy(&driver, device).unwrap_err();
        assert!(refused.messages[0].starts_with("Unable to access operand(0x"), "{refused:?}");
        assert!(driver.look_up_fill(at, 0, 1, 0, 16, 1).is_err());
        assert_eq!(copy(&driver, device.with_context(here)), Ok(()));
        driver.set_pool_access(pool, &[for_device(1, 3)]).unwrap();
        assert_eq!(copy(&driver, device), Ok(()));
    }
}
