//! The runtime's result codes: those about sharing, and those of calls about sharing. From CUDA 10.1 on, a
//! code that the driver also has has the driver's number and text.

use super::{Result, ResultSpec};
use crate::group::Library;

macro_rules! runtimes {
    ($($name:ident: $result:ident,)* { $($number:literal $only:ident $string:literal $meaning:literal)* } $($more:ident: $same:ident,)*) => {
        /// The codes in ascending order.
        pub static RESULTS: &[ResultSpec] = &[
            $(of(Result::$result as i32),)*
            $(of($number),)*
            $(of(Result::$same as i32),)*
        ];

        crate::texts!(
            /// The name, the string, and the meaning of each code. The last two are empty if they are the
            /// driver's.
            pub(super) static TEXTS = &[
                $(concat!(stringify!($name), "\0"), "", "",)*
                $(concat!(stringify!($only), "\0"), $string, $meaning,)*
                $(concat!(stringify!($more), "\0"), "", "",)*
            ]
        );
    };
}
runtimes! {
    cudaSuccess: SUCCESS,
    cudaErrorInvalidValue: INVALID_VALUE,
    cudaErrorMemoryAllocation: OUT_OF_MEMORY,
    cudaErrorInitializationError: NOT_INITIALIZED,
    cudaErrorCudartUnloading: DEINITIALIZED,
    {
        35 cudaErrorInsufficientDriver "CUDA driver version is insufficient for CUDA runtime version\0"
            "The installed driver is older than the CUDA runtime library, or there is none."
    }
    cudaErrorNoDevice: NO_DEVICE,
    cudaErrorInvalidDevice: INVALID_DEVICE,
    cudaErrorDeviceUninitialized: INVALID_CONTEXT,
    cudaErrorMapBufferObjectFailed: MAP_FAILED,
    cudaErrorUnmapBufferObjectFailed: UNMAP_FAILED,
    cudaErrorAlreadyMapped: ALREADY_MAPPED,
    cudaErrorPeerAccessUnsupported: PEER_ACCESS_UNSUPPORTED,
    cudaErrorNvlinkUncorrectable: NVLINK_UNCORRECTABLE,
    cudaErrorOperatingSystem: OPERATING_SYSTEM,
    cudaErrorInvalidResourceHandle: INVALID_HANDLE,
    cudaErrorIllegalState: ILLEGAL_STATE,
    cudaErrorSymbolNotFound: NOT_FOUND,
    cudaErrorNotReady: NOT_READY,
    cudaErrorIllegalAddress: ILLEGAL_ADDRESS,
    cudaErrorPeerAccessAlreadyEnabled: PEER_ACCESS_ALREADY_ENABLED,
    cudaErrorPeerAccessNotEnabled: PEER_ACCESS_NOT_ENABLED,
    cudaErrorContextIsDestroyed: CONTEXT_IS_DESTROYED,
    cudaErrorTooManyPeers: TOO_MANY_PEERS,
    cudaErrorLaunchFailure: LAUNCH_FAILED,
    cudaErrorNotPermitted: NOT_PERMITTED,
    cudaErrorNotSupported: NOT_SUPPORTED,
    cudaErrorSystemDriverMismatch: SYSTEM_DRIVER_MISMATCH,
    cudaErrorTimeout: TIMEOUT,
    cudaErrorUnknown: UNKNOWN,
}

const fn of(number: i32) -> ResultSpec {
    ResultSpec { library: Library::Cudart, number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend() {
        assert!(RESULTS.is_sorted_by(|one, next| one.number < next.number));
    }
}
