//! CUDA arrays, and copies of one row to and from arrays.

use super::boundary::{write_result, write_result_in_context};
use super::copies::{device, flat, host};
use crate::abi::{CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR};
use crate::engine::answer::Answer;
use crate::engine::driver::{Driver, RowEnd};
use crate::engine::{queue, stack};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use std::sync::MutexGuard;

/// Waits for the pending work of the current context, which may use an array. Returns the locked driver.
fn lock_when_arrays_done() -> Answer<MutexGuard<'static, Driver>> {
    queue::lock_when_done(|driver| Ok(driver.pending_in_context(stack::current_context())))
}

forward! {
    cuArray3DCreate_v2(pHandle: *mut *mut c_void, pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR) =
        write_result_in_context(pHandle, |driver| driver.create_array(pAllocateArray.required()?));
    cuArray3DGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, hArray: *mut c_void) =
        write_result(pArrayDescriptor, |driver| Ok(driver.arrays.get(hArray.address())?.descriptor));
    cuArrayDestroy(hArray: *mut c_void) = lock_when_arrays_done()?.destroy_array(hArray.address());
    cuMipmappedArrayGetLevel(pLevelArray: *mut *mut c_void, hMipmappedArray: *mut c_void, level: u32) =
        write_result(pLevelArray, |driver| driver.arrays.level_handle(hMipmappedArray.address(), level));
    cuMipmappedArrayDestroy(hMipmappedArray: *mut c_void) =
        lock_when_arrays_done()?.destroy_mipmapped(hMipmappedArray.address());
    cuMemcpyAtoH_v2(dstHost: HostAddress, srcArray: HostAddress, srcOffset: usize, ByteCount: usize) =
        flat(host(dstHost), RowEnd::in_array(srcArray, srcOffset), ByteCount, None);
    cuMemcpyHtoA_v2(dstArray: HostAddress, dstOffset: usize, srcHost: HostAddress, ByteCount: usize) =
        flat(RowEnd::in_array(dstArray, dstOffset), host(srcHost), ByteCount, None);
    cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds(dstDevice, srcArray, srcOffset, ByteCount) =
        flat(device(dstDevice), RowEnd::in_array(srcArray, srcOffset), ByteCount, None);
    cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds(dstArray, dstOffset, srcDevice, ByteCount) =
        flat(RowEnd::in_array(dstArray, dstOffset), device(srcDevice), ByteCount, None);
    cuArrayCreate_v2(pHandle: *mut *mut c_void, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR) =
        write_result_in_context(pHandle, |driver| {
            let CUDA_ARRAY_DESCRIPTOR { Width, Height, Format, NumChannels } = pAllocateArray.required()?;
            let shape = CUDA_ARRAY3D_DESCRIPTOR {
                width: Width,
                height: Height,
                depth: 0,
                format: Format,
                channels: NumChannels,
                flags: 0,
            };
            driver.create_array(shape)
        });
    cuArrayGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR, hArray: *mut c_void) =
        write_result(pArrayDescriptor, |driver| {
            let shape = driver.arrays.get(hArray.address())?.descriptor;
            Ok(CUDA_ARRAY_DESCRIPTOR {
                Width: shape.width,
                Height: shape.height,
                Format: shape.format,
                NumChannels: shape.channels,
            })
        });
}

entry! {
    fn cuMipmappedArrayCreate(
        pHandle: *mut *mut c_void,
        pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
        numMipmapLevels: u32,
    ) {
        write_result_in_context(pHandle, |driver| driver.create_mipmapped(pMipmappedArrayDesc.required()?, numMipmapLevels))
    }

    fn cuMemcpyAtoHAsync_v2(
        dstHost: HostAddress,
        srcArray: HostAddress,
        srcOffset: usize,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        flat(host(dstHost), RowEnd::in_array(srcArray, srcOffset), ByteCount, Some(hStream))
    }

    fn cuMemcpyHtoAAsync_v2(
        dstArray: HostAddress,
        dstOffset: usize,
        srcHost: HostAddress,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        flat(RowEnd::in_array(dstArray, dstOffset), host(srcHost), ByteCount, Some(hStream))
    }

    fn cuMemcpyAtoA_v2(
        dstArray: HostAddress,
        dstOffset: usize,
        srcArray: HostAddress,
        srcOffset: usize,
        ByteCount: usize,
    ) {
        flat(RowEnd::in_array(dstArray, dstOffset), RowEnd::in_array(srcArray, srcOffset), ByteCount, None)
    }
}
