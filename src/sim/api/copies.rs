//! Copies. The asynchronous forms are done when they return, where nothing in their stream waits.

use super::boundary::In;
use crate::abi::*;
use crate::engine::answer::{Answer, Failure, fail, refuse};
use crate::engine::copies::{Role, Shape, Side, Transfer};
use crate::engine::graphs::Node;
use crate::engine::process::{self, Driver};
use crate::engine::queue;
use crate::engine::streams::LEGACY;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// `CU_MEMORYTYPE_*`.
const HOST: i32 = 1;
const DEVICE: i32 = 2;
const ARRAY: i32 = 3;
const UNIFIED: i32 = 4;

/// Copies one row, in the order of a stream; `None` is for the forms without one.
fn flat(to: (u64, Role), from: (u64, Role), length: u64, stream: Option<u64>) -> Answer {
    transfer(stream, move |driver| {
        driver.copy(Side::flat(to.0, to.1), Side::flat(from.0, from.1), Shape::flat(length))
    })
}

/// Looks bytes up, and moves or sets them in the order of a stream; without one, in that of the default stream,
/// and before the call returns.
pub(super) fn transfer(
    stream: Option<u64>,
    lookup: impl Fn(&Driver) -> Answer<Transfer> + Send + Sync + 'static,
) -> Answer {
    let mut driver = process::enter()?;
    driver.current()?;
    let of = driver.stream(stream.unwrap_or(LEGACY))?;
    let transfer = lookup(&driver)?;
    if stream.is_some() && driver.graphs.take(&of, || Node::Transfer(Arc::new(lookup)))? {
        return Ok(());
    }
    let pending = driver.pending(&of);
    if pending.is_some() && stream.is_some() && !driver.is_synchronous(&transfer) {
        // What was looked up is there: memory is not freed before work that uses it is done.
        driver.enqueue(&of, || drop(transfer.run()));
        return Ok(());
    }
    drop(queue::wait(driver, pending));
    transfer.run()
}

/// Where a side of a copy of rows starts, and how it goes on.
#[derive(Clone, Copy)]
struct Corner {
    kind: i32,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
    height: u64,
    x: u64,
    y: u64,
    z: u64,
}

impl Corner {
    /// As a side of a copy of an array, which has a pitch and a height of its own.
    fn of_array(self, driver: &Driver, shape: &Shape) -> Answer<Side> {
        let (row, rows, slices) =
            driver.arrays.get(self.array)?.descriptor.shape().ok_or(Code::INVALID_VALUE)?;
        let within = |start: u64, count: u64, most| start.checked_add(count).is_some_and(|end| end <= most);
        if !within(self.x, shape.width, row)
            || !within(self.y, shape.height, rows)
            || !within(self.z, shape.depth, slices)
        {
            return fail(Code::INVALID_VALUE);
        }
        let slice = row * rows;
        let address = self.z * slice + self.y * row + self.x;
        Ok(Side { address, role: Role::Array(self.array), pitch: row, slice })
    }

    /// As a side.
    fn side(self, driver: &Driver, shape: &Shape, operand: &str) -> Answer<Side> {
        let (start, role) = match self.kind {
            HOST => (self.host, Role::Any),
            DEVICE => (self.device, Role::Device),
            UNIFIED => (self.device, Role::Any),
            ARRAY => return self.of_array(driver, shape),
            other => return refuse(Code::INVALID_VALUE, format!("Invalid memory type {other:#x}")),
        };
        let row = self.x.checked_add(shape.width).ok_or(Code::INVALID_VALUE)?;
        // Without a pitch, rows follow each other; so do slices without a height.
        let pitch = if self.pitch == 0 { row } else { self.pitch };
        let height = if self.height == 0 { shape.height } else { self.height };
        if pitch < row {
            return Err(Failure {
                code: Code::INVALID_VALUE,
                messages: vec![
                    "Pitch must be greater than copy width in bytes".into(),
                    format!("Invalid X finish position: Must be less than or equal to pitch, for {operand} operand")
                        .into(),
                ],
            });
        }
        if height < shape.height && shape.depth > 1 {
            return fail(Code::INVALID_VALUE);
        }
        let slice = pitch.checked_mul(height).ok_or(Code::INVALID_VALUE)?;
        let offset = |count: u64, step: u64| count.checked_mul(step).ok_or(Code::INVALID_VALUE);
        let distance = offset(self.z, slice)?
            .checked_add(offset(self.y, pitch)?)
            .and_then(|sum| sum.checked_add(self.x))
            .ok_or(Code::INVALID_VALUE)?;
        let address = start.checked_add(distance).ok_or(Code::INVALID_VALUE)?;
        Ok(Side { address, role, pitch, slice })
    }
}

