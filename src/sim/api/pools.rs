//! Memory pools, and allocation in the order of a stream.

use super::boundary::{with_stream, write_result, write_result_or_refuse};
use crate::engine::answer::{Answer, fail, invalid_if};
use crate::engine::driver::{DEVICE, Driver};
use crate::engine::log;
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// The message of a real driver for each location in a call of `cuMemPoolSetAccess`, including devices.
const HOST_ACCESS: &str = "HOST/HOST_NUMA pools are always read-write accessible on the HOST";

/// The driver's message for a null pool. Some functions have no such message.
const NO_POOL: &str = "Parameter pool cannot be NULL";

/// Fails with a message if a handle or an address is null.
fn check_not_null(value: u64, message: &'static str) -> Answer {
    invalid_if(value == 0, message)
}

/// Returns the ordinal of the device of a location.
fn ordinal_of_location(driver: &Driver, location: Option<CUmemLocation>) -> Answer<usize> {
    match location {
        Some(location) if location.kind.0 == DEVICE => driver.check_ordinal(location.id),
        Some(_) => fail(Code::NOT_SUPPORTED),
        None => fail(Code::INVALID_VALUE),
    }
}

forward! {
    cuDeviceGetDefaultMemPool(pool_out, dev) =
        write_result(pool_out, |driver| Ok(driver.memory.pools.handle(driver.check_ordinal(dev.0)?)));
    cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) =
        write_result(pool, |driver| Ok(driver.memory.pools.current_handle(driver.check_ordinal(dev.0)?)));
    cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) =
        write_result(pool_out, |driver| Ok(driver.memory.pools.handle(ordinal_of_location(driver, location.get())?)));
    cuMemGetMemPool(pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: i32) =
        write_result(pool_out, |driver| Ok(driver.memory.pools.current_handle(ordinal_of_location(driver, location.get())?)));
    cuMemPoolTrimTo(pool: CUmemoryPool, _minBytesToKeep: usize) =
        process::enter()?.memory.pools.find_pool(pool).map(drop);
    cuMemFreeAsync | cuMemFreeAsync_ptsz(dptr, hStream) =
        with_stream(hStream, |driver, stream| driver.free_in_order(dptr, stream));
    cuMemPoolCreate(pool, poolProps) = write_result_or_refuse(pool, "pool cannot be NULL", |driver| {
        let props = poolProps.or_refuse("poolProps cannot be NULL")?;
        invalid_if(props.reserved != [0; 54], "poolProps: 'reserved' field is non-zero")?;
        let (kind, types, most) = (props.allocType.0, props.handleTypes.0, props.maxSize as u64);
        driver.create_pool(kind, types, props.location, most)
    });
    cuMemPoolGetAccess(flags, memPool, location) =
        write_result_or_refuse(flags, "Parameter flags cannot be NULL", |driver| {
            check_not_null(memPool, "Parameter memPool cannot be NULL")?;
            let place = location.or_refuse("Parameter location cannot be NULL")?.read_elements(1)[0];
            driver.pool_access(memPool, place)
        });
    cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags) =
        write_result_or_refuse(pool_out, "pool_out cannot be NULL", |driver| {
            driver.import_pool(handle.address(), handleType.0, flags)
        });
    cuMemPoolExportPointer(shareData_out, ptr) =
        write_result_or_refuse(shareData_out, "shareData_out cannot be NULL", |driver| {
            check_not_null(ptr, "ptr cannot be NULL")?;
            Ok(CUmemPoolPtrExportData { reserved: driver.export_pool_pointer(ptr)? })
        });
    cuMemPoolImportPointer(ptr_out, pool, shareData) =
        write_result_or_refuse(ptr_out, "ptr_out cannot be NULL", |driver| {
            check_not_null(pool, "pool cannot be NULL")?;
            let data = shareData.or_refuse("shareData cannot be NULL")?.read_elements(1)[0];
            driver.import_pool_pointer(pool, &data.reserved)
        });
    cuMemAllocAsync | cuMemAllocAsync_ptsz(dptr, bytesize, hStream) = write_result(dptr, |driver| {
        let stream = driver.stream(hStream)?;
        let device = driver.context(stream.context)?.device;
        driver.allocate_in_order(driver.memory.pools.current_pool(device), bytesize as u64, &stream)
    });
    cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(dptr, bytesize, pool, hStream) =
        write_result(dptr, |driver| {
            let stream = driver.stream(hStream)?;
            driver.allocate_in_order(driver.memory.pools.find_pool(pool)?, bytesize as u64, &stream)
        });
}

entry! {
    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        let mut driver = process::enter()?;
        // Unlike similar functions, this function has no message about a wrong ordinal.
        let ordinal = driver.check_ordinal(dev.0).or(fail(Code::INVALID_VALUE))?;
        let pool = driver.memory.pools.find_pool(pool)?;
        driver.memory.pools.set_current(ordinal, pool)
    }

    fn cuMemPoolDestroy(pool) {
        let mut driver = process::enter()?;
        check_not_null(pool, "Invalid CUmemoryPool handle: parameter pool cannot be NULL")?;
        driver.destroy_pool(pool).or_else(|failure| {
            // The pool may still be in use by frees that late devices have not done.
            if driver.request_all_work() { driver.destroy_pool(pool) } else { Err(failure) }
        })
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let driver = process::enter()?;
        let out = value.required()?;
        let pools = &driver.memory.pools;
        let value = pools.attribute(pools.find_pool(pool)?, attr)?;
        out.put_bytes(&value.to_bytes());
        Ok(())
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: i32, value: *mut c_void) {
        let mut driver = process::enter()?;
        let bytes = value.required()?;
        let pool = driver.memory.pools.find_pool(pool)?;
        driver.memory.pools.set_attribute(pool, attr, || bytes.read_as(), || bytes.read_as())
    }

    fn cuMemPoolSetAccess(pool, map, count) {
        let mut driver = process::enter()?;
        check_not_null(pool, NO_POOL)?;
        invalid_if(map.is_null(), "Parameter map cannot be NULL")?;
        driver.set_pool_access(pool, &map.elements(count)?)?;
        drop(driver);
        (0..count).for_each(|_| log::log_message(HOST_ACCESS));
        Ok(())
    }

    fn cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags) {
        let mut driver = process::enter()?;
        let out = handle_out.or_refuse("Parameter handle_out cannot be NULL")?;
        check_not_null(pool, NO_POOL)?;
        out.put_bytes(&driver.export_pool(pool, handleType.0, flags)?.to_ne_bytes());
        Ok(())
    }
}
