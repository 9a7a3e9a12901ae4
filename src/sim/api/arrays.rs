//! Arrays, and copies of one row to and from them.

use super::boundary::{In, Out};
use super::copies::{number, transfer};
use crate::abi::{CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR};
use crate::engine::answer::{Answer, fail};
use crate::engine::arrays::Descriptor;
use crate::engine::copies::{Role, Shape, Side};
use crate::engine::process::{self, Driver};
use crate::engine::{queue, stack};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

fn create(out: Out<*mut c_void>, descriptor: impl FnOnce() -> Answer<Descriptor>) -> Answer {
    let mut driver = process::enter()?;
    driver.current()?;
    let out = out.required()?;
    out.put(driver.create_array(descriptor()?)? as *mut c_void);
    Ok(())
}

fn flat(descriptor: CUDA_ARRAY_DESCRIPTOR) -> Descriptor {
    Descriptor {
        width: descriptor.Width as u64,
        height: descriptor.Height as u64,
        depth: 0,
        format: descriptor.Format,
        channels: descriptor.NumChannels,
        flags: 0,
    }
}

fn solid(descriptor: CUDA_ARRAY3D_DESCRIPTOR) -> Descriptor {
    Descriptor {
        width: descriptor.Width as u64,
        height: descriptor.Height as u64,
        depth: descriptor.Depth as u64,
        format: descriptor.Format,
        channels: descriptor.NumChannels,
        flags: descriptor.Flags,
    }
}

/// The driver, once no work of the current context can use an array.
fn settled() -> Answer<MutexGuard<'static, Driver>> {
    let driver = process::enter()?;
    let number = driver.pending_in(stack::current());
    Ok(queue::wait(driver, number))
}

/// One end of a copy of one row.
#[derive(Clone, Copy)]
enum End {
    Array(u64, usize),
    At(u64, Role),
}

impl End {
    fn side(self, driver: &Driver, length: u64) -> Answer<Side> {
        let (array, offset) = match self {
            End::At(address, role) => return Ok(Side::flat(address, role)),
            End::Array(array, offset) => (array, offset as u64),
        };
        let (row, rows, slices) = driver.arrays.get(array)?.descriptor.shape().ok_or(Code::INVALID_VALUE)?;
        if offset.checked_add(length).is_none_or(|end| end > row * rows * slices) {
            return fail(Code::INVALID_VALUE);
        }
        Ok(Side::flat(offset, Role::Array(array)))
    }
}

fn copy(to: End, from: End, length: usize, stream: Option<u64>) -> Answer {
    let length = length as u64;
    transfer(stream, move |driver| {
        driver.copy(to.side(driver, length)?, from.side(driver, length)?, Shape::flat(length))
    })
}

fn host(address: u64) -> End {
    End::At(address, Role::Any)
}

fn source(address: In<c_void>) -> End {
    host(number(address))
}

entry! {
    fn cuArrayCreate_v2(pHandle: *mut *mut c_void, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR) {
        create(pHandle, || Ok(flat(pAllocateArray.required()?)))
    }

    fn cuArray3DCreate_v2(pHandle: *mut *mut c_void, pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR) {
        create(pHandle, || Ok(solid(pAllocateArray.required()?)))
    }

    fn cuArrayGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR, hArray: *mut c_void) {
        let driver = process::enter()?;
        let out = pArrayDescriptor.required()?;
        let shape = driver.arrays.get(hArray.address())?.descriptor;
        out.put(CUDA_ARRAY_DESCRIPTOR {
            Width: shape.width as usize,
            Height: shape.height as usize,
            Format: shape.format,
            NumChannels: shape.channels,
        });
        Ok(())
    }

    fn cuArray3DGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, hArray: *mut c_void) {
        let driver = process::enter()?;
        let out = pArrayDescriptor.required()?;
        let shape = driver.arrays.get(hArray.address())?.descriptor;
        out.put(CUDA_ARRAY3D_DESCRIPTOR {
            Width: shape.width as usize,
            Height: shape.height as usize,
            Depth: shape.depth as usize,
            Format: shape.format,
            NumChannels: shape.channels,
            Flags: shape.flags,
        });
        Ok(())
    }

    fn cuArrayDestroy(hArray: *mut c_void) {
        settled()?.destroy_array(hArray.address())
    }

    fn cuMipmappedArrayCreate(
        pHandle: *mut *mut c_void,
        pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
        numMipmapLevels: u32,
    ) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = pHandle.required()?;
        let shape = solid(pMipmappedArrayDesc.required()?);
        out.put(driver.create_mipmapped(shape, numMipmapLevels)? as *mut c_void);
        Ok(())
    }

    fn cuMipmappedArrayGetLevel(pLevelArray: *mut *mut c_void, hMipmappedArray: *mut c_void, level: u32) {
        let driver = process::enter()?;
        let out = pLevelArray.required()?;
        out.put(driver.arrays.level(hMipmappedArray.address(), level)? as *mut c_void);
        Ok(())
    }

    fn cuMipmappedArrayDestroy(hMipmappedArray: *mut c_void) {
        settled()?.destroy_mipmapped(hMipmappedArray.address())
    }

    fn cuMemcpyAtoH_v2(dstHost: *mut c_void, srcArray: *mut c_void, srcOffset: usize, ByteCount: usize) {
        copy(host(dstHost.address()), End::Array(srcArray.address(), srcOffset), ByteCount, None)
    }

    fn cuMemcpyAtoHAsync_v2(
        dstHost: *mut c_void,
        srcArray: *mut c_void,
        srcOffset: usize,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        copy(host(dstHost.address()), End::Array(srcArray.address(), srcOffset), ByteCount, Some(hStream))
    }

    fn cuMemcpyHtoA_v2(dstArray: *mut c_void, dstOffset: usize, srcHost: *const c_void, ByteCount: usize) {
        copy(End::Array(dstArray.address(), dstOffset), source(srcHost), ByteCount, None)
    }

    fn cuMemcpyHtoAAsync_v2(
        dstArray: *mut c_void,
        dstOffset: usize,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        copy(End::Array(dstArray.address(), dstOffset), source(srcHost), ByteCount, Some(hStream))
    }

    fn cuMemcpyAtoD_v2(dstDevice: CUdeviceptr, srcArray: *mut c_void, srcOffset: usize, ByteCount: usize) {
        copy(End::At(dstDevice, Role::Device), End::Array(srcArray.address(), srcOffset), ByteCount, None)
    }

    fn cuMemcpyDtoA_v2(dstArray: *mut c_void, dstOffset: usize, srcDevice: CUdeviceptr, ByteCount: usize) {
        copy(End::Array(dstArray.address(), dstOffset), End::At(srcDevice, Role::Device), ByteCount, None)
    }

    fn cuMemcpyAtoA_v2(
        dstArray: *mut c_void,
        dstOffset: usize,
        srcArray: *mut c_void,
        srcOffset: usize,
        ByteCount: usize,
    ) {
        let to = End::Array(dstArray.address(), dstOffset);
        copy(to, End::Array(srcArray.address(), srcOffset), ByteCount, None)
    }
}
