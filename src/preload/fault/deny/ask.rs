//! Our own queries, past ourselves, to the NVML that the program has called.

use crate::resolve::driver;
use core::ffi::{CStr, c_char};
use cupeer_spec::abi::nvmlPciInfo_t;
use cupeer_spec::deny::{self, Identity};
use cupeer_spec::function::Library;

fn find(name: &CStr) -> Option<usize> {
    driver::function(Library::Nvml, name).filter(|address| *address != 0)
}

fn nothing() -> nvmlPciInfo_t {
    // SAFETY: numbers and texts, for which zeros are valid.
    unsafe { core::mem::zeroed() }
}

fn address(pci: &nvmlPciInfo_t) -> Option<deny::Pci> {
    let text = text(bytes(&pci.busId)).or_else(|| text(bytes(&pci.busIdLegacy)))?;
    deny::pci(text)
}

fn bytes(text: &[c_char]) -> &[u8] {
    // SAFETY: a char is a byte.
    unsafe { core::slice::from_raw_parts(text.as_ptr().cast(), text.len()) }
}

/// What a device is; unknown where NVML does not say.
pub fn identity(device: u64) -> Identity {
    type GetUuid = unsafe extern "C" fn(u64, *mut u8, u32) -> i32;
    type GetPciInfo = unsafe extern "C" fn(u64, *mut nvmlPciInfo_t) -> i32;
    let (mut uuid, mut pci) = ([0u8; 96], nothing());
    // SAFETY: functions of NVML with their types; the device is the program's, and the outputs are ours.
    let (has_uuid, has_pci) = unsafe {
        (
            find(c"nvmlDeviceGetUUID").is_some_and(|function| {
                core::mem::transmute::<usize, GetUuid>(function)(device, uuid.as_mut_ptr(), 95) == 0
            }),
            find(c"nvmlDeviceGetPciInfo_v3").is_some_and(|function| {
                core::mem::transmute::<usize, GetPciInfo>(function)(device, &mut pci) == 0
            }),
        )
    };
    Identity {
        uuid: text(&uuid).filter(|_| has_uuid).and_then(cupeer_spec::uuid::parse),
        pci: has_pci.then(|| address(&pci)).flatten(),
    }
}

/// Where the other end of a link is; `None` where there is no such link, or none that is up.
pub fn remote(device: u64, link: u32) -> Option<nvmlPciInfo_t> {
    type GetRemote = unsafe extern "C" fn(u64, u32, *mut nvmlPciInfo_t) -> i32;
    let function = find(c"nvmlDeviceGetNvLinkRemotePciInfo_v2")?;
    let mut pci = nothing();
    // SAFETY: NVML's function of this name has this type, and the place that it writes to is as large as it expects.
    let result = unsafe { core::mem::transmute::<usize, GetRemote>(function)(device, link, &mut pci) };
    (result == 0).then_some(pci)
}

/// The device at an address, where it is one of NVML's.
pub fn device_at(pci: &nvmlPciInfo_t) -> Option<u64> {
    type GetHandle = unsafe extern "C" fn(*const c_char, *mut u64) -> i32;
    let function = find(c"nvmlDeviceGetHandleByPciBusId_v2")?;
    let mut device = 0;
    // SAFETY: NVML's function of this name has this type; it has ended the text in NUL itself, and writes one handle.
    let result =
        unsafe { core::mem::transmute::<usize, GetHandle>(function)(pci.busId.as_ptr(), &mut device) };
    (result == 0).then_some(device)
}

/// The text in a buffer up to its NUL.
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
