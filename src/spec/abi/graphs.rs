//! The structures of the nodes of graphs.

use super::{CUcontext, CUdeviceptr, CUfunction, CUkernel, CUmemPoolProps};
use core::ffi::c_void;

/// `CUDA_KERNEL_NODE_PARAMS` in the form of CUDA 12; the one before it ends in front of `kern`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// The kernel.
    pub func: CUfunction,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Number of threads per block.
    pub block: [u32; 3],
    /// The bytes of shared memory of each.
    pub sharedMemBytes: u32,
    /// A pointer for each parameter.
    pub kernelParams: *const *const c_void,
    /// Other form of the parameters.
    pub extra: *const *const c_void,
    /// The kernel, if `func` is null.
    pub kern: CUkernel,
    /// The context in which that runs.
    pub ctx: CUcontext,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// Destination.
    pub dst: CUdeviceptr,
    /// From one row to the next.
    pub pitch: usize,
    /// Value of each element.
    pub value: u32,
    /// The size of an element.
    pub elementSize: u32,
    /// Number of elements per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// Properties of the memory.
    pub poolProps: CUmemPoolProps,
    /// Devices that get access.
    pub accessDescs: *const c_void,
    /// Number of these descriptors.
    pub accessDescCount: usize,
    /// The size of the memory.
    pub bytesize: usize,
    /// Address that the memory will have.
    pub dptr: CUdeviceptr,
}

/// `CUgraphNodeType`: type of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUgraphNodeType(pub i32);

impl CUgraphNodeType {
    /// Launches a kernel.
    pub const KERNEL: CUgraphNodeType = CUgraphNodeType(0);
    /// Copies.
    pub const MEMCPY: CUgraphNodeType = CUgraphNodeType(1);
    /// Sets memory.
    pub const MEMSET: CUgraphNodeType = CUgraphNodeType(2);
    /// Calls a function of the program.
    pub const HOST: CUgraphNodeType = CUgraphNodeType(3);
    /// Runs another graph.
    pub const GRAPH: CUgraphNodeType = CUgraphNodeType(4);
    /// Does nothing.
    pub const EMPTY: CUgraphNodeType = CUgraphNodeType(5);
    /// Allocates memory.
    pub const MEM_ALLOC: CUgraphNodeType = CUgraphNodeType(10);
}

const _: () = {
    assert!(size_of::<CUDA_KERNEL_NODE_PARAMS>() == 72 && size_of::<CUDA_MEMSET_NODE_PARAMS>() == 40);
    assert!(size_of::<CUDA_MEM_ALLOC_NODE_PARAMS>() == 120);
};
