//! The device nodes of the host's GPUs that the kernel module lists, and whether this process may use them.

use crate::sys::files::{self, each_name};
use crate::sys::line::ShortText;
use core::ffi::CStr;
use cupeer_rules::decide::DeviceNode;
use cupeer_spec::deny::{PciAddress, parse_pci};
use cupeer_spec::uuid;

/// The directory in which the kernel module lists the GPUs, by their PCI addresses.
const GPUS: &CStr = c"/proc/driver/nvidia/gpus";

/// Hands over the path of a GPU's device node to `work`, and whether this process may read and write the node; `None` if the GPU
/// is not listed.
pub fn with_node_of(uuid: &[u8; 16], work: impl FnOnce(Option<DeviceNode>)) {
    let Some(minor) = minor_of(uuid) else { return work(None) };
    let path = ShortText::<32>::new(format_args!("/dev/nvidia{minor}\0"));
    let Some(c_path) = path.c_text() else { return };
    // SAFETY: the path ends in NUL.
    let is_usable = unsafe { libc::access(c_path.as_ptr(), libc::R_OK | libc::W_OK) } == 0;
    work(Some(DeviceNode { path: c_path.to_str().unwrap_or("/dev/nvidia?"), is_usable }));
}

/// Returns the minor number of a GPU's device node, by the UUID of the GPU.
fn minor_of(uuid: &[u8; 16]) -> Option<u32> {
    find_in_list(|_, information| minor_in(information, uuid))
}

/// Returns the PCI address of a GPU of the host by its UUID, if the kernel module lists the GPU.
pub fn find_pci_address(uuid: &[u8; 16]) -> Option<PciAddress> {
    find_in_list(|name, information| minor_in(information, uuid).and_then(|_| parse_pci(name)))
}

/// Returns the first result of `is_it`, which gets the name of each listed GPU (its PCI address) and the information that the
/// kernel module gives about it.
fn find_in_list<T>(is_it: impl Fn(&str, &[u8]) -> Option<T>) -> Option<T> {
    let mut found = None;
    each_name(GPUS, |name| {
        let path = ShortText::<80>::new(format_args!("/proc/driver/nvidia/gpus/{name}/information\0"));
        let mut text = [0u8; 1024];
        let length = path.c_text().and_then(|path| files::read(path, &mut text).ok()).unwrap_or(0);
        found = is_it(name, &text[..length]);
        found.is_some()
    });
    found
}

/// Returns the UUID of the first listed GPU whose address `is_it` accepts.
pub fn uuid_at(is_it: impl Fn(PciAddress) -> bool) -> Option<[u8; 16]> {
    find_in_list(|name, information| {
        parse_pci(name).filter(|address| is_it(*address)).and_then(|_| uuid_in(information))
    })
}

/// Returns the minor number in the information about a GPU, if the GPU has this UUID.
fn minor_in(information: &[u8], uuid: &[u8; 16]) -> Option<u32> {
    let minor = || core::str::from_utf8(value(information, b"Device Minor")?).ok()?.parse().ok();
    if uuid_in(information)? == *uuid { minor() } else { None }
}

fn uuid_in(information: &[u8]) -> Option<[u8; 16]> {
    uuid::parse_uuid(core::str::from_utf8(value(information, b"GPU UUID")?).ok()?)
}

/// Returns the value behind a name and a colon in the information about a GPU.
fn value<'a>(information: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = information.split(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b":")).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_module_names_the_node() {
        let text = b"Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\nGPU UUID: \t GPU-c09e0001-0000-0000-0000-00000000abcd\nBus Type: PCIe\nDevice Minor: \t 3\n";
        let mut uuid = [0u8; 16];
        uuid[..4].copy_from_slice(&[0xc0, 0x9e, 0x00, 0x01]);
        uuid[14..].copy_from_slice(&[0xab, 0xcd]);
        assert_eq!(minor_in(text, &uuid), Some(3));
        uuid[15] = 0;
        assert_eq!(minor_in(text, &uuid), None);
        assert_eq!((minor_in(b"", &uuid), minor_in(b"GPU UUID: GPU-?\n", &uuid)), (None, None));
    }
}
