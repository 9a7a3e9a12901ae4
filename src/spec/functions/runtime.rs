//! The part of the table for functions of the CUDA runtime. A call is seen if a program makes it in a shared
//! libcudart, and appears as the maker of the driver's calls behind it. Runtime calls are never changed.
//!
//! [`crate::runtime`] names the driver functions that each of them calls. The functions have no effects,
//! because the driver's functions have them.

/// Hands the entries, those of this file, and what stands behind them to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_runtime_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_using_functions! { $callback; $($entries)*

/// Queries whether a device can access memory of another device directly.
fn cudaDeviceCanAccessPeer(
    out canAccessPeer: *mut i32,
    in device: i32,
    in peerDevice: i32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_DEVICE],
}

/// Queries an attribute of the link between two devices.
fn cudaDeviceGetP2PAttribute(
    out value: *mut i32,
    in attr: $crate::abi::cudaDeviceP2PAttr,
    in srcDevice: i32,
    in dstDevice: i32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_DEVICE, INVALID_VALUE],
}

/// Queries which atomic operations the link between two devices supports natively.
fn cudaDeviceGetP2PAtomicCapabilities(
    out[count] capabilities: *mut u32,
    in[count] operations: *const $crate::abi::cudaAtomicOperation,
    in count: u32,
    in srcDevice: i32,
    in dstDevice: i32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_DEVICE, INVALID_VALUE],
}

/// Lets the current device access all allocations of a peer device, in this direction only.
fn cudaDeviceEnablePeerAccess(
    in peerDevice: i32,
    in flags: u32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_DEVICE, PEER_ACCESS_ALREADY_ENABLED, INVALID_VALUE],
}

/// Revokes the access that cudaDeviceEnablePeerAccess gave.
fn cudaDeviceDisablePeerAccess(
    in peerDevice: i32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, PEER_ACCESS_NOT_ENABLED, INVALID_DEVICE],
}

/// Creates a handle of an allocation, for another process to open.
fn cudaIpcGetMemHandle(
    out handle: *mut $crate::abi::cudaIpcMemHandle_t,
    in devPtr: $crate::abi::CUdeviceptr,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, OUT_OF_MEMORY, MAP_FAILED, NOT_SUPPORTED, INVALID_VALUE],
}

/// Maps an allocation of another process.
fn cudaIpcOpenMemHandle(
    out devPtr: *mut $crate::abi::CUdeviceptr,
    in handle: $crate::abi::cudaIpcMemHandle_t,
    in flags: u32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, MAP_FAILED, INVALID_HANDLE, INVALID_CONTEXT, TOO_MANY_PEERS, NOT_SUPPORTED, INVALID_VALUE],
}

/// Releases one reference to a mapping; the last one unmaps it.
fn cudaIpcCloseMemHandle(
    in devPtr: $crate::abi::CUdeviceptr,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, MAP_FAILED, NOT_SUPPORTED, INVALID_VALUE],
}

/// Creates a handle of an event, for another process to open.
fn cudaIpcGetEventHandle(
    out handle: *mut $crate::abi::cudaIpcEventHandle_t,
    in event: $crate::abi::CUevent,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_HANDLE, OUT_OF_MEMORY, MAP_FAILED, NOT_SUPPORTED, INVALID_VALUE],
}

/// Opens an event of another process; cudaEventDestroy closes it.
fn cudaIpcOpenEventHandle(
    out event: *mut $crate::abi::CUevent,
    in handle: $crate::abi::cudaIpcEventHandle_t,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, MAP_FAILED, NOT_SUPPORTED, INVALID_VALUE, INVALID_CONTEXT],
}

/// Makes a shareable handle of a pool: a descriptor, for another process to import.
fn cudaMemPoolExportToShareableHandle(
    out_handle[handleType] shareableHandle: *mut core::ffi::c_void,
    in memPool: $crate::abi::CUmemoryPool,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Imports a pool of another process.
fn cudaMemPoolImportFromShareableHandle(
    out memPool: *mut $crate::abi::CUmemoryPool,
    in_handle[handleType] shareableHandle: *mut core::ffi::c_void,
    in handleType: $crate::abi::CUmemAllocationHandleType,
    in flags: u32,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Names memory of a pool to those that have imported the pool.
fn cudaMemPoolExportPointer(
    out exportData: *mut $crate::abi::CUmemPoolPtrExportData,
    in ptr: $crate::abi::CUdeviceptr,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Imports memory of a pool that was imported; cudaFree or cudaFreeAsync gives it up.
fn cudaMemPoolImportPointer(
    out ptr: *mut $crate::abi::CUdeviceptr,
    in memPool: $crate::abi::CUmemoryPool,
    in_struct exportData: *mut $crate::abi::CUmemPoolPtrExportData,
) -> $crate::abi::cudaError_t {
    library: Cudart, since: 0, simulated: Absent,
    effects: [],
    results: [SUCCESS, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY],
}

    } };
}