fn rows(copy: CUDA_MEMCPY3D_v2, stream: Option<u64>) -> Answer {
    let shape = Shape { width: copy.WidthInBytes, height: copy.Height, depth: copy.Depth };
    let to = Corner {
        kind: copy.dstMemoryType,
        host: copy.dstHost,
        device: copy.dstDevice,
        array: copy.dstArray,
        pitch: copy.dstPitch,
        height: copy.dstHeight,
        x: copy.dstXInBytes,
        y: copy.dstY,
        z: copy.dstZ,
    };
    let from = Corner {
        kind: copy.srcMemoryType,
        host: copy.srcHost,
        device: copy.srcDevice,
        array: copy.srcArray,
        pitch: copy.srcPitch,
        height: copy.srcHeight,
        x: copy.srcXInBytes,
        y: copy.srcY,
        z: copy.srcZ,
    };
    transfer(stream, move |driver| {
        driver.copy(to.side(driver, &shape, "destination")?, from.side(driver, &shape, "source")?, shape)
    })
}

impl From<CUDA_MEMCPY2D_v2> for CUDA_MEMCPY3D_v2 {
    fn from(c: CUDA_MEMCPY2D_v2) -> Self {
        CUDA_MEMCPY3D_v2 {
            srcXInBytes: c.srcXInBytes,
            srcY: c.srcY,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: c.srcMemoryType,
            srcHost: c.srcHost,
            srcDevice: c.srcDevice,
            srcArray: c.srcArray,
            srcContext: 0,
            srcPitch: c.srcPitch,
            srcHeight: 0,
            dstXInBytes: c.dstXInBytes,
            dstY: c.dstY,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: c.dstMemoryType,
            dstHost: c.dstHost,
            dstDevice: c.dstDevice,
            dstArray: c.dstArray,
            dstContext: 0,
            dstPitch: c.dstPitch,
            dstHeight: 0,
            WidthInBytes: c.WidthInBytes,
            Height: c.Height,
            Depth: 1,
        }
    }
}

fn rows_2d<T: Copy + Into<CUDA_MEMCPY2D_v2>>(copy: In<T>, stream: Option<u64>) -> Answer {
    process::check()?;
    let copy: CUDA_MEMCPY2D_v2 = copy.required()?.into();
    rows(copy.into(), stream)
}

fn rows_3d<T: Copy + Into<CUDA_MEMCPY3D_v2>>(copy: In<T>, stream: Option<u64>) -> Answer {
    process::check()?;
    rows(copy.required()?.into(), stream)
}

/// The two contexts of a copy between peers have to exist; null is the current one.
fn rows_peer(copy: In<CUDA_MEMCPY3D_v2>, stream: Option<u64>) -> Answer {
    let copy = copy.required()?;
    check_contexts(copy.dstContext, copy.srcContext)?;
    rows(copy, stream)
}

fn check_contexts(to: u64, from: u64) -> Answer {
    let driver = process::enter()?;
    driver.context_or_current(to)?;
    driver.context_or_current(from).map(|_| ())
}

