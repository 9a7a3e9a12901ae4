//! Device memory, host memory, managed memory.

use super::boundary::{Argument, Out, get, make};
use crate::engine::answer::{Answer, fail, refuse};
use crate::engine::driver::{Driver, place_of};
use crate::engine::process;
use crate::engine::queue;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// A pitch is a multiple of this.
const PITCH: usize = 512;

/// Allocates rows of a width and height: their address, and the width rounded up.
fn pitched(
    driver: &mut Driver,
    (width, height): (usize, usize),
    element: u32,
    low: bool,
) -> Answer<(u64, usize)> {
    if !matches!(element, 4 | 8 | 16) {
        return refuse(Code::INVALID_VALUE, "Parameter ElementSizeBytes is invalid");
    }
    if width == 0 {
        return refuse(Code::INVALID_VALUE, "Parameter WidthInBytes cannot be 0");
    }
    if height == 0 {
        return refuse(Code::INVALID_VALUE, "Parameter Height cannot be 0");
    }
    let pitch = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
    let size = pitch.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
    Ok((driver.allocate(size as u64, low)?, pitch))
}

fn host(out: Out<*mut c_void>, size: usize, flags: u32) -> Answer {
    make(out, |driver| driver.allocate_host(size as u64, flags))
}

/// The address at which a device sees host memory: the same.
fn device_pointer(driver: &Driver, host: u64, flags: u32) -> Answer<u64> {
    if flags != 0 {
        return fail(Code::INVALID_VALUE);
    }
    driver.current()?;
    driver.host_flags(host).map(|_| host)
}

fn low(address: u64) -> Answer<u32> {
    u32::try_from(address).map_err(|_| Code::INVALID_VALUE.into())
}

/// Writes attributes of a range of managed memory, each to a place of its size.
fn range_attributes(
    data: &[Out<c_void>],
    sizes: &[usize],
    attributes: &[i32],
    address: u64,
    count: usize,
) -> Answer {
    let mut driver = process::enter()?;
    for ((out, size), attribute) in data.iter().zip(sizes).zip(attributes) {
        let out = out.required()?;
        if !size.is_multiple_of(4) {
            return fail(Code::INVALID_VALUE);
        }
        let words = driver.range_attribute(*attribute, size / 4, address, count as u64)?;
        out.put_bytes(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
    }
    Ok(())
}

/// The driver, once no work that waits can use what is at an address.
pub(super) fn settled(address: u64) -> Answer<MutexGuard<'static, Driver>> {
    queue::settled(|driver| Ok(driver.pending_at(address)))
}

