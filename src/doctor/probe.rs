//! Loads a driver and describes it, in a child process, because a driver may crash.
//!
//! Writes each fact as a line of JSON as soon as it is known, so that a crash loses none.

use super::child::print_json_line;
use anyhow::Result;
use cupeer_nvidia::{find, load};
use cupeer_spec::abi::CUdriverProcAddressQueryResult;
use cupeer_spec::function::{FUNCTIONS, Library};
use cupeer_spec::results;
use libloading::os::unix::Library as Handle;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::process::ExitCode;

#[derive(Serialize, Deserialize, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    /// The driver could not be loaded, for the reason that the dynamic loader gives.
    NotLoaded(String),
    /// Path of the driver that was loaded.
    Path(String),
    /// Result of cuDriverGetVersion, and the version that it returned.
    Version(i32, i32),
    NoVersion,
    /// A function in cupeer's table of driver functions.
    Function {
        name: String,
        /// True if dlsym finds the function in the driver.
        exported: bool,
        /// Result of cuGetProcAddress for the function, and the status that it wrote; `None` if the driver
        /// has no cuGetProcAddress.
        lookup: Option<(i32, i32)>,
    },
}

/// Returns the name of a result of the driver, or its number if it has no name.
pub fn result_name(number: i32) -> String {
    results::find_spec(number).map_or(number.to_string(), |result| result.name().to_owned())
}

type GetVersion = unsafe extern "C" fn(*mut c_int) -> i32;
type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> i32;
type GetProcAddressV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut i32) -> i32;

/// Examines the driver in this process: the command of the child.
pub fn command() -> Result<ExitCode> {
    let driver = match load(Library::Cuda) {
        Ok(driver) => driver,
        Err(reason) => return print_json_line(&ProbeResult::NotLoaded(reason)),
    };
    let init = find(&driver, "cuInit").or_else(|| find(&driver, FUNCTIONS[0].name()));
    print_json_line(&ProbeResult::Path(
        init.and_then(library_path_of).unwrap_or_else(|| Library::Cuda.soname().to_owned()),
    ))?;
    print_json_line(&query_driver_version(&driver))?;
    for function in FUNCTIONS.iter().filter(|f| f.library == Library::Cuda) {
        print_json_line(&ProbeResult::Function {
            name: function.name().to_owned(),
            exported: find(&driver, function.name()).is_some(),
            lookup: call_get_proc_address(&driver, function.lookup(), function.since),
        })?;
    }
    // The driver stays loaded, because it may crash when it is unloaded.
    std::mem::forget(driver);
    Ok(ExitCode::SUCCESS)
}

fn library_path_of(address: *mut c_void) -> Option<String> {
    // SAFETY: all-zero bytes are a valid Dl_info, which dladdr fills; the name that it gives is a text of
    // the loader that lives as long as the library, which nobody unloads.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    }
}

fn query_driver_version(driver: &Handle) -> ProbeResult {
    let Some(address) = find(driver, "cuDriverGetVersion") else { return ProbeResult::NoVersion };
    let mut number = 0;
    // SAFETY: cuda.h declares the function so, and it may be called before cuInit.
    let result = unsafe { std::mem::transmute::<*mut c_void, GetVersion>(address)(&mut number) };
    ProbeResult::Version(result, number)
}

fn call_get_proc_address(driver: &Handle, name: &str, since: u32) -> Option<(i32, i32)> {
    let name = CString::new(name).ok()?;
    let since = c_int::try_from(since).ok()?;
    let mut address = std::ptr::null_mut();
    let mut status = CUdriverProcAddressQueryResult::VALUES[0].0;
    if let Some(function) = find(driver, "cuGetProcAddress_v2") {
        // SAFETY: cuda.h declares the function so, and it may be called before cuInit.
        let function = unsafe { std::mem::transmute::<*mut c_void, GetProcAddressV2>(function) };
        // SAFETY: the name is NUL-terminated, and both outputs are there.
        let result = unsafe { function(name.as_ptr(), &mut address, since, 0, &mut status) };
        return Some((result, status));
    }
    let function = find(driver, "cuGetProcAddress")?;
    // SAFETY: cuda.h of CUDA 11 declares the function so, and it may be called before cuInit.
    let function = unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(function) };
    // SAFETY: the name is NUL-terminated, and the output is there.
    let result = unsafe { function(name.as_ptr(), &mut address, since, 0) };
    Some((result, status))
}
