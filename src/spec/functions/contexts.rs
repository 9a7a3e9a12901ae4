//! Functions that create contexts. None of them is recorded unless somebody asks for it: what they created is noted at the next call
//! that shares something.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_context_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_allocating_functions! { $callback; $($entries)*

/// Creates a context on a device.
fn cuCtxCreate_v2(
    out pctx: *mut $crate::abi::CUcontext,
    in flags: u32,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Makes Context(pctx) of dev],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN],
}

/// Creates a context on a device, with a limit of the multiprocessors that it uses.
fn cuCtxCreate_v3(
    out pctx: *mut $crate::abi::CUcontext,
    in paramsArray: $crate::abi::HostAddress,
    in numParams: i32,
    in flags: u32,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11040, simulated: Documented,
    effects: [Makes Context(pctx) of dev],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, OUT_OF_MEMORY,
              UNSUPPORTED_EXEC_AFFINITY, UNKNOWN],
}

/// Creates a context on a device, with parameters.
fn cuCtxCreate_v4(
    out pctx: *mut $crate::abi::CUcontext,
    in ctxCreateParams: $crate::abi::HostAddress,
    in flags: u32,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12050, simulated: Recorded,
    effects: [Makes Context(pctx) of dev],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED,
              OUT_OF_MEMORY, UNKNOWN],
}

/// Retains the primary context of a device; creates it if it does not exist.
fn cuDevicePrimaryCtxRetain(
    out pctx: *mut $crate::abi::CUcontext,
    in dev: $crate::abi::CUdevice,
) -> $crate::abi::CUresult {
    library: Cuda, since: 7000, simulated: Recorded,
    effects: [Retains Primary(pctx)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_DEVICE, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN],
}

    } };
}
