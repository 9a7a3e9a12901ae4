//! Functions of the program that run in the order of a stream, on a thread of the driver's.

use crate::abi::{CUhostFn, CUstreamCallback};
use crate::engine::answer::fail;
use crate::engine::driver::Call;
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
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        let Some(callback) = callback.filter(|_| flags == 0) else { return fail(Code::INVALID_VALUE) };
        driver.call(&stream, Call::Stream(callback, hStream, userData.address()))
    }

    fn cuLaunchHostFunc(hStream: CUstream, function: CUhostFn, userData: *mut c_void) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        let Some(function) = function else { return fail(Code::INVALID_VALUE) };
        driver.call(&stream, Call::Host(function, userData.address()))
    }
}
