//! Memory pools, and allocation in the order of a stream.

use super::boundary::get;
use crate::engine::answer::{Answer, fail, refuse};
use crate::engine::driver::{DEVICE, Driver};
use crate::engine::log;
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// What a real driver says for each place to which `cuMemPoolSetAccess` gives access, whatever place that is.
const HOST_ACCESS: &str = "HOST/HOST_NUMA pools are always read-write accessible on the HOST";

/// What it says of a pool that is null, in some functions.
const NO_POOL: &str = "Parameter pool cannot be NULL";

/// Refuses null.
fn not_null(value: u64, message: &'static str) -> Answer {
    if value == 0 { refuse(Code::INVALID_VALUE, message) } else { Ok(()) }
}

/// The device of a place in memory.
fn device_at(driver: &Driver, location: Option<CUmemLocation>) -> Answer<usize> {
    match location {
        Some(location) if location.kind.0 == DEVICE => driver.ordinal(location.id),
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
        // Unlike its sisters, it has no words about the ordinal.
        let ordinal = driver.ordinal(dev.0).or(fail(Code::INVALID_VALUE))?;
        let pool = driver.memory.pools.find(pool)?;
        driver.memory.pools.set_current(ordinal, pool)
    }

    fn cuMemPoolCreate(pool: *mut CUmemoryPool, poolProps: *const CUmemPoolProps) {
        let mut driver = process::enter()?;
        let out = pool.or_say("pool cannot be NULL")?;
        let props = poolProps.or_say("poolProps cannot be NULL")?;
        if props.reserved != [0; 54] {
            return refuse(Code::INVALID_VALUE, "poolProps: 'reserved' field is non-zero");
        }
        let (kind, types, most) = (props.allocType.0, props.handleTypes.0, props.maxSize as u64);
        out.put(driver.create_pool(kind, types, props.location, most)?);
        Ok(())
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let mut driver = process::enter()?;
        not_null(pool, "Invalid CUmemoryPool handle: parameter pool cannot be NULL")?;
        driver.destroy_pool(pool).or_else(|failure| {
            // What is to be freed is freed.
            if driver.force_all() { driver.destroy_pool(pool) } else { Err(failure) }
        })
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

    fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, memPool: CUmemoryPool, location: *mut CUmemLocation) {
        let driver = process::enter()?;
        let out = flags.or_say("Parameter flags cannot be NULL")?;
        not_null(memPool, "Parameter memPool cannot be NULL")?;
        let place = location.or_say("Parameter location cannot be NULL")?.list(1)[0];
        out.put(driver.pool_access(memPool, place)?);
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let mut driver = process::enter()?;
        not_null(pool, NO_POOL)?;
        if map.is_null() {
            return refuse(Code::INVALID_VALUE, "Parameter map cannot be NULL");
        }
        driver.set_pool_access(pool, &map.elements(count)?)?;
        drop(driver);
        (0..count).for_each(|_| log::write(HOST_ACCESS));
        Ok(())
    }

    fn cuMemPoolExportToShareableHandle(
        handle_out: *mut c_void,
        pool: CUmemoryPool,
        handleType: CUmemAllocationHandleType,
        flags: u64,
    ) {
        let mut driver = process::enter()?;
        let out = handle_out.or_say("Parameter handle_out cannot be NULL")?;
        not_null(pool, NO_POOL)?;
        out.put_bytes(&driver.export_pool(pool, handleType.0, flags)?.to_ne_bytes());
        Ok(())
    }

    fn cuMemPoolImportFromShareableHandle(
        pool_out: *mut CUmemoryPool,
        handle: *mut c_void,
        handleType: CUmemAllocationHandleType,
        flags: u64,
    ) {
        let mut driver = process::enter()?;
        let out = pool_out.or_say("pool_out cannot be NULL")?;
        out.put(driver.import_pool(handle.address(), handleType.0, flags)?);
        Ok(())
    }

    fn cuMemPoolExportPointer(shareData_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr) {
        let mut driver = process::enter()?;
        let out = shareData_out.or_say("shareData_out cannot be NULL")?;
        not_null(ptr, "ptr cannot be NULL")?;
        out.put(CUmemPoolPtrExportData { reserved: driver.export_pool_pointer(ptr)? });
        Ok(())
    }

    fn cuMemPoolImportPointer(
        ptr_out: *mut CUdeviceptr,
        pool: CUmemoryPool,
        shareData: *mut CUmemPoolPtrExportData,
    ) {
        let mut driver = process::enter()?;
        let out = ptr_out.or_say("ptr_out cannot be NULL")?;
        not_null(pool, "pool cannot be NULL")?;
        let data = shareData.or_say("shareData cannot be NULL")?.list(1)[0];
        out.put(driver.import_pool_pointer(pool, &data.reserved)?);
        Ok(())
    }

    fn cuMemAllocAsync | cuMemAllocAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) {
        get(dptr, |driver| {
            let stream = driver.stream(hStream)?;
            let device = driver.context(stream.context)?.device;
            driver.allocate_in_order(driver.memory.pools.current(device), bytesize as u64, &stream)
        })
    }

    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, hStream: CUstream) {
        get(dptr, |driver| {
            let stream = driver.stream(hStream)?;
            driver.allocate_in_order(driver.memory.pools.find(pool)?, bytesize as u64, &stream)
        })
    }

    fn cuMemFreeAsync | cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        driver.free_in_order(dptr, &stream)
    }
}
