//! Device memory, host memory, managed memory.

use super::boundary::{Argument, OutPointer, with_stream, write_both_results, write_result, write_result_in_context};
use crate::engine::answer::{Answer, fail_if, invalid_if};
use crate::engine::driver::{Driver, location_of_device};
use crate::engine::process;
use crate::engine::queue;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// Number of bytes of which every pitch is a multiple.
const PITCH: usize = 512;

/// Allocates rows of memory. Returns the address, and the pitch: the width of a row, rounded up.
fn allocate_pitched(
    driver: &mut Driver,
    (width, height): (usize, usize),
    element: u32,
    low: bool,
) -> Answer<(u64, usize)> {
    invalid_if(!matches!(element, 4 | 8 | 16), "Parameter ElementSizeBytes is invalid")?;
    invalid_if(width == 0, "Parameter WidthInBytes cannot be 0")?;
    invalid_if(height == 0, "Parameter Height cannot be 0")?;
    let pitch = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
    let size = pitch.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
    Ok((driver.allocate_device(size as u64, low)?, pitch))
}

fn allocate_host(out: OutPointer<*mut c_void>, size: usize, flags: u32) -> Answer {
    write_result_in_context(out, |driver| driver.allocate_host(size as u64, flags))
}

/// Returns the address at which a device accesses host memory, which is the same address.
fn device_pointer_of_host(driver: &Driver, host: u64, flags: u32) -> Answer<u64> {
    fail_if(flags != 0, Code::INVALID_VALUE)?;
    driver.current_context_handle()?;
    driver.host_flags(host).map(|_| host)
}

/// Returns the free and the total memory of the current device, in bytes.
fn memory_info(driver: &mut Driver) -> Answer<(u64, u64)> {
    let device = driver.current_device()?;
    Ok(driver.memory_info(device))
}

/// Returns an address with 32 bits, for the functions before CUDA 3.2. Fails if the address needs more bits.
fn to_32_bit_address(address: u64) -> Answer<u32> {
    u32::try_from(address).map_err(|_| Code::INVALID_VALUE.into())
}

/// Writes attributes of a range of managed memory, each with the size of its buffer.
fn write_range_attributes(
    data: Vec<OutPointer<c_void>>,
    sizes: &[usize],
    attributes: &[i32],
    address: u64,
    count: usize,
) -> Answer {
    let mut driver = process::enter()?;
    for ((out, size), attribute) in data.into_iter().zip(sizes).zip(attributes) {
        let out = out.required()?;
        fail_if(!size.is_multiple_of(4), Code::INVALID_VALUE)?;
        let words = driver.range_attribute(*attribute, size / 4, address, count as u64)?;
        out.put_bytes(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
    }
    Ok(())
}

/// Waits for the pending work that may use the memory at an address. Returns the locked driver.
pub(super) fn lock_when_memory_done(address: u64) -> Answer<MutexGuard<'static, Driver>> {
    queue::lock_when_done(|driver| Ok(driver.pending_at_address(address)))
}

