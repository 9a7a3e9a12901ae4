//! Functions of the program that run in the order of a stream: at once, on the calling thread, without the
//! driver's lock.

use super::boundary::{Out, stream_handle};
use crate::abi::{CUhostFn, CUstreamCallback};
use crate::engine::answer::fail;
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

entry! {
    fn cuStreamAddCallback(
        hStream: CUstream,
        callback: CUstreamCallback,
        userData: *mut c_void,
        flags: u32,
    ) {
        process::enter()?.stream(hStream)?;
        let Some(callback) = callback.filter(|_| flags == 0) else { return fail(Code::INVALID_VALUE) };
        let stream = stream_handle(hStream);
        // SAFETY: the caller of the C function promises a function of this type that takes this pointer.
        unsafe { callback(stream, CUresult(Code::SUCCESS as i32), pointer(userData)) };
        Ok(())
    }

    fn cuLaunchHostFunc(hStream: CUstream, function: CUhostFn, userData: *mut c_void) {
        process::enter()?.stream(hStream)?;
        let Some(function) = function else { return fail(Code::INVALID_VALUE) };
        // SAFETY: as above.
        unsafe { function(pointer(userData)) };
        Ok(())
    }
}

/// The pointer that the program gave for its function, as it gave it.
fn pointer(data: Out<c_void>) -> *mut c_void {
    data.address() as *mut c_void
}
