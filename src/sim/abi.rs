//! C types that only the simulated driver needs, as cuda.h lays them out.
//!
//! What belongs here: structures and opaque handles beyond [`cupeer_spec::abi`]. What does not: behaviour.

// Names of types and fields are as cuda.h spells them.
#![allow(non_camel_case_types, non_snake_case)]

use core::ffi::{c_char, c_void};
use cupeer_spec::abi::CUcontext;

/// `CUuuid`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUuuid {
    pub bytes: [u8; 16],
}

/// `CUdevprop`: what `cuDeviceGetProperties` fills.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUdevprop {
    pub maxThreadsPerBlock: i32,
    pub maxThreadsDim: [i32; 3],
    pub maxGridSize: [i32; 3],
    pub sharedMemPerBlock: i32,
    pub totalConstantMemory: i32,
    pub SIMDWidth: i32,
    pub memPitch: i32,
    pub regsPerBlock: i32,
    pub clockRate: i32,
    pub textureAlign: i32,
}

/// `CUctxCreateParams`.
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

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemLocation {
    pub kind: i32,
    pub id: i32,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemAccessDesc {
    pub location: CUmemLocation,
    pub flags: i32,
}

/// `CUmemPoolProps`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUmemPoolProps {
    pub allocType: i32,
    pub handleTypes: i32,
    pub location: CUmemLocation,
    pub win32SecurityAttributes: *mut c_void,
    pub maxSize: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// `CUstreamAttrValue`: what it holds depends on the attribute.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct CUstreamAttrValue {
    pub bytes: [u8; 64],
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_ARRAY_DESCRIPTOR {
    pub Width: usize,
    pub Height: usize,
    pub Format: i32,
    pub NumChannels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_ARRAY3D_DESCRIPTOR {
    pub Width: usize,
    pub Height: usize,
    pub Depth: usize,
    pub Format: i32,
    pub NumChannels: u32,
    pub Flags: u32,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: u64,
    pub hUploadStream: *mut c_void,
    pub hErrNode_out: *mut c_void,
    pub result_out: i32,
}

/// `CUlaunchConfig`.
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

/// `CUmemoryPool`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CUmemoryPool(pub *mut c_void);

/// `CUstreamCallback`, whose stream and result are a pointer and a number. It may end its thread, as below.
pub(crate) type CUstreamCallback = Option<unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void)>;

/// `CUhostFn`.
pub(crate) type CUhostFn = Option<unsafe extern "C-unwind" fn(*mut c_void)>;

/// `CUlogsCallback`.
pub(crate) type CUlogsCallback = Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_char, usize)>;

/// Declares a copy structure twice: in the form of CUDA 3.2, with 64-bit sizes and device addresses, and in
/// the form before it, with 32-bit ones.
macro_rules! copy_structures {
    ($(#[$doc:meta])* $new:ident, $old:ident { $($field:ident: $kind:ident,)* }) => {
        copy_structures!(@one u64, $(#[$doc])* $new { $($field: $kind,)* });
        copy_structures!(@one u32, $(#[$doc])* $old { $($field: $kind,)* });

        impl From<$old> for $new {
            // Some fields are as wide in both.
            #[allow(clippy::useless_conversion)]
            fn from(old: $old) -> $new {
                $new { $($field: old.$field.into(),)* }
            }
        }
    };
    (@one $word:ident, $(#[$doc:meta])* $name:ident { $($field:ident: $kind:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name { $(pub $field: copy_structures!(@type $word $kind),)* }
    };
    (@type $word:ident word) => { $word };
    (@type $word:ident kind) => { i32 };
    (@type $word:ident pointer) => { u64 };
}
copy_structures! {
    /// `CUDA_MEMCPY2D`. Pointers are numbers here: nobody follows them before they are checked.
    CUDA_MEMCPY2D_v2, CUDA_MEMCPY2D_v1 {
        srcXInBytes: word, srcY: word,
        srcMemoryType: kind, srcHost: pointer, srcDevice: word, srcArray: pointer, srcPitch: word,
        dstXInBytes: word, dstY: word,
        dstMemoryType: kind, dstHost: pointer, dstDevice: word, dstArray: pointer, dstPitch: word,
        WidthInBytes: word, Height: word,
    }
}
copy_structures! {
    /// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`, in which the reserved fields are the contexts.
    CUDA_MEMCPY3D_v2, CUDA_MEMCPY3D_v1 {
        srcXInBytes: word, srcY: word, srcZ: word, srcLOD: word,
        srcMemoryType: kind, srcHost: pointer, srcDevice: word, srcArray: pointer, srcContext: pointer,
        srcPitch: word, srcHeight: word,
        dstXInBytes: word, dstY: word, dstZ: word, dstLOD: word,
        dstMemoryType: kind, dstHost: pointer, dstDevice: word, dstArray: pointer, dstContext: pointer,
        dstPitch: word, dstHeight: word,
        WidthInBytes: word, Height: word, Depth: word,
    }
}

const _: () = {
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR>() == 24 && size_of::<CUDA_ARRAY3D_DESCRIPTOR>() == 40);
    assert!(size_of::<CUlaunchConfig>() == 56);
    assert!(size_of::<CUmemPoolProps>() == 88 && size_of::<CUstreamAttrValue>() == 64);
    assert!(size_of::<CUdevprop>() == 56 && size_of::<CUctxCreateParams>() == 24);
    assert!(size_of::<CUDA_MEMCPY2D_v2>() == 128 && size_of::<CUDA_MEMCPY2D_v1>() == 96);
    assert!(size_of::<CUDA_MEMCPY3D_v2>() == 200 && size_of::<CUDA_MEMCPY3D_v1>() == 144);
    assert!(size_of::<CUcontext>() == 8 && size_of::<CUmemAccessDesc>() == 12);
};
