//! Memory pools, and allocation in the order of a stream.

use super::boundary::get;
use crate::engine::answer::{Answer, fail};
use crate::engine::process::{self, Driver};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// CU_MEM_LOCATION_TYPE_DEVICE.
const ON_DEVICE: i32 = 1;
/// CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
const READ_WRITE: i32 = 3;
/// CU_MEM_ALLOCATION_TYPE_PINNED.
const PINNED: i32 = 1;

/// The device of a place in memory.
fn device_at(driver: &Driver, location: Option<CUmemLocation>) -> Answer<usize> {
    match location {
        Some(location) if location.kind.0 == ON_DEVICE => driver.ordinal(location.id),
        Some(_) => fail(Code::NOT_SUPPORTED),
        None => fail(Code::INVALID_VALUE),
    }
}

entry! {
    fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice) {
        get(pool_out, |driver| Ok(driver.memory.pools.handle(driver.ordinal(dev.0)?)))
    }

    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) {
        get(pool, |driver| Ok(driver.memory.pools.current_handle(driver.ordinal(dev.0)?)))
    }

    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        let mut driver = process::enter()?;
        let ordinal = driver.ordinal(dev.0)?;
        let pool = driver.memory.pools.find(pool)?;
        driver.memory.pools.set_current(ordinal, pool)
    }

    /// Pools of device memory that no other process can open, as the device's attributes say.
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, poolProps: *const CUmemPoolProps) {
        get(pool, |driver| {
            let props = poolProps.required()?;
            let device = device_at(driver, Some(props.location))?;
            if props.handleTypes.0 != 0 {
                return fail(Code::NOT_SUPPORTED);
            }
            if props.allocType.0 != PINNED {
                return fail(Code::INVALID_VALUE);
            }
            let handle = driver.space.handle()?;
            let most = if props.maxSize == 0 { u64::MAX } else { props.maxSize as u64 };
            driver.memory.pools.add(handle, device, most);
            Ok(handle)
        })
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let mut driver = process::enter()?;
        let pool = driver.memory.pools.find(pool)?;
        driver.memory.pools.destroy(pool)
    }

    fn cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) {
        get(pool_out, |driver| Ok(driver.memory.pools.handle(device_at(driver, location.get())?)))
    }

    fn cuMemGetMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) {
        get(pool_out, |driver| Ok(driver.memory.pools.current_handle(device_at(driver, location.get())?)))
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, _minBytesToKeep: usize) {
        process::enter()?.memory.pools.find(pool).map(drop)
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let driver = process::enter()?;
        let out = value.required()?;
        let pools = &driver.memory.pools;
        let value = pools.attribute(pools.find(pool)?, attr)?;
        out.put_bytes(&value.bytes());
        Ok(())
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let mut driver = process::enter()?;
        let bytes = value.required()?;
        let pool = driver.memory.pools.find(pool)?;
        driver.memory.pools.set_attribute(pool, attr, || bytes.read_as(), || bytes.read_as())
    }

    /// A device reaches its own pool, and those of devices to which it has a link after
    /// `cuMemPoolSetAccess`.
    fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, memPool: CUmemoryPool, location: *mut CUmemLocation) {
        get(flags, |driver| {
            let location = location.get().ok_or(Code::INVALID_VALUE)?;
            let pool = driver.memory.pools.find(memPool)?;
            if location.kind.0 != ON_DEVICE {
                return fail(Code::INVALID_VALUE);
            }
            let reached = driver.memory.pools.is_shared(pool, driver.ordinal(location.id)?);
            Ok(CUmemAccess_flags(if reached { READ_WRITE } else { 0 }))
        })
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let mut driver = process::enter()?;
        let pool = driver.memory.pools.find(pool)?;
        for entry in map.elements(count)? {
            if entry.location.kind.0 != ON_DEVICE || !matches!(entry.flags.0, 0 | READ_WRITE) {
                return fail(Code::INVALID_VALUE);
            }
            let other = driver.ordinal(entry.location.id)?;
            driver.share_pool(pool, other, entry.flags.0 == READ_WRITE)?;
        }
        Ok(())
    }

    fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
        get(dptr, |driver| {
            let device = driver.context(driver.stream(hStream)?.context)?.device;
            driver.allocate_from_pool(driver.memory.pools.current(device), bytesize as u64)
        })
    }

    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
        get(dptr, |driver| {
            driver.stream(hStream)?;
            driver.allocate_from_pool(driver.memory.pools.find(pool)?, bytesize as u64)
        })
    }

    fn cuMemFreeAsync | cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        if driver.pending(&stream).is_none() {
            return driver.free(dptr);
        }
        driver.check_free(dptr)?;
        driver.in_order(&stream, move |driver| drop(driver.free(dptr)));
        Ok(())
    }
}
