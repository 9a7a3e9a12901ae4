//! NVML, loaded by the command itself. It may be missing.
//!
//! `machine` reads the facts that `doctor` examines, and `memory` the use of memory that `run` records and `top`
//! shows.

pub mod machine;
pub mod memory;

use crate::call;
use crate::library::Device;
use libloading::os::unix::Library as Handle;
use std::ffi::c_uint;

/// Returns the devices of the machine in NVML's order.
fn list_device_handles(library: &Handle) -> Result<Vec<Device>, String> {
    let mut count: c_uint = 0;
    call!(library, "nvmlDeviceGetCount_v2", (&mut count => *mut c_uint))?;
    let handle = |index| {
        let mut device = Device::NONE;
        call!(library, "nvmlDeviceGetHandleByIndex_v2", (index => c_uint, &mut device => *mut Device))?;
        Ok(device)
    };
    (0..count).map(handle).collect()
}

/// Returns the text that a function of NVML writes about a device, such as its UUID.
fn query_text(library: &Handle, name: &str, device: Device) -> Result<String, String> {
    let mut text = [0u8; 96];
    call!(library, name, (device => Device, text.as_mut_ptr() => *mut u8, 96 => c_uint))?;
    Ok(text_before_nul(&text))
}

/// Returns a PCI address in the kernel's format, from one of NVML's or CUDA's. NVML's domains have eight digits,
/// and both libraries write capital letters.
pub fn to_kernel_pci_address(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => text,
    }
}

/// Returns the text in a NUL-terminated buffer.
pub fn text_before_nul(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_kernels() {
        assert_eq!(to_kernel_pci_address("00000000:3B:00.0"), "0000:3b:00.0");
        assert_eq!(to_kernel_pci_address("0001:3B:00.0"), "0001:3b:00.0");
        assert_eq!(to_kernel_pci_address("00010000:01:00.0"), "00010000:01:00.0");
    }
}
