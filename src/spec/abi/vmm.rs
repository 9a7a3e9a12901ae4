//! Virtual memory management: allocations, where they lie, who may access them, and handles that leave the process.

use core::ffi::c_void;

/// `CUmemGenericAllocationHandle`: an allocation of `cuMemCreate`, or one that was imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUmemGenericAllocationHandle(pub u64);

/// `CUmemLocation`: a place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemLocation {
    /// What `id` is: cuda.h's `type`.
    pub kind: CUmemLocationType,
    /// The ordinal of a device, or the number of a NUMA node.
    pub id: i32,
}

impl CUmemLocation {
    /// The `type` of a place that is a device: CU_MEM_LOCATION_TYPE_DEVICE.
    pub const DEVICE: i32 = 1;
}

/// `CUmemAccessDesc`: what a place may do with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemAccessDesc {
    /// Who.
    pub location: CUmemLocation,
    /// What.
    pub flags: CUmemAccess_flags,
}

/// `CUmemAllocationProp`: what an allocation is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemAllocationProp {
    /// cuda.h's `type`.
    pub kind: CUmemAllocationType,
    /// Bits of [`CUmemAllocationHandleType`].
    pub requestedHandleTypes: CUmemAllocationHandleType,
    /// Where it lies.
    pub location: CUmemLocation,
    /// Null but on Windows.
    pub win32HandleMetaData: *mut c_void,
    /// Further properties.
    pub allocFlags: CUmemAllocationFlags,
}

/// The `allocFlags` of [`CUmemAllocationProp`], which have no name in cuda.h.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct CUmemAllocationFlags {
    /// CU_MEM_ALLOCATION_COMP_GENERIC, or 0.
    pub compressionType: u8,
    /// Whether network cards are to reach it.
    pub gpuDirectRDMACapable: u8,
    /// Bits of `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zeros.
    pub reserved: [u8; 4],
}

enumerations! {
    /// `CUmemLocationType`: what the number of a place is.
    CUmemLocationType: i32 {
        CU_MEM_LOCATION_TYPE_INVALID = 0,
        CU_MEM_LOCATION_TYPE_DEVICE = 1,
        CU_MEM_LOCATION_TYPE_HOST = 2,
        CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
    }
    /// `CUmemAllocationType`: how an allocation is bound to its place.
    CUmemAllocationType: i32 {
        CU_MEM_ALLOCATION_TYPE_INVALID = 0,
        CU_MEM_ALLOCATION_TYPE_PINNED = 1,
        CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
    }
    /// `CUmemAllocationHandleType`: how memory leaves the process; several are the sum of their bits.
    CUmemAllocationHandleType: i32 {
        CU_MEM_HANDLE_TYPE_NONE = 0,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
        CU_MEM_HANDLE_TYPE_WIN32 = 2,
        CU_MEM_HANDLE_TYPE_WIN32_KMT = 4,
        CU_MEM_HANDLE_TYPE_FABRIC = 8,
    }
    /// `CUmemAccess_flags`: what may be done with memory.
    CUmemAccess_flags: i32 {
        CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
        CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    }
    /// `CUmemAllocationGranularity_flags`: which granularity is asked for.
    CUmemAllocationGranularity_flags: i32 {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    }
    /// `CUmemRangeHandleType`: which handle of an address range is asked for.
    CUmemRangeHandleType: i32 {
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
    }
}

const _: () = {
    assert!(size_of::<CUmemLocation>() == 8 && size_of::<CUmemAccessDesc>() == 12);
    assert!(size_of::<CUmemAllocationProp>() == 32 && align_of::<CUmemAllocationProp>() == 8);
};