forward! {
    /// The function before CUDA 3.2 has addresses of 32 bits.
    cuMemAlloc(dptr, bytesize) = write_result_in_context(dptr, |driver| to_32_bit_address(driver.allocate_device(bytesize.into(), true)?));
    cuMemFree(dptr) = lock_when_memory_done(dptr.into())?.free_device(dptr.into());
    cuMemFree_v2(dptr) = lock_when_memory_done(dptr)?.free_device(dptr);
    cuMemAllocHost(pp: *mut *mut c_void, bytesize: u32) = allocate_host(pp, bytesize as usize, 0);
    cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) = allocate_host(pp, bytesize, 0);
    cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: u32) = allocate_host(pp, bytesize, Flags);
    cuMemFreeHost(p: *mut c_void) = lock_when_memory_done(p.address())?.free_host(p.address());
    cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, Flags: u32) =
        process::enter()?.register_host(p.address(), bytesize as u64, Flags);
    cuMemHostUnregister(p: *mut c_void) =
        queue::lock_when_done_if_late(|driver| Ok(driver.pending_at_address(p.address())))?.unregister_host(p.address());
    cuMemHostGetDevicePointer(pdptr: *mut u32, p: *mut c_void, Flags: u32) =
        write_result(pdptr, |driver| to_32_bit_address(device_pointer_of_host(driver, p.address(), Flags)?));
    cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: u32) =
        write_result(pdptr, |driver| device_pointer_of_host(driver, p.address(), Flags));
    cuMemGetInfo(free: *mut u32, total: *mut u32) = write_both_results((free, total), |driver| {
        let (free, total) = memory_info(driver)?;
        Ok((u32::try_from(free).unwrap_or(u32::MAX), u32::try_from(total).unwrap_or(u32::MAX)))
    });
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = write_both_results((free, total), memory_info);
    cuMemGetAddressRange(pbase: *mut u32, psize: *mut u32, dptr: u32) = write_both_results((pbase, psize), |driver| {
        let (base, size) = driver.address_range(dptr.into())?;
        Ok((to_32_bit_address(base)?, to_32_bit_address(size)?))
    });
    cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) =
        write_both_results((pbase, psize), |driver| driver.address_range(dptr));
    cuMemHostGetFlags(pFlags: *mut u32, p: *mut c_void) =
        write_result(pFlags, |driver| driver.current_context_handle().and_then(|_| driver.host_flags(p.address())));
    cuMemAllocManaged(dptr, bytesize, flags) =
        write_result_in_context(dptr, |driver| driver.allocate_managed(bytesize as u64, flags));
    cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(devPtr, count, dstDevice, hStream) =
        with_stream(hStream, |driver, _| driver.prefetch(devPtr, count as u64, location_of_device(dstDevice)));
    cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(devPtr, count, location, flags, hStream) =
        with_stream(hStream, |driver, _| {
            fail_if(flags != 0, Code::INVALID_VALUE)?;
            driver.prefetch(devPtr, count as u64, location)
        });
    cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: i32, device: i32) =
        process::enter()?.advise(devPtr, count as u64, advice, location_of_device(device));
    cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, advice: i32, location: CUmemLocation) =
        process::enter()?.advise(devPtr, count as u64, advice, location);
    cuMemAllocPitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes) = write_result_in_context(dptr, |driver| {
        let out = pPitch.required()?;
        let rows = (WidthInBytes as usize, Height as usize);
        let (address, pitch) = allocate_pitched(driver, rows, ElementSizeBytes, true)?;
        out.put(pitch as u32);
        to_32_bit_address(address)
    });
    cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes) = write_result_in_context(dptr, |driver| {
        let out = pPitch.required()?;
        let (address, pitch) = allocate_pitched(driver, (WidthInBytes, Height), ElementSizeBytes, false)?;
        out.put(pitch);
        Ok(address)
    });
}

entry! {
    fn cuMemAlloc_v2(dptr, bytesize) {
        let mut driver = process::enter()?;
        driver.current_context_handle()?;
        let out = dptr.or_refuse("NULL return value pointer")?;
        out.put(driver.allocate_device(bytesize as u64, false)?);
        Ok(())
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        dataSize: usize,
        attribute: i32,
        devPtr: CUdeviceptr,
        count: usize,
    ) {
        write_range_attributes(vec![data], &[dataSize], &[attribute], devPtr, count)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void,
        dataSizes: *mut usize,
        attributes: *mut i32,
        numAttributes: usize,
        devPtr: CUdeviceptr,
        count: usize,
    ) {
        let (data, sizes, attributes) = (data.required()?, dataSizes.required()?, attributes.required()?);
        // SAFETY: the caller of the C function promises that each is a pointer to that many bytes.
        let outs =
            data.read_elements(numAttributes).into_iter().map(|data| unsafe { data.receive() }).collect();
        let (sizes, attributes) = (sizes.read_elements(numAttributes), attributes.read_elements(numAttributes));
        write_range_attributes(outs, &sizes, &attributes, devPtr, count)
    }
}
