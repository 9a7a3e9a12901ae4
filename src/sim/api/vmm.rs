//! Virtual memory management.

use crate::engine::answer::{Answer, fail, refuse};
use crate::engine::driver::Driver;
use crate::engine::process;
use crate::engine::queue;
use crate::engine::vmm::NO_HANDLE;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// What the driver says where it was given no handle, or no place to put one.
const NOT_A_HANDLE: &str = "Parameter handle is not a valid CUmemGenericAllocationHandle";

/// Only zero is defined.
fn no_flags(flags: u64) -> Answer {
    if flags == 0 { Ok(()) } else { refuse(Code::INVALID_VALUE, "Parameter flags must be 0") }
}

entry! {
    /// It asks no device: all have one granularity, and both are the same.
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize,
        prop: *const CUmemAllocationProp,
        option: CUmemAllocationGranularity_flags,
    ) {
        process::check()?;
        let out = granularity.or_say("granularity return pointer cannot be NULL")?;
        prop.or_say("CUmemAllocationProp prop cannot be NULL")?;
        if option.name().is_none() {
            return refuse(Code::INVALID_VALUE, "Invalid CUmemAllocationGranularity_flags option");
        }
        out.put(crate::engine::tickets::GRANULARITY);
        Ok(())
    }

    fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle,
        size: usize,
        prop: *const CUmemAllocationProp,
        flags: u64,
    ) {
        let mut driver = process::enter()?;
        let out = handle.or_say("Parameter handle cannot be NULL")?;
        let wanted = prop.or_say("Parameter prop cannot be NULL")?;
        no_flags(flags)?;
        out.put(driver.create_allocation(size as u64, &wanted)?);
        Ok(())
    }

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        process::enter()?.release_allocation(handle)
    }

    fn cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, addr: CUdeviceptr) {
        let mut driver = process::enter()?;
        let out = handle.or_say(NOT_A_HANDLE)?;
        if addr == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter addr cannot be NULL");
        }
        out.put(driver.retain_allocation(addr)?);
        Ok(())
    }

    fn cuMemGetAllocationPropertiesFromHandle(
        prop: *mut CUmemAllocationProp,
        handle: CUmemGenericAllocationHandle,
    ) {
        let driver = process::enter()?;
        let out = prop.or_say("Parameter prop cannot be NULL")?;
        out.put(driver.allocation_properties(handle)?);
        Ok(())
    }

    fn cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64) {
        let mut driver = process::enter()?;
        let out = ptr.or_say("Parameter ptr cannot be NULL")?;
        no_flags(flags)?;
        out.put(driver.reserve_addresses(size as u64, alignment as u64, addr)?);
        Ok(())
    }

    fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
        process::enter()?.free_addresses(ptr, size as u64)
    }

    fn cuMemMap(
        ptr: CUdeviceptr,
        size: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: u64,
    ) {
        process::check()?;
        no_flags(flags)?;
        // What else is wrong is said without waiting for devices.
        let waits = process::enter()?.is_gathered(handle) == Ok(false);
        let mut driver = if waits { super::multicast::gathered(handle)? } else { process::enter()? };
        driver.map(ptr, size as u64, offset as u64, handle)
    }

    /// It waits for all work: what is mapped belongs to no context. Where devices are late, it waits for nothing.
    fn cuMemUnmap(ptr: CUdeviceptr, size: usize) {
        let first = |driver: &mut Driver| Ok(if driver.is_late() { Vec::new() } else { driver.pending_anywhere() });
        queue::settled(first)?.unmap(ptr, size as u64)
    }

    fn cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize) {
        let mut driver = process::enter()?;
        if ptr == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter ptr cannot be NULL");
        }
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter size cannot be 0");
        }
        if count == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter count cannot be 0");
        }
        desc.or_say("Parameter map(Access descriptor array) cannot be NULL")?;
        driver.set_access(ptr, size as u64, &desc.elements(count)?)
    }

    /// Where nothing is mapped the flags become zero, too.
    fn cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, ptr: CUdeviceptr) {
        let driver = process::enter()?;
        let out = flags.or_say("Parameter flags cannot be NULL")?;
        let place = location.or_say("Parameter location cannot be NULL")?;
        if ptr == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter ptr cannot be 0");
        }
        driver.check_place(&place)?;
        let access = driver.access(&place, ptr);
        out.put(access.unwrap_or(0));
        access.map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    fn cuMemExportToShareableHandle(
        shareableHandle: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        handleType: CUmemAllocationHandleType,
        flags: u64,
    ) {
        let mut driver = process::enter()?;
        let out = shareableHandle.or_say(NO_HANDLE)?;
        out.put_bytes(&driver.export_allocation(handle, handleType.0, flags)?.to_ne_bytes());
        Ok(())
    }

    fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle,
        osHandle: *mut c_void,
        shHandleType: CUmemAllocationHandleType,
    ) {
        let mut driver = process::enter()?;
        let out = handle.or_say("Parameter handle cannot be NULL")?;
        out.put(driver.import_allocation(osHandle.address(), shHandleType.0)?);
        Ok(())
    }

    /// Memory of the simulated driver cannot be reached by other devices, as the device's attribute says.
    fn cuMemGetHandleForAddressRange(
        handle: *mut i32,
        dptr: CUdeviceptr,
        size: usize,
        handleType: CUmemRangeHandleType,
        _flags: u64,
    ) {
        let driver = process::enter()?;
        handle.required()?;
        if handleType.name().is_none() || dptr % 4096 != 0 || size == 0 || size % 4096 != 0 {
            return fail(Code::INVALID_VALUE);
        }
        driver.address_range(dptr).or(fail(Code::INVALID_VALUE))?;
        fail(Code::NOT_SUPPORTED)
    }
}
