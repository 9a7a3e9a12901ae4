//! Calls the driver of OVERHEAD_DRIVER, and writes each call as a JSON line of `tracing` to the file OVERHEAD_OUT:
//! what a record holds of it. One write a line, or with OVERHEAD_BUFFERED set, as many as fill a buffer.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Mutex, OnceLock};

type Function = unsafe extern "C" fn(*mut i32, i32, i32) -> i32;

static REAL: OnceLock<Function> = OnceLock::new();

fn real() -> Function {
    *REAL.get_or_init(|| {
        let file = File::create(std::env::var("OVERHEAD_OUT").unwrap()).unwrap();
        let file: Box<dyn Write + Send> = match std::env::var("OVERHEAD_BUFFERED") {
            Ok(_) => Box::new(BufWriter::new(file)),
            Err(_) => Box::new(file),
        };
        // The line carries the times of the call, and needs no other.
        tracing_subscriber::fmt()
            .json()
            .without_time()
            .with_thread_ids(true)
            .with_writer(Mutex::new(file))
            .init();
        let driver = CString::new(std::env::var("OVERHEAD_DRIVER").unwrap()).unwrap();
        // SAFETY: both texts end in NUL, and the driver has the function with this type.
        unsafe {
            let driver = libc::dlopen(driver.as_ptr(), libc::RTLD_NOW);
            let function = libc::dlsym(driver, c"cuDeviceCanAccessPeer".as_ptr());
            assert!(!function.is_null());
            std::mem::transmute::<*mut libc::c_void, Function>(function)
        }
    })
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) -> i32 {
    let real = real();
    // SAFETY: the arguments are the caller's; the counter may be read.
    let (start, result, end) = unsafe {
        let start = core::arch::x86_64::_rdtsc();
        let result = real(can, device, peer);
        (start, result, core::arch::x86_64::_rdtsc())
    };
    // SAFETY: written by the caller.
    let can = unsafe { *can };
    tracing::info!(function = "cuDeviceCanAccessPeer", can, device, peer, result, start, end);
    result
}
