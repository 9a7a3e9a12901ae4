//! Virtual memory management: allocations, their locations, access to them, and handles for other processes.

use core::ffi::c_void;

/// `CUmemGenericAllocationHandle`: an allocation of `cuMemCreate`, or one that was imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUmemGenericAllocationHandle(pub u64);

/// `CUmemLocation`: location of memory: a device, the host, or a NUMA node of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemLocation {
    /// Kind of location, which determines the meaning of `id`: cuda.h's `type`.
    pub kind: CUmemLocationType,
    /// The ordinal of a device, or the number of a NUMA node.
    pub id: i32,
}

impl CUmemLocation {
    /// The `type` of a place that is a device: CU_MEM_LOCATION_TYPE_DEVICE.
    pub const DEVICE: i32 = 1;
}

/// `CUmemAccessDesc`: access of a location to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemAccessDesc {
    /// Location that gets access.
    pub location: CUmemLocation,
    /// Kind of access that the location gets.
    pub flags: CUmemAccess_flags,
}

/// `CUmemAllocationProp`: properties of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmemAllocationProp {
    /// Allocation type: cuda.h's `type`.
    pub kind: CUmemAllocationType,
    /// Bits of [`CUmemAllocationHandleType`].
    pub requestedHandleTypes: CUmemAllocationHandleType,
    /// Location of the memory.
    pub location: CUmemLocation,
    /// Null, except on Windows.
    pub win32HandleMetaData: *mut c_void,
    /// Further properties of the allocation.
    pub allocFlags: CUmemAllocationFlags,
}

/// The `allocFlags` of [`CUmemAllocationProp`], which have no name in cuda.h.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct CUmemAllocationFlags {
    /// CU_MEM_ALLOCATION_COMP_GENERIC, or 0.
    pub compressionType: u8,
    /// Nonzero if network cards must be able to access the memory.
    pub gpuDirectRDMACapable: u8,
    /// Bits of `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Reserved; must be zeros.
    pub reserved: [u8; 4],
}

enumerations! {
    /// `CUmemLocationType`: meaning of a location's number.
    CUmemLocationType: i32 {
        CU_MEM_LOCATION_TYPE_INVALID = 0,
        CU_MEM_LOCATION_TYPE_DEVICE = 1,
        CU_MEM_LOCATION_TYPE_HOST = 2,
        CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
    }
    /// `CUmemAllocationType`: kinds of allocations: pinned to their location, or managed.
    CUmemAllocationType: i32 {
        CU_MEM_ALLOCATION_TYPE_INVALID = 0,
        CU_MEM_ALLOCATION_TYPE_PINNED = 1,
        CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
    }
    /// `CUmemAllocationHandleType`: kinds of handles by which processes share memory. A set of kinds is the sum of
    /// their bits.
    CUmemAllocationHandleType: i32 {
        CU_MEM_HANDLE_TYPE_NONE = 0,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
        CU_MEM_HANDLE_TYPE_WIN32 = 2,
        CU_MEM_HANDLE_TYPE_WIN32_KMT = 4,
        CU_MEM_HANDLE_TYPE_FABRIC = 8,
    }
    /// `CUmemAccess_flags`: kinds of access to memory.
    CUmemAccess_flags: i32 {
        CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
        CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    }
    /// `CUmemAllocationGranularity_flags`: kinds of granularity.
    CUmemAllocationGranularity_flags: i32 {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    }
    /// `CUmemRangeHandleType`: kinds of handles for an address range.
    CUmemRangeHandleType: i32 {
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
    }
}

const _: () = {
    assert!(size_of::<CUmemLocation>() == 8 && size_of::<CUmemAccessDesc>() == 12);
    assert!(size_of::<CUmemAllocationProp>() == 32 && align_of::<CUmemAllocationProp>() == 8);
};