/// Writes the entries of one kind of copy: the forms of CUDA 3.2 and before, each also asynchronous.
macro_rules! one_way {
    ($old:ident $old_async:ident $new:ident $new_async:ident
     ($to:ident: $to_old:ty | $to_new:ty, $to_role:ident),
     ($from:ident: $from_old:ty | $from_new:ty, $from_role:ident)) => {
        entry! {
            fn $old($to: $to_old, $from: $from_old, ByteCount: u32) {
                flat((number($to), Role::$to_role), (number($from), Role::$from_role), ByteCount.into(), None)
            }

            fn $old_async($to: $to_old, $from: $from_old, ByteCount: u32, hStream: CUstream) {
                let to = (number($to), Role::$to_role);
                flat(to, (number($from), Role::$from_role), ByteCount.into(), Some(hStream))
            }

            fn $new($to: $to_new, $from: $from_new, ByteCount: usize) {
                flat((number($to), Role::$to_role), (number($from), Role::$from_role), ByteCount as u64, None)
            }

            fn $new_async($to: $to_new, $from: $from_new, ByteCount: usize, hStream: CUstream) {
                let to = (number($to), Role::$to_role);
                flat(to, (number($from), Role::$from_role), ByteCount as u64, Some(hStream))
            }
        }
    };
}

/// An address, however it came.
pub(super) trait Address {
    fn number(self) -> u64;
}
impl Address for u32 {
    fn number(self) -> u64 {
        self.into()
    }
}
impl Address for u64 {
    fn number(self) -> u64 {
        self
    }
}
impl<T> Address for In<T> {
    fn number(self) -> u64 {
        self.address()
    }
}
impl<T> Address for super::boundary::Out<T> {
    fn number(self) -> u64 {
        self.address()
    }
}
pub(super) fn number(address: impl Address) -> u64 {
    address.number()
}

one_way! {
    cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2
    (dstDevice: u32 | CUdeviceptr, Device), (srcHost: *const c_void | *const c_void, Any)
}
one_way! {
    cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2
    (dstHost: *mut c_void | *mut c_void, Any), (srcDevice: u32 | CUdeviceptr, Device)
}
one_way! {
    cuMemcpyDtoD cuMemcpyDtoDAsync cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2
    (dstDevice: u32 | CUdeviceptr, Device), (srcDevice: u32 | CUdeviceptr, Device)
}

entry! {
    fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) {
        flat((dst, Role::Any), (src, Role::Any), ByteCount as u64, None)
    }

    fn cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize, hStream: CUstream) {
        flat((dst, Role::Any), (src, Role::Any), ByteCount as u64, Some(hStream))
    }

    /// No access need be enabled: without it, the driver takes the bytes through the host.
    fn cuMemcpyPeer(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
    ) {
        check_contexts(dstContext, srcContext)?;
        flat((dstDevice, Role::Device), (srcDevice, Role::Device), ByteCount as u64, None)
    }

    fn cuMemcpyPeerAsync(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        check_contexts(dstContext, srcContext)?;
        flat((dstDevice, Role::Device), (srcDevice, Role::Device), ByteCount as u64, Some(hStream))
    }

    fn cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D_v1) {
        rows_2d(pCopy, None)
    }

    fn cuMemcpy2D_v2(pCopy: *const CUDA_MEMCPY2D_v2) {
        rows_2d(pCopy, None)
    }

    fn cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D_v1, hStream: CUstream) {
        rows_2d(pCopy, Some(hStream))
    }

    fn cuMemcpy2DAsync_v2(pCopy: *const CUDA_MEMCPY2D_v2, hStream: CUstream) {
        rows_2d(pCopy, Some(hStream))
    }

    fn cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D_v1) {
        rows_3d(pCopy, None)
    }

    fn cuMemcpy3D_v2(pCopy: *const CUDA_MEMCPY3D_v2) {
        rows_3d(pCopy, None)
    }

    fn cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D_v1, hStream: CUstream) {
        rows_3d(pCopy, Some(hStream))
    }

    fn cuMemcpy3DAsync_v2(pCopy: *const CUDA_MEMCPY3D_v2, hStream: CUstream) {
        rows_3d(pCopy, Some(hStream))
    }

    fn cuMemcpy3DPeer(pCopy: *const CUDA_MEMCPY3D_v2) {
        rows_peer(pCopy, None)
    }

    fn cuMemcpy3DPeerAsync(pCopy: *const CUDA_MEMCPY3D_v2, hStream: CUstream) {
        rows_peer(pCopy, Some(hStream))
    }
}
