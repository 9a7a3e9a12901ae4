//! Device memory, host memory, managed memory.

use super::boundary::{Argument, Out};
use crate::abi::CUmemLocation;
use crate::engine::answer::{Answer, fail, refuse};
use crate::engine::managed::Location;
use crate::engine::process::{self, Driver};
use crate::engine::queue;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// A pitch is a multiple of this.
const PITCH: usize = 512;

/// The width of a row rounded up, and what all rows take.
fn pitched(width: usize, height: usize, element: u32) -> Answer<(usize, u64)> {
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
    Ok((pitch, size as u64))
}

fn host(out: Out<*mut c_void>, size: usize, flags: u32) -> Answer {
    let mut driver = process::enter()?;
    driver.current()?;
    let out = out.required()?;
    out.put(driver.allocate_host(size as u64, flags)? as *mut c_void);
    Ok(())
}

fn low(address: u64) -> Answer<u32> {
    u32::try_from(address).map_err(|_| Code::INVALID_VALUE.into())
}

fn place(location: CUmemLocation) -> Location {
    Location { kind: location.kind, id: location.id }
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
    let driver = process::enter()?;
    let number = driver.pending_at(address);
    Ok(queue::wait(driver, number))
}

entry! {
    /// The form before CUDA 3.2: its addresses have 32 bits.
    fn cuMemAlloc(dptr: *mut u32, bytesize: u32) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = dptr.required()?;
        out.put(low(driver.allocate(bytesize.into(), true)?)?);
        Ok(())
    }

    fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = dptr.or_say("NULL return value pointer")?;
        out.put(CUdeviceptr(driver.allocate(bytesize as u64, false)?));
        Ok(())
    }

    fn cuMemAllocPitch(dptr: *mut u32, pPitch: *mut u32, WidthInBytes: u32, Height: u32, ElementSizeBytes: u32) {
        let mut driver = process::enter()?;
        driver.current()?;
        let (out, out_pitch) = (dptr.required()?, pPitch.required()?);
        let (pitch, size) = pitched(WidthInBytes as usize, Height as usize, ElementSizeBytes)?;
        out.put(low(driver.allocate(size, true)?)?);
        out_pitch.put(pitch as u32);
        Ok(())
    }

    fn cuMemAllocPitch_v2(
        dptr: *mut CUdeviceptr,
        pPitch: *mut usize,
        WidthInBytes: usize,
        Height: usize,
        ElementSizeBytes: u32,
    ) {
        let mut driver = process::enter()?;
        driver.current()?;
        let (out, out_pitch) = (dptr.required()?, pPitch.required()?);
        let (pitch, size) = pitched(WidthInBytes, Height, ElementSizeBytes)?;
        out.put(CUdeviceptr(driver.allocate(size, false)?));
        out_pitch.put(pitch);
        Ok(())
    }

    fn cuMemFree(dptr: u32) {
        settled(dptr.into())?.free(dptr.into())
    }

    fn cuMemFree_v2(dptr: CUdeviceptr) {
        settled(dptr)?.free(dptr)
    }

    /// Either pointer may be null.
    fn cuMemGetInfo(free: *mut u32, total: *mut u32) {
        let driver = process::enter()?;
        let info = driver.memory_info(driver.current_device()?);
        free.put(u32::try_from(info.0).unwrap_or(u32::MAX));
        total.put(u32::try_from(info.1).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Either pointer may be null.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let driver = process::enter()?;
        let info = driver.memory_info(driver.current_device()?);
        free.put(info.0 as usize);
        total.put(info.1 as usize);
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
        pbase.put(CUdeviceptr(base));
        psize.put(size as usize);
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
        process::enter()?.unregister_host(p.address())
    }

    fn cuMemHostGetDevicePointer(pdptr: *mut u32, p: *mut c_void, Flags: u32) {
        let driver = process::enter()?;
        let out = pdptr.required()?;
        if Flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        driver.current()?;
        driver.host_flags(p.address())?;
        out.put(low(p.address())?);
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: u32) {
        let driver = process::enter()?;
        let out = pdptr.required()?;
        if Flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        driver.current()?;
        driver.host_flags(p.address())?;
        out.put(CUdeviceptr(p.address()));
        Ok(())
    }

    fn cuMemHostGetFlags(pFlags: *mut u32, p: *mut c_void) {
        let driver = process::enter()?;
        let out = pFlags.required()?;
        driver.current()?;
        out.put(driver.host_flags(p.address())?);
        Ok(())
    }

    fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: u32) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = dptr.required()?;
        out.put(CUdeviceptr(driver.allocate_managed(bytesize as u64, flags)?));
        Ok(())
    }

    fn cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: i32, device: i32) {
        process::enter()?.advise(devPtr, count as u64, advice, Location::of(device))
    }

    fn cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, advice: i32, location: CUmemLocation) {
        process::enter()?.advise(devPtr, count as u64, advice, place(location))
    }

    fn cuMemPrefetchAsync(devPtr: CUdeviceptr, count: usize, dstDevice: i32, hStream: CUstream) {
        let mut driver = process::enter()?;
        driver.stream(hStream)?;
        driver.prefetch(devPtr, count as u64, Location::of(dstDevice))
    }

    fn cuMemPrefetchAsync_v2(
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
        driver.prefetch(devPtr, count as u64, place(location))
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
