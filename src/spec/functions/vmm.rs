//! Virtual memory management, memory pools, and multicast objects.

/// Hands the entries, and those of this file behind them, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_vmm_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_query_functions! { $callback; $($entries)*

/// Reserves a range of addresses, to which memory can be mapped.
fn cuMemAddressReserve(
    out ptr: *mut $crate::abi::CUdeviceptr,
    in size: usize,
    in alignment: usize,
    in addr: $crate::abi::CUdeviceptr,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Reservation(ptr) sized size at addr],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Gives a reserved range of addresses back.
fn cuMemAddressFree(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Reservation(ptr) sized size],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Allocates physical memory, which is used through a mapping.
fn cuMemCreate(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in size: usize,
    in_struct prop: *const $crate::abi::CUmemAllocationProp,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Allocation(handle) sized size of prop],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Releases one reference to an allocation; the memory stays while it is mapped, shared or imported somewhere.
fn cuMemRelease(
    in handle: $crate::abi::CUmemGenericAllocationHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Allocation(handle) on LastReference, Closes Allocation(handle)],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Maps an allocation to reserved addresses. Nobody has access before cuMemSetAccess.
fn cuMemMap(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in offset: usize,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Makes Mapping(ptr) sized size of handle at offset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED, ILLEGAL_STATE],
}

/// Unmaps all mappings in a range of addresses.
fn cuMemUnmap(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Ends Mapping(ptr) sized size],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Sets what devices may do with the mappings in a range of addresses.
fn cuMemSetAccess(
    in ptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in[count] desc: *const $crate::abi::CUmemAccessDesc,
    in count: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Grants Mapping(ptr) sized size to desc],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_SUPPORTED],
    seen: [NOT_INITIALIZED],
}

/// Queries what a device may do with the mapping at an address.
fn cuMemGetAccess(
    out flags: *mut u64,
    in_struct location: *const $crate::abi::CUmemLocation,
    in ptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(ptr) as flags],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Makes a handle of an allocation, for another process to import: a file descriptor, or a fabric handle.
fn cuMemExportToShareableHandle(
    out_handle[handleType] shareableHandle: *mut core::ffi::c_void,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Exports Allocation(handle) as shareableHandle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
    seen: [OPERATING_SYSTEM],
}

/// Imports an allocation of another process.
fn cuMemImportFromShareableHandle(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in_handle[shHandleType] osHandle: *mut core::ffi::c_void,
    in shHandleType: $crate::abi::CUmemAllocationHandleType,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Opens Allocation(handle) from osHandle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
    seen: [UNKNOWN, OPERATING_SYSTEM],
}

/// Gives the handle of the allocation that is mapped at an address, with one reference more.
fn cuMemRetainAllocationHandle(
    out handle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in addr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11000, simulated: Recorded,
    effects: [Retains Allocation(handle)],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries what an allocation is.
fn cuMemGetAllocationPropertiesFromHandle(
    out prop: *mut $crate::abi::CUmemAllocationProp,
    in handle: $crate::abi::CUmemGenericAllocationHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(handle) as prop],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries of what sizes allocations can be.
fn cuMemGetAllocationGranularity(
    out granularity: *mut usize,
    in_struct prop: *const $crate::abi::CUmemAllocationProp,
    in option: $crate::abi::CUmemAllocationGranularity_flags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Recorded,
    effects: [Asks Memory(prop) as granularity where option is 0],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Makes a handle of a range of addresses for other drivers: a dma-buf descriptor.
fn cuMemGetHandleForAddressRange(
    out handle: *mut i32,
    in dptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in handleType: $crate::abi::CUmemRangeHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11070, simulated: Documented,
    effects: [Asks Memory(dptr) as handle],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
}

/// Queries the pool that a device allocates from unless it is told otherwise.
fn cuDeviceGetDefaultMemPool(
    out pool_out: *mut $crate::abi::CUmemoryPool,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Asks Pool(dev) as pool_out],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE, INVALID_DEVICE, NOT_SUPPORTED],
}

/// Makes a memory pool, from which memory is allocated in the order of a stream.
fn cuMemPoolCreate(
    out pool: *mut $crate::abi::CUmemoryPool,
    in_struct poolProps: *const $crate::abi::CUmemPoolProps,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Makes Pool(pool) of poolProps],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, OUT_OF_MEMORY, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Destroys a pool, or gives up one that was imported; what is allocated of a pool stays until it is freed.
fn cuMemPoolDestroy(
    in pool: $crate::abi::CUmemoryPool,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Ends Pool(pool), Closes Pool(pool)],
    results: [SUCCESS, INVALID_VALUE],
    seen: [NOT_INITIALIZED],
}

/// Sets which devices reach the memory of a pool.
fn cuMemPoolSetAccess(
    in pool: $crate::abi::CUmemoryPool,
    in[count] map: *const $crate::abi::CUmemAccessDesc,
    in count: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Grants Pool(pool) to map],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED],
    seen: [INVALID_DEVICE],
}

