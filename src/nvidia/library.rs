//! NVIDIA's libraries, loaded into this process, and calls of their functions by name.

use cupeer_spec::function::Library;
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::mem::ManuallyDrop;

/// Loads a library of NVIDIA's into this process; returns the dynamic loader's message if that fails.
pub fn load(library: Library) -> Result<Handle, String> {
    // SAFETY: runs the library's constructors, as any program that uses it does.
    unsafe { Handle::open(Some(library.soname()), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })
}

/// Returns the address of a function of a library; `None` if the library does not have the function.
pub fn find(driver: &Handle, name: &str) -> Option<*mut c_void> {
    // SAFETY: the type is that of any address; nothing is called through it here.
    let symbol = unsafe { driver.get::<*mut c_void>(name.as_bytes()) }.ok()?;
    let address: *mut c_void = symbol.into_raw();
    (!address.is_null()).then_some(address)
}

/// Calls a function of a library that returns 0 for success. The error contains the function's name and result.
#[doc(hidden)]
#[macro_export]
macro_rules! call {
    ($library:expr, $name:expr, ($($value:expr => $kind:ty),* $(,)?)) => {
        match $crate::find($library, $name) {
            None => Err(format!("the library has no {}", $name)),
            Some(address) => {
                // SAFETY: the library's header declares the function so, and what the arguments point to is there and as
                // large as it says.
                let result = unsafe {
                    let function: unsafe extern "C" fn($($kind),*) -> i32 = std::mem::transmute(address);
                    function($($value),*)
                };
                if result == 0 { Ok(()) } else { Err(format!("{} returned {result}", $name)) }
            }
        }
    };
}

/// NVML's handle of a device (`nvmlDevice_t`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Device(*mut c_void);

impl Device {
    /// Initial value of a variable to which NVML writes a handle.
    pub const NONE: Device = Device(std::ptr::null_mut());
}

/// NVML_P2P_CAPS_INDEX_NVLINK.
pub const NVLINK: i32 = 2;

/// Loads and initializes NVML. NVML stays loaded, because a library may crash when it is unloaded.
pub fn start_nvml() -> Result<ManuallyDrop<Handle>, String> {
    let library = ManuallyDrop::new(load(Library::Nvml)?);
    call!(&library, "nvmlInit_v2", ())?;
    Ok(library)
}

/// Calls a function of NVML that writes one value about a device, and returns the value.
pub fn query_device_value<T: Default>(library: &Handle, name: &str, device: Device) -> Result<T, String> {
    let mut value = T::default();
    call!(library, name, (device => Device, &mut value => *mut T))?;
    Ok(value)
}

/// Returns the `nvmlGpuP2PStatus_t` for a use of the link between two devices: reads, writes, or NVLink
/// (`nvmlGpuP2PCapsIndex_t`).
pub fn p2p_status(library: &Handle, from: Device, to: Device, index: i32) -> Option<i32> {
    let mut status = 0;
    call!(library, "nvmlDeviceGetP2PStatus", (from => Device, to => Device, index => i32, &mut status => *mut i32))
        .ok()?;
    Some(status)
}

/// Formats a CUDA version: `11.0` for 11000.
pub fn format_cuda_version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!([4010, 11000, 12080].map(format_cuda_version), ["4.1", "11.0", "12.8"]);
    }
}
