//! Functions that use device memory and do nothing to what is shared: copies to and from the host, copies of rows, and
//! memsets. They are looked at only while this process has ranges of addresses that are gone, and recorded only where they
//! use one, or fail beside what was imported. Large synchronous ones to and from the host are recorded where the process shares memory.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_using_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_kernel_functions! { $callback; $($entries)*

/// Copies from the host to device memory.
fn cuMemcpyHtoD_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in srcHost: $crate::abi::HostAddress,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) from srcHost sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpyHtoD_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies from the host to device memory, in stream order.
fn cuMemcpyHtoDAsync_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in srcHost: $crate::abi::HostAddress,
    in ByteCount: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) from srcHost sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemcpyHtoDAsync_v2_ptsz, since: 7000, simulated: Documented,
}

/// Copies from device memory to the host.
fn cuMemcpyDtoH_v2(
    in dstHost: $crate::abi::HostAddress,
    in srcDevice: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(srcDevice) sized ByteCount to dstHost],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    seen: [CONTEXT_IS_DESTROYED],
    also: cuMemcpyDtoH_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies from device memory to the host, in stream order.
fn cuMemcpyDtoHAsync_v2(
    in dstHost: $crate::abi::HostAddress,
    in srcDevice: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(srcDevice) sized ByteCount to dstHost],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemcpyDtoHAsync_v2_ptsz, since: 7000, simulated: Documented,
}

/// Sets device memory, as bytes.
fn cuMemsetD8_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in uc: u8,
    in N: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) sized N of uc],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD8_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets device memory, as bytes, in stream order.
fn cuMemsetD8Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in uc: u8,
    in N: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized N of uc],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD8Async_ptsz, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as bytes.
fn cuMemsetD2D8_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in uc: u8,
    in Width: usize,
    in Height: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) sized Width of uc to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD2D8_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as bytes, in stream order.
fn cuMemsetD2D8Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in uc: u8,
    in Width: usize,
    in Height: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized Width of uc to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD2D8Async_ptsz, since: 7000, simulated: Documented,
}

/// Sets device memory, as 16-bit numbers.
fn cuMemsetD16_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in us: u16,
    in N: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) sized N of us],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD16_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets device memory, as 16-bit numbers, in stream order.
fn cuMemsetD16Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in us: u16,
    in N: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized N of us],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD16Async_ptsz, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as 16-bit numbers.
fn cuMemsetD2D16_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in us: u16,
    in Width: usize,
    in Height: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized Width of us to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD2D16_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as 16-bit numbers, in stream order.
fn cuMemsetD2D16Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in us: u16,
    in Width: usize,
    in Height: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized Width of us to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD2D16Async_ptsz, since: 7000, simulated: Documented,
}

/// Sets device memory, as 32-bit numbers.
fn cuMemsetD32_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in ui: u32,
    in N: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) sized N of ui],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD32_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets device memory, as 32-bit numbers, in stream order.
fn cuMemsetD32Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in ui: u32,
    in N: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized N of ui],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD32Async_ptsz, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as 32-bit numbers.
fn cuMemsetD2D32_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in ui: u32,
    in Width: usize,
    in Height: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized Width of ui to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemsetD2D32_v2_ptds, since: 7000, simulated: Documented,
}

/// Sets rows of device memory, as 32-bit numbers, in stream order.
fn cuMemsetD2D32Async(
    in dstDevice: $crate::abi::CUdeviceptr,
    in dstPitch: usize,
    in ui: u32,
    in Width: usize,
    in Height: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(dstDevice) sized Width of ui to Height at dstPitch],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemsetD2D32Async_ptsz, since: 7000, simulated: Documented,
}

