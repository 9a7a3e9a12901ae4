//! C types that only the simulated driver needs, as cuda.h lays them out: structures and opaque handles beyond
//! [`cupeer_spec::abi`].

// Names of types and fields are as cuda.h spells them.
#![allow(non_camel_case_types, non_snake_case)]

use core::ffi::{c_char, c_void};
use cupeer_spec::abi::CUcontext;

/// `CUuuid`: UUID of a device.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUuuid {
    pub bytes: [u8; 16],
}

/// `CUdevprop`, which `cuDeviceGetProperties` fills: the device attributes 1 to 14, from
/// CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK to CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUdevprop(pub [i32; 14]);

/// `CUctxCreateParams`: parameters for the creation of a context.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUctxCreateParams {
    pub execAffinityParams: *mut c_void,
    pub numExecAffinityParams: i32,
    pub cigParams: *mut c_void,
}

/// `CUexecAffinityParam`, of which the simulated driver fills the number of multiprocessors.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUexecAffinityParam {
    pub kind: i32,
    pub smCount: u32,
}

/// `CUstreamAttrValue`, whose content depends on the attribute.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct CUstreamAttrValue {
    pub bytes: [u8; 64],
}

/// `CUstreamBatchMemOpParams`: a union, whose first word has the operation.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUstreamBatchMemOpParams {
    pub words: [u64; 6],
}

/// `CUDA_ARRAY_DESCRIPTOR`: shape and format of an array with at most two dimensions.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_ARRAY_DESCRIPTOR {
    pub Width: u64,
    pub Height: u64,
    pub Format: i32,
    pub NumChannels: u32,
}

pub(crate) use crate::engine::driver::ArrayDescriptor as CUDA_ARRAY3D_DESCRIPTOR;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`: parameters and result of an instantiation of a graph.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: u64,
    pub hUploadStream: *mut c_void,
    pub hErrNode_out: *mut c_void,
    pub result_out: i32,
}

/// `CUlaunchConfig`: shape, stream, and attributes of a kernel launch.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUlaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub sharedMemBytes: u32,
    pub hStream: *mut c_void,
    pub attrs: *mut c_void,
    pub numAttrs: u32,
}

/// `CUstreamCallback`: a function that receives a stream, a result code, and a pointer of the program. The
/// function may unwind when it ends its thread.
pub(crate) type CUstreamCallback = Option<unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void)>;

/// `CUhostFn`: a function that receives a pointer of the program. The function may unwind when it ends its
/// thread.
pub(crate) type CUhostFn = Option<unsafe extern "C-unwind" fn(*mut c_void)>;

/// `CUlogsCallback`: function of the program that receives each line of the driver's log.
pub(crate) type CUlogsCallback = Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_char, usize)>;

const _: () = {
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR>() == 24 && size_of::<CUDA_ARRAY3D_DESCRIPTOR>() == 40);
    assert!(size_of::<CUlaunchConfig>() == 56);
    assert!(size_of::<CUstreamAttrValue>() == 64);
    assert!(size_of::<CUdevprop>() == 56 && size_of::<CUctxCreateParams>() == 24);
    assert!(size_of::<CUcontext>() == 8);
};
