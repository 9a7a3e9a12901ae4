//! Functions that no driver has, for the test that an entry of the table is all that has to be written for a function that
//! shares: with the feature `more-functions` they stand behind the others. Their arguments are in another order than those
//! of the real ones, so that whoever counts on that order is found.

/// Hands the entries, and those of this file where they are wanted, to the macro `$callback`.
#[cfg(not(feature = "more-functions"))]
#[doc(hidden)]
#[macro_export]
macro_rules! with_more_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_both_forms! { $callback; $($entries)* } };
}

#[cfg(feature = "more-functions")]
#[doc(hidden)]
#[macro_export]
macro_rules! with_more_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_both_forms! { $callback; $($entries)*

/// Makes a handle of an allocation.
fn cuCupeerExport(
    in flags: u32,
    in address: $crate::abi::CUdeviceptr,
    out shared: *mut $crate::abi::CUipcMemHandle,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Inferred,
    effects: [Exports Memory(address) as shared],
    results: [SUCCESS, INVALID_HANDLE, INVALID_VALUE],
}

/// Maps an allocation of another process.
fn cuCupeerOpen(
    in shared: $crate::abi::CUipcMemHandle,
    in flags: u32,
    out address: *mut $crate::abi::CUdeviceptr,
) -> $crate::abi::CUresult {
    library: Cuda, since: 13000, simulated: Inferred,
    effects: [Opens Memory(address) from shared where flags is 1],
    results: [SUCCESS, MAP_FAILED, INVALID_HANDLE, INVALID_VALUE],
}

    } };
}