/// Copies rows.
fn cuMemcpy2D_v2(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY2D_v2,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpy2D_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies rows, in stream order.
fn cuMemcpy2DAsync_v2(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY2D_v2,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemcpy2DAsync_v2_ptsz, since: 7000, simulated: Documented,
}

/// Copies rows of any pitch.
fn cuMemcpy2DUnaligned_v2(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY2D_v2,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpy2DUnaligned_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies slices of rows.
fn cuMemcpy3D_v2(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY3D_v2,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpy3D_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies slices of rows, in stream order.
fn cuMemcpy3DAsync_v2(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY3D_v2,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemcpy3DAsync_v2_ptsz, since: 7000, simulated: Documented,
}

/// Copies slices of rows between two contexts.
fn cuMemcpy3DPeer(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY3D_PEER,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpy3DPeer_ptds, since: 7000, simulated: Documented,
}

/// Copies slices of rows between two contexts, in stream order.
fn cuMemcpy3DPeerAsync(
    in_struct pCopy: *const $crate::abi::CUDA_MEMCPY3D_PEER,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Documented,
    effects: [Uses Memory(pCopy)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuMemcpy3DPeerAsync_ptsz, since: 7000, simulated: Documented,
}

/// Does several copies, in stream order.
fn cuMemcpyBatchAsync(
    in dsts: $crate::abi::HostAddress,
    in srcs: $crate::abi::HostAddress,
    in sizes: $crate::abi::HostAddress,
    in count: usize,
    in attrs: $crate::abi::HostAddress,
    in[numAttrs] attrsIdxs: *const usize,
    in numAttrs: usize,
    in failIdx: $crate::abi::HostAddress,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12080, simulated: Documented,
    effects: [UsesEach Memory(dsts, srcs) sized sizes to count],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuMemcpyBatchAsync_ptsz, since: 12080, simulated: Documented,
}

/// Does several copies, in stream order.
fn cuMemcpyBatchAsync_v2(
    in dsts: $crate::abi::HostAddress,
    in srcs: $crate::abi::HostAddress,
    in sizes: $crate::abi::HostAddress,
    in count: usize,
    in attrs: $crate::abi::HostAddress,
    in[numAttrs] attrsIdxs: *const usize,
    in numAttrs: usize,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Documented,
    effects: [UsesEach Memory(dsts, srcs) sized sizes to count],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuMemcpyBatchAsync_v2_ptsz, since: 13000, simulated: Documented,
}

/// Does several copies of slices of rows, in stream order.
fn cuMemcpy3DBatchAsync(
    in numOps: usize,
    in opList: $crate::abi::HostAddress,
    in failIdx: $crate::abi::HostAddress,
    in flags: u64,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12080, simulated: Documented,
    effects: [UsesEach Memory(opList) to numOps],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuMemcpy3DBatchAsync_ptsz, since: 12080, simulated: Documented,
}

/// Does several copies of slices of rows, in stream order.
fn cuMemcpy3DBatchAsync_v2(
    in numOps: usize,
    in opList: $crate::abi::HostAddress,
    in flags: u64,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Documented,
    effects: [UsesEach Memory(opList) to numOps],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuMemcpy3DBatchAsync_v2_ptsz, since: 13000, simulated: Documented,
}

/// Copies from device memory into an array.
fn cuMemcpyDtoA_v2(
    in dstArray: $crate::abi::HostAddress,
    in dstOffset: usize,
    in srcDevice: $crate::abi::CUdeviceptr,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(srcDevice) sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpyDtoA_v2_ptds, since: 7000, simulated: Documented,
}

/// Copies from an array to device memory.
fn cuMemcpyAtoD_v2(
    in dstDevice: $crate::abi::CUdeviceptr,
    in srcArray: $crate::abi::HostAddress,
    in srcOffset: usize,
    in ByteCount: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Uses Memory(dstDevice) sized ByteCount],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
    also: cuMemcpyAtoD_v2_ptds, since: 7000, simulated: Documented,
}

/// Moves managed memory to a device ahead of its use, in stream order.
fn cuMemPrefetchAsync(
    in devPtr: $crate::abi::CUdeviceptr,
    in count: usize,
    in dstDevice: i32,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 8000, simulated: Recorded,
    effects: [Uses Memory(devPtr) sized count],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE],
    also: cuMemPrefetchAsync_ptsz, since: 8000, simulated: Documented,
}

/// Moves managed memory to a place ahead of its use, in stream order.
fn cuMemPrefetchAsync_v2(
    in devPtr: $crate::abi::CUdeviceptr,
    in count: usize,
    in location: $crate::abi::CUmemLocation,
    in flags: u32,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12020, simulated: Documented,
    effects: [Uses Memory(devPtr) sized count],
    results: [SUCCESS, INVALID_VALUE, INVALID_DEVICE],
    also: cuMemPrefetchAsync_v2_ptsz, since: 12020, simulated: Documented,
}

/// Launches a kernel, in stream order.
fn cuLaunchKernel(
    in f: $crate::abi::CUfunction,
    in gridDimX: u32,
    in gridDimY: u32,
    in gridDimZ: u32,
    in blockDimX: u32,
    in blockDimY: u32,
    in blockDimZ: u32,
    in sharedMemBytes: u32,
    in hStream: $crate::abi::CUstream,
    in kernelParams: $crate::abi::HostAddress,
    in extra: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 4000, simulated: Inferred,
    effects: [Launches Function(f) from kernelParams of extra],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE,
              LAUNCH_FAILED, LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT, LAUNCH_INCOMPATIBLE_TEXTURING, SHARED_OBJECT_INIT_FAILED, NOT_FOUND],
    also: cuLaunchKernel_ptsz, since: 7000, simulated: Inferred,
}

/// Launches a kernel whose blocks wait for each other, in stream order.
fn cuLaunchCooperativeKernel(
    in f: $crate::abi::CUfunction,
    in gridDimX: u32,
    in gridDimY: u32,
    in gridDimZ: u32,
    in blockDimX: u32,
    in blockDimY: u32,
    in blockDimZ: u32,
    in sharedMemBytes: u32,
    in hStream: $crate::abi::CUstream,
    in kernelParams: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 9000, simulated: Inferred,
    effects: [Launches Function(f) from kernelParams],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE,
              LAUNCH_FAILED, LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT, LAUNCH_INCOMPATIBLE_TEXTURING, COOPERATIVE_LAUNCH_TOO_LARGE,
              SHARED_OBJECT_INIT_FAILED],
    also: cuLaunchCooperativeKernel_ptsz, since: 9000, simulated: Inferred,
}

/// Launches a kernel as a structure says, in stream order.
fn cuLaunchKernelEx(
    in config: $crate::abi::HostAddress,
    in f: $crate::abi::CUfunction,
    in kernelParams: $crate::abi::HostAddress,
    in extra: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11060, simulated: Inferred,
    effects: [Launches Function(f) from kernelParams of extra],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE,
              LAUNCH_FAILED, LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT, LAUNCH_INCOMPATIBLE_TEXTURING, COOPERATIVE_LAUNCH_TOO_LARGE,
              SHARED_OBJECT_INIT_FAILED, NOT_FOUND],
    also: cuLaunchKernelEx_ptsz, since: 11060, simulated: Inferred,
}

    } };
}
