//! Virtual memory management.

use super::boundary::write_result_or_refuse;
use crate::engine::answer::{Answer, fail, fail_if, invalid_if};
use crate::engine::driver::Driver;
use crate::engine::process;
use crate::engine::queue;
use crate::engine::vmm::NO_HANDLE;
use cupeer_spec::results::Result as Code;

/// The driver's message for a handle that is null, or for a null pointer to a handle.
const NOT_A_HANDLE: &str = "Parameter handle is not a valid CUmemGenericAllocationHandle";

/// Fails unless the flags are zero, which is the only value that cuda.h defines.
fn check_no_flags(flags: u64) -> Answer {
    invalid_if(flags != 0, "Parameter flags must be 0")
}

forward! {
    cuMemRelease(handle) = process::enter()?.release_allocation(handle);
    cuMemAddressFree(ptr, size) = process::enter()?.free_addresses(ptr, size as u64);
    cuMemGetAllocationPropertiesFromHandle(prop, handle) =
        write_result_or_refuse(prop, "Parameter prop cannot be NULL", |driver| driver.allocation_properties(handle));
    cuMemImportFromShareableHandle(handle, osHandle, shHandleType) =
        write_result_or_refuse(handle, "Parameter handle cannot be NULL", |driver| {
            driver.import_allocation(osHandle.address(), shHandleType.0)
        });
    cuMemCreate(handle, size, prop, flags) =
        write_result_or_refuse(handle, "Parameter handle cannot be NULL", |driver| {
            let wanted = prop.or_refuse("Parameter prop cannot be NULL")?;
            check_no_flags(flags)?;
            driver.create_allocation(size as u64, &wanted)
        });
    cuMemRetainAllocationHandle(handle, addr) = write_result_or_refuse(handle, NOT_A_HANDLE, |driver| {
        invalid_if(addr == 0, "Parameter addr cannot be NULL")?;
        driver.retain_allocation(addr)
    });
    cuMemAddressReserve(ptr, size, alignment, addr, flags) =
        write_result_or_refuse(ptr, "Parameter ptr cannot be NULL", |driver| {
            check_no_flags(flags)?;
            driver.reserve_addresses(size as u64, alignment as u64, addr)
        });
}

entry! {
    /// The answer does not depend on the device: all devices have the same granularity, which is both the
    /// minimum and the recommended granularity.
    fn cuMemGetAllocationGranularity(granularity, prop, option) {
        process::check_can_enter()?;
        let out = granularity.or_refuse("granularity return pointer cannot be NULL")?;
        prop.or_refuse("CUmemAllocationProp prop cannot be NULL")?;
        invalid_if(option.name().is_none(), "Invalid CUmemAllocationGranularity_flags option")?;
        out.put(crate::engine::descriptors::GRANULARITY);
        Ok(())
    }

    fn cuMemMap(ptr, size, offset, handle, flags) {
        process::check_can_enter()?;
        check_no_flags(flags)?;
        // Wrong arguments are reported without waiting for devices to join.
        let waits = process::enter()?.has_all_devices(handle) == Ok(false);
        let mut driver = if waits { super::multicast::lock_when_devices_joined(handle)? } else { process::enter()? };
        driver.map_allocation(ptr, size as u64, offset as u64, handle)
    }

    /// Waits for all work, because mappings belong to no context. With late devices, does not wait.
    fn cuMemUnmap(ptr, size) {
        let first = |driver: &mut Driver| Ok(if driver.is_late() { Vec::new() } else { driver.all_pending() });
        queue::lock_when_done(first)?.unmap_range(ptr, size as u64)
    }

    fn cuMemSetAccess(ptr, size, desc, count) {
        let mut driver = process::enter()?;
        invalid_if(ptr == 0, "Parameter ptr cannot be NULL")?;
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        invalid_if(count == 0, "Parameter count cannot be 0")?;
        desc.or_refuse("Parameter map(Access descriptor array) cannot be NULL")?;
        driver.set_access(ptr, size as u64, &desc.elements(count)?)
    }

    /// If nothing is mapped, the flags become zero although the call fails.
    fn cuMemGetAccess(flags, location, ptr) {
        let driver = process::enter()?;
        let out = flags.or_refuse("Parameter flags cannot be NULL")?;
        let place = location.or_refuse("Parameter location cannot be NULL")?;
        invalid_if(ptr == 0, "Parameter ptr cannot be 0")?;
        driver.check_access_location(&place)?;
        let access = driver.query_access(&place, ptr);
        out.put(access.unwrap_or(0));
        access.map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    fn cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags) {
        let mut driver = process::enter()?;
        let out = shareableHandle.or_refuse(NO_HANDLE)?;
        out.put_bytes(&driver.export_allocation(handle, handleType.0, flags)?.to_ne_bytes());
        Ok(())
    }

    /// Fails, because devices other than GPUs cannot reach memory of the simulated driver, as the attribute
    /// of the device says.
    fn cuMemGetHandleForAddressRange(handle, dptr, size, handleType, _flags) {
        let driver = process::enter()?;
        handle.required()?;
        fail_if(
            handleType.name().is_none() || dptr % 4096 != 0 || size == 0 || size % 4096 != 0,
            Code::INVALID_VALUE,
        )?;
        driver.address_range(dptr).or(fail(Code::INVALID_VALUE))?;
        fail(Code::NOT_SUPPORTED)
    }
}
