//! Memory pools: what they are made of, and what stands for their memory in other processes.

use super::{CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation};
use core::ffi::c_void;

/// `CUmemoryPool`: a pool, of the process's own or imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUmemoryPool(pub *mut c_void);

/// `CUmemPoolProps`: what a pool is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemPoolProps {
    /// How its memory is bound to its place.
    pub allocType: CUmemAllocationType,
    /// Bits of [`CUmemAllocationHandleType`].
    pub handleTypes: CUmemAllocationHandleType,
    /// Where it lies.
    pub location: CUmemLocation,
    /// Null but on Windows.
    pub win32SecurityAttributes: *mut c_void,
    /// The most bytes that it gives out; 0 where only the device sets a limit.
    pub maxSize: usize,
    /// Bits of `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zeros.
    pub reserved: [u8; 54],
}

/// `CUmemPoolPtrExportData`: names memory of a pool to those that have imported the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemPoolPtrExportData {
    /// The bytes; the first four are the pid of the exporter (seen with driver 580).
    pub reserved: [u8; 64],
}

const _: () = {
    assert!(size_of::<CUmemPoolProps>() == 88 && align_of::<CUmemPoolProps>() == 8);
    assert!(size_of::<CUmemPoolPtrExportData>() == 64 && align_of::<CUmemPoolPtrExportData>() == 1);
};
