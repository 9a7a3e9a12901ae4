//! Functions that record CUDA events in streams. Only calls that fail are recorded.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_event_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_context_functions! { $callback; $($entries)*

/// Records an event in a stream.
fn cuEventRecord(
    in hEvent: $crate::abi::CUevent,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Recorded,
    effects: [Records Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE],
    also: cuEventRecord_ptsz, since: 7000, simulated: Documented,
}

/// Records an event in a stream, with flags.
fn cuEventRecordWithFlags(
    in hEvent: $crate::abi::CUevent,
    in hStream: $crate::abi::CUstream,
    in flags: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11010, simulated: Documented,
    effects: [Records Event(hEvent)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE],
    also: cuEventRecordWithFlags_ptsz, since: 11010, simulated: Documented,
}

    } };
}
