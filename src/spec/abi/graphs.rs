//! The structures of the nodes of graphs.

use super::{CUcontext, CUdeviceptr, CUfunction, CUkernel, CUmemPoolProps};
use core::ffi::c_void;

/// `CUDA_KERNEL_NODE_PARAMS` in the form of CUDA 12. The earlier form ends before the field `kern`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS {
    /// Kernel that the node launches.
    pub func: CUfunction,
    /// Number of blocks in each dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block in each dimension.
    pub block: [u32; 3],
    /// Number of bytes of shared memory per block.
    pub sharedMemBytes: u32,
    /// Array with a pointer to each parameter of the kernel.
    pub kernelParams: *const *const c_void,
    /// Other form of the parameters: a buffer with all of them.
    pub extra: *const *const c_void,
    /// Kernel that the node launches, if `func` is null.
    pub kern: CUkernel,
    /// Context in which the kernel `kern` runs.
    pub ctx: CUcontext,
}

/// `CUDA_MEMSET_NODE_PARAMS`: parameters of a node that sets memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS {
    /// Address of the memory that the node sets.
    pub dst: CUdeviceptr,
    /// Distance in bytes from one row to the next.
    pub pitch: usize,
    /// Value of each element.
    pub value: u32,
    /// Size of an element in bytes.
    pub elementSize: u32,
    /// Number of elements per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: parameters of a node that allocates memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS {
    /// Properties of the memory.
    pub poolProps: CUmemPoolProps,
    /// Descriptors of the devices that get access to the memory.
    pub accessDescs: *const c_void,
    /// Number of descriptors in `accessDescs`.
    pub accessDescCount: usize,
    /// Size of the memory in bytes.
    pub bytesize: usize,
    /// Address that the memory will have.
    pub dptr: CUdeviceptr,
}

/// `CUgraphNodeType`: type of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUgraphNodeType(pub i32);

impl CUgraphNodeType {
    /// Node that launches a kernel.
    pub const KERNEL: CUgraphNodeType = CUgraphNodeType(0);
    /// Node that copies memory.
    pub const MEMCPY: CUgraphNodeType = CUgraphNodeType(1);
    /// Node that sets memory.
    pub const MEMSET: CUgraphNodeType = CUgraphNodeType(2);
    /// Node that calls a function of the program.
    pub const HOST: CUgraphNodeType = CUgraphNodeType(3);
    /// Node that runs another graph.
    pub const GRAPH: CUgraphNodeType = CUgraphNodeType(4);
    /// Node that does nothing.
    pub const EMPTY: CUgraphNodeType = CUgraphNodeType(5);
    /// Node that allocates memory.
    pub const MEM_ALLOC: CUgraphNodeType = CUgraphNodeType(10);
}

const _: () = {
    assert!(size_of::<CUDA_KERNEL_NODE_PARAMS>() == 72 && size_of::<CUDA_MEMSET_NODE_PARAMS>() == 40);
    assert!(size_of::<CUDA_MEM_ALLOC_NODE_PARAMS>() == 120);
};
