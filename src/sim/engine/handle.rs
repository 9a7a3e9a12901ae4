//! The 64 bytes of an IPC handle.
//!
//! The places of the bytes, and the codes that wrong ones cause, are as recorded of a real driver: bytes
//! 8 to 11 hold the exporter's pid for people to read, bytes 48 to 51 are what finds the exporter (wrong:
//! INVALID_HANDLE), 24 to 27, 32 to 36 and 52 to 55 are checked (wrong: INVALID_VALUE), the others are not. Bytes 32 and
//! 33 of a handle of memory are the GPU's number on its bus and the bus.

use cupeer_topology::PciAddress;

/// Kind of object that a handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IpcHandleKind {
    /// The handle of an allocation, from `cuIpcGetMemHandle`.
    Memory = 6,
    /// The handle of an event, from `cuIpcGetEventHandle`.
    Event = 9,
}

/// Content of a handle: how an importing process finds the export.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExportLocator {
    /// The pid of the exporting process, in its own namespace.
    pub pid: u32,
    /// The number of the channel's file descriptor in the exporting process.
    pub channel: u16,
    /// The index of the slot in the channel.
    pub slot: u16,
    /// Number that the slot must contain: the high half identifies the process, and the low half the export.
    pub token: u32,
}

/// Returns the bytes of a handle. `size` and `gpu` are only for people who read the bytes.
pub(crate) fn encode_handle(
    kind: IpcHandleKind,
    locator: ExportLocator,
    size: u64,
    gpu: Option<PciAddress>,
) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &(0x5555_0000_0000_u64 | u64::from(locator.token)).to_le_bytes());
    put(8, &locator.pid.to_le_bytes());
    put(16, &size.to_le_bytes());
    put(24, &locator.token.to_le_bytes());
    put(32, &gpu.map_or([0, 0], |pci| [pci.device, pci.bus]));
    put(34, &locator.slot.to_le_bytes());
    put(36, &[kind as u8]);
    put(48, &locator.pid.to_le_bytes());
    put(52, &locator.channel.to_le_bytes());
    let sum = checksum(&bytes);
    bytes[54..56].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the content of a handle; `None` for bytes that are not a handle of this kind.
pub(crate) fn decode_handle(kind: IpcHandleKind, bytes: &[u8; 64]) -> Option<ExportLocator> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    if bytes[36] != kind as u8 || half(54) != checksum(bytes) {
        return None;
    }
    Some(ExportLocator { pid: word(48), channel: half(52), slot: half(34), token: word(24) })
}

/// FNV-1a over the bytes of a handle that are checked, except those that name the exporter, folded to 16
/// bits.
fn checksum(bytes: &[u8; 64]) -> u16 {
    let checked = bytes[24..28].iter().chain(&bytes[32..37]).chain(&bytes[52..54]);
    let sum = checked.fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (sum ^ sum >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const PCI: PciAddress = PciAddress { domain: 0, bus: 0x1b, device: 3 };
    const LOCATOR: ExportLocator = ExportLocator { pid: 0x26a, channel: 512, slot: 3, token: 0xdead_0001 };

    #[test]
    fn it_reads_what_it_writes() {
        let bytes = encode_handle(IpcHandleKind::Memory, LOCATOR, 256, Some(PCI));
        assert_eq!(decode_handle(IpcHandleKind::Memory, &bytes), Some(LOCATOR));
        assert_eq!(decode_handle(IpcHandleKind::Event, &bytes), None);
        assert_eq!(bytes[8..12], 0x26au32.to_le_bytes());
        assert_eq!(bytes[32..34], [3, 0x1b]);
        assert_eq!(decode_handle(IpcHandleKind::Memory, &[0; 64]), None);
        assert_eq!(decode_handle(IpcHandleKind::Memory, &[0xa5; 64]), None);
    }

    #[test]
    fn each_byte_is_checked_or_ignored_as_recorded() {
        for at in 0..64 {
            let mut bytes = encode_handle(IpcHandleKind::Memory, LOCATOR, 256, Some(PCI));
            bytes[at] ^= 0xff;
            let got = decode_handle(IpcHandleKind::Memory, &bytes);
            match at {
                24..=27 | 32..=36 | 52..=55 => assert_eq!(got, None, "{at}"),
                48..=51 => assert!(got.is_some_and(|l| l.pid != LOCATOR.pid), "{at}"),
                _ => assert_eq!(got, Some(LOCATOR), "{at}"),
            }
        }
    }
}