/// Queries what a device may do with the memory of a pool.
fn cuMemPoolGetAccess(
    out flags: *mut $crate::abi::CUmemAccess_flags,
    in memPool: $crate::abi::CUmemoryPool,
    in_struct location: *mut $crate::abi::CUmemLocation,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Asks Pool(memPool) as flags],
    results: [SUCCESS, NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED],
}

/// Makes a handle of a pool, for another process to import: a file descriptor, or a fabric handle.
fn cuMemPoolExportToShareableHandle(
    out_handle[handleType] handle_out: *mut core::ffi::c_void,
    in pool: $crate::abi::CUmemoryPool,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Exports Pool(pool) as handle_out],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
    seen: [NOT_PERMITTED],
}

/// Imports a pool of another process. Nothing can be allocated of it; its memory is imported by cuMemPoolImportPointer.
fn cuMemPoolImportFromShareableHandle(
    out pool_out: *mut $crate::abi::CUmemoryPool,
    in_handle[handleType] handle: *mut core::ffi::c_void,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Opens Pool(pool_out) from handle],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
    seen: [NOT_SUPPORTED, UNKNOWN],
}

/// Names memory of a pool to those that have imported the pool.
fn cuMemPoolExportPointer(
    out shareData_out: *mut $crate::abi::CUmemPoolPtrExportData,
    in ptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Exports Pointer(ptr) as shareData_out],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
}

/// Imports memory of a pool that was imported; cuMemFree or cuMemFreeAsync gives it up.
fn cuMemPoolImportPointer(
    out ptr_out: *mut $crate::abi::CUdeviceptr,
    in pool: $crate::abi::CUmemoryPool,
    in_struct shareData: *mut $crate::abi::CUmemPoolPtrExportData,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Opens Pointer(ptr_out) from shareData of pool],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
}

/// Allocates memory of a pool in the order of a stream.
fn cuMemAllocFromPoolAsync(
    out dptr: *mut $crate::abi::CUdeviceptr,
    in bytesize: usize,
    in pool: $crate::abi::CUmemoryPool,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Makes Pointer(dptr) sized bytesize of pool],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT, NOT_SUPPORTED, OUT_OF_MEMORY],
    also: cuMemAllocFromPoolAsync_ptsz, since: 11020, simulated: Documented,
}

/// Makes a multicast object, to which devices are added and memory of theirs is bound; it is an allocation that is exported, mapped and released as others.
fn cuMulticastCreate(
    out mcHandle: *mut $crate::abi::CUmemGenericAllocationHandle,
    in_struct prop: *const $crate::abi::CUmulticastObjectProp,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Makes Allocation(mcHandle), Gathers Team(mcHandle) of prop],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Adds a device to a multicast object, for as long as the object lives.
fn cuMulticastAddDevice(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Joins Team(mcHandle) of dev],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED,
              NOT_SUPPORTED],
}

/// Binds an allocation of a device to a multicast object, once all devices have been added.
fn cuMulticastBindMem(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in mcOffset: usize,
    in memHandle: $crate::abi::CUmemGenericAllocationHandle,
    in memOffset: usize,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Binds Allocation(memHandle) from memOffset sized size to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds an allocation to a multicast object, for a device that is named.
fn cuMulticastBindMem_v2(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in memHandle: $crate::abi::CUmemGenericAllocationHandle,
    in memOffset: usize,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13010, simulated: Documented,
    effects: [Binds Allocation(memHandle) from memOffset sized size of dev to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds what is mapped at an address to a multicast object, once all devices have been added.
fn cuMulticastBindAddr(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in mcOffset: usize,
    in memptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Binds Mapping(memptr) sized size to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Binds what is mapped at an address to a multicast object, for a device that is named.
fn cuMulticastBindAddr_v2(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in memptr: $crate::abi::CUdeviceptr,
    in size: usize,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13010, simulated: Documented,
    effects: [Binds Mapping(memptr) sized size of dev to mcHandle at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED,
              OUT_OF_MEMORY, SYSTEM_NOT_READY, ILLEGAL_STATE, MULTICAST_RESOURCE_FULL],
}

/// Unbinds what a device has bound to a multicast object at an offset.
fn cuMulticastUnbind(
    in mcHandle: $crate::abi::CUmemGenericAllocationHandle,
    in dev: $crate::abi::CUdevice,
    in mcOffset: usize,
    in size: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Unbinds Team(mcHandle) sized size of dev at mcOffset],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

/// Queries of what sizes multicast objects and their parts can be.
fn cuMulticastGetGranularity(
    out granularity: *mut usize,
    in_struct prop: *const $crate::abi::CUmulticastObjectProp,
    in option: $crate::abi::CUmulticastGranularity_flags,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12010, simulated: Documented,
    effects: [Asks Team(prop) as granularity where option is 0],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, DEINITIALIZED, NOT_PERMITTED, NOT_SUPPORTED],
}

    } };
}
