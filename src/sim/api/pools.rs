//! The default memory pool of each device, and allocation in the order of a stream.

use super::boundary::pool_handle;
use crate::abi::{CUmemAccessDesc, CUmemLocation, CUmemoryPool};
use crate::engine::answer::{Answer, fail};
use crate::engine::process::{self, Driver};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// CU_MEM_LOCATION_TYPE_DEVICE.
const ON_DEVICE: i32 = 1;
/// CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
const READ_WRITE: i32 = 3;

/// The pool of a place in memory: that of its device.
fn pool_at(driver: &Driver, location: Option<CUmemLocation>) -> Answer<CUmemoryPool> {
    match location {
        Some(location) if location.kind == ON_DEVICE => {
            Ok(pool_handle(driver.pool_handle(driver.ordinal(location.id)?)))
        }
        Some(_) => fail(Code::NOT_SUPPORTED),
        None => fail(Code::INVALID_VALUE),
    }
}

entry! {
    fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice) {
        let driver = process::enter()?;
        let out = pool_out.required()?;
        let ordinal = driver.ordinal(dev.0)?;
        out.put(pool_handle(driver.pool_handle(ordinal)));
        Ok(())
    }

    /// No pool but the default one can be made, so that this is it.
    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) {
        let driver = process::enter()?;
        let out = pool.required()?;
        let ordinal = driver.ordinal(dev.0)?;
        out.put(pool_handle(driver.pool_handle(ordinal)));
        Ok(())
    }

    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        let driver = process::enter()?;
        let ordinal = driver.ordinal(dev.0)?;
        if driver.pool_device(pool)? == ordinal { Ok(()) } else { fail(Code::INVALID_VALUE) }
    }

    fn cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) {
        let driver = process::enter()?;
        let out = pool_out.required()?;
        out.put(pool_at(&driver, location.get())?);
        Ok(())
    }

    fn cuMemGetMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) {
        let driver = process::enter()?;
        let out = pool_out.required()?;
        out.put(pool_at(&driver, location.get())?);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, _minBytesToKeep: usize) {
        process::enter()?.pool_device(pool).map(|_| ())
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let driver = process::enter()?;
        let out = value.required()?;
        let value = driver.pool_attribute(driver.pool_device(pool)?, attr)?;
        out.put_bytes(&value.bytes());
        Ok(())
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let mut driver = process::enter()?;
        let bytes = value.required()?;
        let device = driver.pool_device(pool)?;
        driver.set_pool_attribute(device, attr, || bytes.read_word(), || bytes.read_wide())
    }

    /// A device reaches its own pool, and those of devices to which it has a link after
    /// `cuMemPoolSetAccess`.
    fn cuMemPoolGetAccess(flags: *mut i32, memPool: CUmemoryPool, location: *mut CUmemLocation) {
        let driver = process::enter()?;
        let out = flags.required()?;
        let location = location.get().ok_or(Code::INVALID_VALUE)?;
        let home = driver.pool_device(memPool)?;
        if location.kind != ON_DEVICE {
            return fail(Code::INVALID_VALUE);
        }
        let reached = driver.pool_is_shared(home, driver.ordinal(location.id)?);
        out.put(if reached { READ_WRITE } else { 0 });
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let mut driver = process::enter()?;
        let home = driver.pool_device(pool)?;
        for entry in map.elements(count)? {
            if entry.location.kind != ON_DEVICE || !matches!(entry.flags, 0 | READ_WRITE) {
                return fail(Code::INVALID_VALUE);
            }
            let other = driver.ordinal(entry.location.id)?;
            driver.share_pool(home, other, entry.flags == READ_WRITE)?;
        }
        Ok(())
    }

    fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
        let mut driver = process::enter()?;
        let out = dptr.required()?;
        let stream = driver.stream(hStream)?;
        let device = driver.context(stream.context)?.device;
        out.put(CUdeviceptr(driver.allocate_from_pool(device, bytesize as u64)?));
        Ok(())
    }

    fn cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
        let mut driver = process::enter()?;
        let out = dptr.required()?;
        driver.stream(hStream)?;
        let device = driver.pool_device(pool)?;
        out.put(CUdeviceptr(driver.allocate_from_pool(device, bytesize as u64)?));
        Ok(())
    }

    fn cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) {
        let mut driver = process::enter()?;
        driver.stream(hStream)?;
        driver.free(dptr)
    }
}