entry! {
    /// The form before CUDA 3.2: its addresses have 32 bits.
    fn cuMemAlloc(dptr: *mut u32, bytesize: u32) {
        make(dptr, |driver| low(driver.allocate(bytesize.into(), true)?))
    }

    fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = dptr.or_say("NULL return value pointer")?;
        out.put(driver.allocate(bytesize as u64, false)?);
        Ok(())
    }

    fn cuMemAllocPitch(dptr: *mut u32, pPitch: *mut u32, WidthInBytes: u32, Height: u32, ElementSizeBytes: u32) {
        make(dptr, |driver| {
            let out = pPitch.required()?;
            let rows = (WidthInBytes as usize, Height as usize);
            let (address, pitch) = pitched(driver, rows, ElementSizeBytes, true)?;
            out.put(pitch as u32);
            low(address)
        })
    }

    fn cuMemAllocPitch_v2(
        dptr: *mut CUdeviceptr,
        pPitch: *mut usize,
        WidthInBytes: usize,
        Height: usize,
        ElementSizeBytes: u32,
    ) {
        make(dptr, |driver| {
            let out = pPitch.required()?;
            let (address, pitch) = pitched(driver, (WidthInBytes, Height), ElementSizeBytes, false)?;
            out.put(pitch);
            Ok(address)
        })
    }

    fn cuMemFree(dptr: u32) {
        settled(dptr.into())?.free(dptr.into())
    }

    fn cuMemFree_v2(dptr: CUdeviceptr) {
        settled(dptr)?.free(dptr)
    }

    /// Either pointer may be null.
    fn cuMemGetInfo(free: *mut u32, total: *mut u32) {
        let mut driver = process::enter()?;
        let device = driver.current_device()?;
        let info = driver.memory_info(device);
        free.put(u32::try_from(info.0).unwrap_or(u32::MAX));
        total.put(u32::try_from(info.1).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Either pointer may be null.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let mut driver = process::enter()?;
        let device = driver.current_device()?;
        let info = driver.memory_info(device);
        free.put(info.0);
        total.put(info.1);
        Ok(())
    }

    fn cuMemGetAddressRange(pbase: *mut u32, psize: *mut u32, dptr: u32) {
        let (base, size) = process::enter()?.address_range(dptr.into())?;
        pbase.put(low(base)?);
        psize.put(low(size)?);
        Ok(())
    }

    /// Either pointer may be null.
    fn cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) {
        let (base, size) = process::enter()?.address_range(dptr)?;
        pbase.put(base);
        psize.put(size);
        Ok(())
    }

    fn cuMemAllocHost(pp: *mut *mut c_void, bytesize: u32) {
        host(pp, bytesize as usize, 0)
    }

    fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) {
        host(pp, bytesize, 0)
    }

    fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: u32) {
        host(pp, bytesize, Flags)
    }

    fn cuMemFreeHost(p: *mut c_void) {
        settled(p.address())?.free_host(p.address())
    }

    fn cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, Flags: u32) {
        process::enter()?.register_host(p.address(), bytesize as u64, Flags)
    }

    fn cuMemHostUnregister(p: *mut c_void) {
        queue::settled_if_late(|driver| Ok(driver.pending_at(p.address())))?.unregister_host(p.address())
    }

    fn cuMemHostGetDevicePointer(pdptr: *mut u32, p: *mut c_void, Flags: u32) {
        get(pdptr, |driver| low(device_pointer(driver, p.address(), Flags)?))
    }

    fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: u32) {
        get(pdptr, |driver| device_pointer(driver, p.address(), Flags))
    }

    fn cuMemHostGetFlags(pFlags: *mut u32, p: *mut c_void) {
        get(pFlags, |driver| {
            driver.current()?;
            driver.host_flags(p.address())
        })
    }

    fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: u32) {
        make(dptr, |driver| driver.allocate_managed(bytesize as u64, flags))
    }

    fn cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: i32, device: i32) {
        process::enter()?.advise(devPtr, count as u64, advice, place_of(device))
    }

    fn cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, advice: i32, location: CUmemLocation) {
        process::enter()?.advise(devPtr, count as u64, advice, location)
    }

    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(devPtr: CUdeviceptr, count: usize, dstDevice: i32, hStream: CUstream) {
        let mut driver = process::enter()?;
        driver.stream(hStream)?;
        driver.prefetch(devPtr, count as u64, place_of(dstDevice))
    }

    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(
        devPtr: CUdeviceptr,
        count: usize,
        location: CUmemLocation,
        flags: u32,
        hStream: CUstream,
    ) {
        let mut driver = process::enter()?;
        driver.stream(hStream)?;
        if flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        driver.prefetch(devPtr, count as u64, location)
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        dataSize: usize,
        attribute: i32,
        devPtr: CUdeviceptr,
        count: usize,
    ) {
        range_attributes(&[data], &[dataSize], &[attribute], devPtr, count)
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
        let outs: Vec<_> =
            data.list(numAttributes).into_iter().map(|data| unsafe { data.receive() }).collect();
        let (sizes, attributes) = (sizes.list(numAttributes), attributes.list(numAttributes));
        range_attributes(&outs, &sizes, &attributes, devPtr, count)
    }
}
