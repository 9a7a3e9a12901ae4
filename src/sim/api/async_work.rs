//! Functions of the program that run in the order of a stream, on a thread of the driver's.

use crate::abi::{CUhostFn, CUstreamCallback};
use crate::engine::answer::fail;
use crate::engine::driver::Call;
use crate::engine::process;
use core::mem;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// The function of the program at an address, or null.
///
/// # Safety
///
/// `F` is an optional function pointer, and the program passed a function of this type, or null.
unsafe fn function<F>(address: u64) -> F {
    const { assert!(size_of::<F>() == size_of::<u64>()) };
    // SAFETY: as promised.
    unsafe { mem::transmute_copy(&address) }
}

entry! {
    fn cuStreamAddCallback | cuStreamAddCallback_ptsz(
        hStream: CUstream,
        callback: HostAddress,
        userData: HostAddress,
        flags: u32,
    ) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        // SAFETY: the caller of the C function promises that it is such a function, or null.
        let callback: CUstreamCallback = unsafe { function(callback) };
        let Some(callback) = callback.filter(|_| flags == 0) else { return fail(Code::INVALID_VALUE) };
        driver.call(&stream, Call::Stream(callback, hStream, userData))
    }

    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz(hStream: CUstream, hostFn: HostAddress, userData: HostAddress) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        // SAFETY: the caller of the C function promises that it is such a function, or null.
        let called: CUhostFn = unsafe { function(hostFn) };
        let Some(called) = called else { return fail(Code::INVALID_VALUE) };
        driver.call(&stream, Call::Host(called, userData))
    }
}
