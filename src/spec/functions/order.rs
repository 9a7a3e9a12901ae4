//! Functions that put the work of streams in order, and those by which a program learns that work is done. None of them is recorded
//! before a process shares memory; then those that come after an access to it, and that succeed.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_order_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_more_functions! { $callback; $($entries)*

/// Waits until the work of a stream is done.
fn cuStreamSynchronize(
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Completes Stream(hStream)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE],
    also: cuStreamSynchronize_ptsz, since: 7000, simulated: Documented,
}

/// Asks whether the work of a stream is done.
fn cuStreamQuery(
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Completes Stream(hStream)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY],
    also: cuStreamQuery_ptsz, since: 7000, simulated: Documented,
}

/// Has the later work of a stream wait for an event.
fn cuStreamWaitEvent(
    in hStream: $crate::abi::CUstream,
    in hEvent: $crate::abi::CUevent,
    in Flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 3020, simulated: Recorded,
    effects: [Follows Event(hEvent) of hStream],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE],
    seen: [INVALID_VALUE],
    also: cuStreamWaitEvent_ptsz, since: 7000, simulated: Documented,
}

/// Destroys a stream, whose work goes on.
fn cuStreamDestroy(
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Documented,
    effects: [Drops Stream(hStream)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE],
    also: cuStreamDestroy_v2, since: 4000, simulated: Recorded,
}

/// Waits until what came before the last record of an event is done.
fn cuEventSynchronize(
    in hEvent: $crate::abi::CUevent,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Completes Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE],
}

/// Asks whether what came before the last record of an event is done.
fn cuEventQuery(
    in hEvent: $crate::abi::CUevent,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Completes Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_HANDLE, INVALID_VALUE, NOT_READY],
}

/// Waits until the work of the current context is done.
fn cuCtxSynchronize() -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Completes Current()],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT],
    seen: [CONTEXT_IS_DESTROYED],
}

/// Waits until the work of a context is done.
fn cuCtxSynchronize_v2(
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Documented,
    effects: [Completes Context(ctx)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
}

/// Has the later work of a stream wait for a value of 32 bits in memory.
fn cuStreamWaitValue32(
    in stream: $crate::abi::CUstream,
    in addr: $crate::abi::CUdeviceptr,
    in value: u32,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 8000, simulated: Documented,
    effects: [Awaits Value(addr, value) of stream],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    also: cuStreamWaitValue32_ptsz, since: 8000, simulated: Documented,
    also: cuStreamWaitValue32_v2, since: 11070, simulated: Documented,
    also: cuStreamWaitValue32_v2_ptsz, since: 11070, simulated: Documented,
}

/// Writes a value of 32 bits to memory, in stream order.
fn cuStreamWriteValue32(
    in stream: $crate::abi::CUstream,
    in addr: $crate::abi::CUdeviceptr,
    in value: u32,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 8000, simulated: Documented,
    effects: [Signals Value(addr, value) of stream],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    also: cuStreamWriteValue32_ptsz, since: 8000, simulated: Documented,
    also: cuStreamWriteValue32_v2, since: 11070, simulated: Documented,
    also: cuStreamWriteValue32_v2_ptsz, since: 11070, simulated: Documented,
}

/// Has the later work of a stream wait for a value of 64 bits in memory.
fn cuStreamWaitValue64(
    in stream: $crate::abi::CUstream,
    in addr: $crate::abi::CUdeviceptr,
    in value: u64,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 9000, simulated: Documented,
    effects: [Awaits Value(addr, value) of stream],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    also: cuStreamWaitValue64_ptsz, since: 9000, simulated: Documented,
    also: cuStreamWaitValue64_v2, since: 11070, simulated: Documented,
    also: cuStreamWaitValue64_v2_ptsz, since: 11070, simulated: Documented,
}

/// Writes a value of 64 bits to memory, in stream order.
fn cuStreamWriteValue64(
    in stream: $crate::abi::CUstream,
    in addr: $crate::abi::CUdeviceptr,
    in value: u64,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 9000, simulated: Documented,
    effects: [Signals Value(addr, value) of stream],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    also: cuStreamWriteValue64_ptsz, since: 9000, simulated: Documented,
    also: cuStreamWriteValue64_v2, since: 11070, simulated: Documented,
    also: cuStreamWriteValue64_v2_ptsz, since: 11070, simulated: Documented,
}

/// Has a stream wait for values in memory, and write some.
fn cuStreamBatchMemOp(
    in stream: $crate::abi::CUstream,
    in count: u32,
    in paramArray: $crate::abi::HostAddress,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 8000, simulated: Documented,
    effects: [Posts Values(paramArray) of stream to count],
    results: [SUCCESS, INVALID_VALUE, NOT_SUPPORTED],
    also: cuStreamBatchMemOp_ptsz, since: 8000, simulated: Documented,
    also: cuStreamBatchMemOp_v2, since: 11070, simulated: Documented,
    also: cuStreamBatchMemOp_v2_ptsz, since: 11070, simulated: Documented,
}

/// Calls a function of the program, in stream order.
fn cuLaunchHostFunc(
    in hStream: $crate::abi::CUstream,
    in function: $crate::abi::HostAddress,
    in userData: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10000, simulated: Recorded,
    effects: [Runs Host(function) of hStream],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, NOT_SUPPORTED],
    seen: [INVALID_VALUE],
    also: cuLaunchHostFunc_ptsz, since: 10000, simulated: Documented,
}

/// Calls a function of the program when the work of a stream is done.
fn cuStreamAddCallback(
    in hStream: $crate::abi::CUstream,
    in callback: $crate::abi::HostAddress,
    in userData: $crate::abi::HostAddress,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 5000, simulated: Documented,
    effects: [Runs Host(callback) of hStream],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, NOT_SUPPORTED],
    also: cuStreamAddCallback_ptsz, since: 7000, simulated: Documented,
}

    } };
}
