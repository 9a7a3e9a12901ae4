//! Functions that allocate device memory. Programs call them all the time: most allocations are only counted, and a large one is recorded.
//!
//! An entry says `sized PITCH at ROWS` where it allocates so many rows of that many bytes, and `of FLAGS` where the memory moves
//! between devices and the host.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_allocating_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_order_functions! { $callback; $($entries)*

/// Allocates device memory.
fn cuMemAlloc(
    out dptr: *mut u32,
    in bytesize: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Makes Memory(dptr) sized bytesize],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Allocates device memory.
fn cuMemAlloc_v2(
    out dptr: *mut $crate::abi::CUdeviceptr,
    in bytesize: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Makes Memory(dptr) sized bytesize],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY],
    seen: [CONTEXT_IS_DESTROYED],
}

/// Allocates rows of device memory, each padded to a pitch.
fn cuMemAllocPitch(
    out dptr: *mut u32,
    out pPitch: *mut u32,
    in WidthInBytes: u32,
    in Height: u32,
    in ElementSizeBytes: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Makes Memory(dptr) sized pPitch at Height],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Allocates rows of device memory, each padded to a pitch.
fn cuMemAllocPitch_v2(
    out dptr: *mut $crate::abi::CUdeviceptr,
    out pPitch: *mut usize,
    in WidthInBytes: usize,
    in Height: usize,
    in ElementSizeBytes: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Makes Memory(dptr) sized pPitch at Height],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Allocates managed memory, which moves between devices and the host.
fn cuMemAllocManaged(
    out dptr: *mut $crate::abi::CUdeviceptr,
    in bytesize: usize,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 6000, simulated: Recorded,
    effects: [Makes Memory(dptr) sized bytesize of flags],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, NOT_SUPPORTED, INVALID_VALUE, OUT_OF_MEMORY],
}

/// Allocates memory of the current pool of a stream's device, in stream order.
fn cuMemAllocAsync(
    out dptr: *mut $crate::abi::CUdeviceptr,
    in bytesize: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11020, simulated: Recorded,
    effects: [Makes Pointer(dptr) sized bytesize],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY],
    also: cuMemAllocAsync_ptsz, since: 11020, simulated: Documented,
}

    } };
}
