//! Memory pools: their properties, and the export data of their pointers.

use super::{CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation};
use core::ffi::c_void;

/// `CUmemoryPool`: a pool, of the process's own or imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUmemoryPool(pub *mut c_void);

/// `CUmemPoolProps`: properties of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemPoolProps {
    /// Allocation type.
    pub allocType: CUmemAllocationType,
    /// Bits of [`CUmemAllocationHandleType`].
    pub handleTypes: CUmemAllocationHandleType,
    /// Location of the memory.
    pub location: CUmemLocation,
    /// Null, except on Windows.
    pub win32SecurityAttributes: *mut c_void,
    /// Limit on the memory of the pool in bytes; 0 if only the device limits it.
    pub maxSize: usize,
    /// Bits of `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Reserved; must be zeros.
    pub reserved: [u8; 54],
}

/// `CUmemPoolPtrExportData`: names memory of a pool for processes that imported the pool.
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
