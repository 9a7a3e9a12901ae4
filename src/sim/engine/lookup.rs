//! `cuGetProcAddress`: names and versions to functions.

use super::answer::{Answer, invalid};
use core::ffi::c_void;
use core::ptr::null_mut;
use cupeer_spec::abi::{CUdriverProcAddressQueryResult as Status, ProcAddressFlags};
use cupeer_spec::others::OtherFn;

/// Version of CUDA that the simulated driver implements, as `cuDriverGetVersion` returns it.
pub(crate) const DRIVER_VERSION: i32 = 13000;

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, which selects the form of a function whose stream 0 is the
/// calling thread's own stream. Lower flags have no effect.
const PER_THREAD_STREAM: u64 = 2;

/// CU_GET_PROC_ADDRESS_SUCCESS.
pub(crate) const FOUND: Status = Status(0);
/// CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND.
const NO_SUCH_NAME: Status = Status(1);
/// CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT.
const TOO_OLD: Status = Status(2);

/// Finds the newest function with a name that exists in this version of CUDA, in the requested form. Returns a null
/// pointer if there is none.
pub(crate) fn find_function<A: Iterator<Item = (OtherFn, *mut c_void)>>(
    all: impl Fn() -> A,
    name: &[u8],
    version: i32,
    flags: ProcAddressFlags,
) -> Answer<(Status, *mut c_void)> {
    if version > DRIVER_VERSION {
        return invalid(format!("cudaVersion argument ({version}) exceeds the driver version ({DRIVER_VERSION})"));
    }
    if flags.0 > PER_THREAD_STREAM {
        return invalid(format!("Invalid flags: {:#x}", flags.0));
    }
    let named = || all().filter(|(f, _)| !f.lookup.is_empty() && f.lookup.as_bytes() == name);
    // If a name has a per-thread form, only its per-thread forms are searched.
    let per_thread = flags.0 == PER_THREAD_STREAM && named().any(|(f, _)| f.is_per_thread());
    // As recorded, a negative version finds the newest function.
    let newest = named()
        .filter(|(f, _)| f.is_per_thread() == per_thread && f.since <= (version as u32).min(DRIVER_VERSION as u32))
        .max_by_key(|(f, _)| f.since);
    Ok(match newest {
        Some((_, address)) => (FOUND, address),
        None if named().next().is_some() => (TOO_OLD, null_mut()),
        None => (NO_SUCH_NAME, null_mut()),
    })
}
