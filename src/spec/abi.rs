//! The C types of the driver and of NVML, as far as the functions of the table use them.
//!
//! The types cross the C boundary, with the size and alignment that cuda.h and nvml.h give them. Types that
//! only the simulated driver needs are in `src/sim/abi.rs`.

// Names are as cuda.h spells them.
#![allow(non_camel_case_types)]

use core::ffi::c_void;

/// `CUresult`: result of a driver function. A plain integer, because a newer driver may return codes that
/// [`crate::results`] does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUresult(pub i32);

/// `CUdevice`: an ordinal into the devices that CUDA_VISIBLE_DEVICES leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUdevice(pub i32);

/// `CUdeviceptr`: an address in the unified address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CUdeviceptr(pub u64);

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub struct $name(pub *mut c_void);
    )*};
}
handles! {
    /// `CUcontext`: a context, opaque.
    CUcontext
    /// `CUevent`: an event, opaque.
    CUevent
    /// `CUstream`: a stream, opaque; the values 0, 1 and 2 name the default streams.
    CUstream
    /// An address that need not be device memory: host memory, or any address that the driver accepts.
    HostAddress
    /// `CUfunction`: a kernel in a context, opaque. Launches take a `CUkernel` in its place.
    CUfunction
    /// `CUkernel`: a kernel of a library, opaque.
    CUkernel
    /// `CUmodule`: a module, opaque.
    CUmodule
    /// `CUlibrary`: a library of kernels, opaque.
    CUlibrary
    /// `CUgraph`: a graph, opaque.
    CUgraph
    /// `CUgraphExec`: a graph that can be launched, opaque.
    CUgraphExec
    /// `CUgraphNode`: a node of a graph, opaque.
    CUgraphNode
    /// A function pointer that `cuGetProcAddress` handed out.
    FunctionPointer
}

/// `CUipcMemHandle`: 64 bytes that open an allocation of another process. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUipcMemHandle {
    /// Bytes of the handle, whose meaning only the driver knows.
    pub reserved: [u8; 64],
}

/// `CUipcEventHandle`: 64 bytes that open an event of another process. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CUipcEventHandle {
    /// Bytes of the handle, whose meaning only the driver knows.
    pub reserved: [u8; 64],
}

/// Declares a C enumeration as an integer with names for the values that cuda.h lists.
macro_rules! enumerations {
    ($($(#[$doc:meta])* $name:ident: $int:ty { $($value:ident = $number:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub struct $name(pub $int);
        impl $name {
            /// Values in the header, with their names.
            pub const VALUES: &'static [($int, &'static str)] = &[$(($number, stringify!($value)),)*];
            /// Returns the name of this value in the header.
            pub fn name(self) -> Option<&'static str> {
                Self::VALUES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
            }
        }
    )*};
}
mod attribute;
#[allow(non_snake_case)]
mod copies;
#[allow(non_snake_case)]
mod graphs;
#[allow(non_snake_case)]
mod multicast;
#[allow(non_snake_case)]
mod nvml;
#[allow(non_snake_case)]
mod pools;
mod runtime;
#[allow(non_snake_case)]
mod vmm;

pub use attribute::CUdevice_attribute;
pub use copies::*;
pub use graphs::*;
pub use multicast::*;
pub use nvml::*;
pub use pools::*;
pub use runtime::*;
pub use vmm::*;

enumerations! {
    /// `CUdevice_P2PAttribute`: attributes of the link between two devices.
    CUdevice_P2PAttribute: i32 {
        CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
        CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
        CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
        CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 4,
        CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5,
    }
    /// `CUatomicOperation`: an atomic operation over a link.
    CUatomicOperation: i32 {
        CU_ATOMIC_OPERATION_INTEGER_ADD = 0,
        CU_ATOMIC_OPERATION_INTEGER_MIN = 1,
        CU_ATOMIC_OPERATION_INTEGER_MAX = 2,
        CU_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
        CU_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
        CU_ATOMIC_OPERATION_AND = 5,
        CU_ATOMIC_OPERATION_OR = 6,
        CU_ATOMIC_OPERATION_XOR = 7,
        CU_ATOMIC_OPERATION_EXCHANGE = 8,
        CU_ATOMIC_OPERATION_CAS = 9,
        CU_ATOMIC_OPERATION_FLOAT_ADD = 10,
        CU_ATOMIC_OPERATION_FLOAT_MIN = 11,
        CU_ATOMIC_OPERATION_FLOAT_MAX = 12,
    }
    /// `CUdriverProcAddressQueryResult`: result of a lookup by `cuGetProcAddress`: success, or why it found nothing.
    CUdriverProcAddressQueryResult: i32 {
        CU_GET_PROC_ADDRESS_SUCCESS = 0,
        CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
        CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
    }
    /// The `Flags` of `cuIpcOpenMemHandle`.
    IpcMemFlags: u32 {
        CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
    }
    /// The `flags` of `cuGetProcAddress`.
    ProcAddressFlags: u64 {
        CU_GET_PROC_ADDRESS_DEFAULT = 0,
        CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
    }
}

const _: () = {
    assert!(size_of::<CUresult>() == 4 && size_of::<CUdevice>() == 4 && size_of::<CUdeviceptr>() == 8);
    assert!(size_of::<CUcontext>() == 8 && size_of::<CUevent>() == 8);
    assert!(size_of::<CUipcMemHandle>() == 64 && align_of::<CUipcMemHandle>() == 1);
    assert!(size_of::<CUipcEventHandle>() == 64 && align_of::<CUipcEventHandle>() == 1);
};
