//! Queries of this library to the NVML that the program has called. They do not run through our own entries.

use crate::driver::queries::queries;
use crate::resolve::driver;
use core::ffi::{CStr, c_char};
use core::sync::atomic::AtomicUsize;
use cupeer_spec::abi::nvmlPciInfo_t;
use cupeer_spec::deny::{self, DeviceIdentity};
use cupeer_spec::function::Library;
use cupeer_spec::uuid;

/// Returns the address of a function of NVML. The address is not cached, because the program may unload NVML.
fn find(name: &CStr, _: &AtomicUsize) -> Option<usize> {
    driver::function(Library::Nvml, name).filter(|address| *address != 0)
}

queries! {
    find;
    nvmlDeviceGetUUID(device: u64, uuid: *mut u8, length: u32);
    nvmlDeviceGetPciInfo_v3(device: u64, pci: *mut nvmlPciInfo_t);
    nvmlDeviceGetNvLinkRemotePciInfo_v2(device: u64, link: u32, pci: *mut nvmlPciInfo_t);
    nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, device: *mut u64);
}

fn zeroed_pci() -> nvmlPciInfo_t {
    // SAFETY: numbers and texts, for which zeros are valid.
    unsafe { core::mem::zeroed() }
}

fn address(pci: &nvmlPciInfo_t) -> Option<deny::PciAddress> {
    let text = text(bytes(&pci.busId)).or_else(|| text(bytes(&pci.busIdLegacy)))?;
    deny::parse_pci(text)
}

fn bytes(text: &[c_char]) -> &[u8] {
    // SAFETY: a char is a byte.
    unsafe { core::slice::from_raw_parts(text.as_ptr().cast(), text.len()) }
}

/// Returns the identity of a device; unknown if NVML does not return it.
pub fn identity(device: u64) -> DeviceIdentity {
    let (mut uuid, mut pci) = ([0u8; 96], zeroed_pci());
    let has_uuid = nvmlDeviceGetUUID(device, uuid.as_mut_ptr(), 95) == Some(0);
    let has_pci = nvmlDeviceGetPciInfo_v3(device, &mut pci) == Some(0);
    DeviceIdentity {
        uuid: text(&uuid).filter(|_| has_uuid).and_then(uuid::parse_uuid),
        pci: has_pci.then(|| address(&pci)).flatten(),
    }
}

/// Returns the PCI address of the device at the other end of an NVLink; `None` if the link is missing or
/// down.
pub fn remote_address(device: u64, link: u32) -> Option<nvmlPciInfo_t> {
    let mut pci = zeroed_pci();
    (nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &mut pci) == Some(0)).then_some(pci)
}

/// Returns the NVML handle of the device at a PCI address; `None` if NVML has no device there.
pub fn nvml_device_at(pci: &nvmlPciInfo_t) -> Option<u64> {
    let mut device = 0;
    (nvmlDeviceGetHandleByPciBusId_v2(pci.busId.as_ptr(), &mut device) == Some(0)).then_some(device)
}

/// Returns the text in a buffer up to its NUL; `None` if the text is empty or not UTF-8.
pub fn text(buffer: &[u8]) -> Option<&str> {
    let text = buffer.split(|byte| *byte == 0).next()?;
    core::str::from_utf8(text).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_their_nul() {
        assert_eq!(text(b"0000:1B:00.0\0\0xx"), Some("0000:1B:00.0"));
        assert_eq!((text(b"\0x"), text(b""), text(b"\xff\0")), (None, None, None));
    }
}
