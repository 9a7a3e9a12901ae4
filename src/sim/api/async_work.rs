//! Functions of the program that run in the order of a stream, on a thread of the driver.

use super::boundary::with_stream;
use crate::abi::{CUhostFn, CUstreamCallback};
use crate::engine::driver::ProgramCall;
use core::mem;
use cupeer_spec::results::Result as Code;

/// Converts an address to a function pointer of the program; null becomes `None`.
///
/// # Safety
///
/// `F` is an optional function pointer, and the program passed a function of this type, or null.
unsafe fn to_function_pointer<F>(address: u64) -> F {
    const { assert!(size_of::<F>() == size_of::<u64>()) };
    // SAFETY: as promised.
    unsafe { mem::transmute_copy(&address) }
}

forward! {
    cuStreamAddCallback | cuStreamAddCallback_ptsz(hStream, callback, userData, flags) =
        with_stream(hStream, |driver, stream| {
            // SAFETY: the caller of the C function promises that it is such a function, or null.
            let callback: CUstreamCallback = unsafe { to_function_pointer(callback) };
            let callback = callback.filter(|_| flags == 0).ok_or(Code::INVALID_VALUE)?;
            driver.call_in_order(stream, ProgramCall::Stream(callback, hStream, userData))
        });
    cuLaunchHostFunc | cuLaunchHostFunc_ptsz(hStream, hostFn, userData) =
        with_stream(hStream, |driver, stream| {
            // SAFETY: the caller of the C function promises that it is such a function, or null.
            let called: CUhostFn = unsafe { to_function_pointer(hostFn) };
            driver.call_in_order(stream, ProgramCall::Host(called.ok_or(Code::INVALID_VALUE)?, userData))
        });
}
