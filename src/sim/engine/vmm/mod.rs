//! Virtual memory management: allocations with handles, reserved addresses, and mappings with access rights.
//!
//! These objects do not belong to a context. A mapping is an allocation of `super::driver` like any other, so copies, pointer
//! attributes, and address ranges find it.

mod access;
mod handles;
mod mappings;
mod multicast;
mod places;
mod reservations;
mod sharing;

pub(crate) use multicast::{MemoryToBind, MulticastPart};
pub(crate) use sharing::NO_HANDLE;

#[cfg(test)]
mod tests {
    use super::super::driver::Driver;
    use cupeer_spec::abi::*;
    use cupeer_topology::Topology;

    pub(super) const GRANULE: u64 = super::super::descriptors::GRANULARITY;

    /// Two devices, and a context of each: that of the first is current.
    pub(super) fn driver() -> Driver {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        driver.create_context(1, 0).unwrap();
        driver.create_context(0, 0).unwrap();
        driver
    }

    /// Properties of an allocation of device memory.
    pub(super) fn on(device: i32, types: i32) -> CUmemAllocationProp {
        CUmemAllocationProp {
            kind: CUmemAllocationType(1),
            requestedHandleTypes: CUmemAllocationHandleType(types),
            location: CUmemLocation { kind: CUmemLocationType(1), id: device },
            win32HandleMetaData: core::ptr::null_mut(),
            allocFlags: CUmemAllocationFlags::default(),
        }
    }

    /// An allocation of so many granules on device 0, or on another, that can be exported.
    pub(super) fn allocation(driver: &mut Driver, device: i32, granules: u64) -> u64 {
        driver.create_allocation(granules * GRANULE, &on(device, 1)).unwrap()
    }

    /// Read and write access of a device, or less.
    pub(super) fn grant(
        driver: &mut Driver,
        at: u64,
        granules: u64,
        device: i32,
        flags: i32,
    ) -> super::super::answer::Answer {
        let location = CUmemLocation { kind: CUmemLocationType(1), id: device };
        driver.set_access(at, granules * GRANULE, &[CUmemAccessDesc { location, flags: CUmemAccess_flags(flags) }])
    }
}
