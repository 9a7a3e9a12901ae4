//! Formats of the structures of virtual memory and pools, and of handles behind a pointer.

use super::*;
use crate::abi::*;

/// Structures print as `{field=value, field=value}`, and are stored field by field.
macro_rules! structures {
    ($($name:ident { $($field:ident $shown:literal: $type:ty,)* })*) => {$(
        impl Value for $name {
            const STORED: usize = 0 $(+ <$type as Value>::STORED)*;
            fn store(self, place: &mut [u8], fingerprint: Fingerprint) {
                let mut rest = place;
                $(
                    let (own, after) = rest.split_at_mut(<$type as Value>::STORED);
                    self.$field.store(own, fingerprint);
                    rest = after;
                )*
                debug_assert!(rest.is_empty());
            }
            fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
                let mut fields = Fields::begin(out, format)?;
                let mut rest = bytes;
                $(
                    let (own, after) = rest.split_at_checked(<$type as Value>::STORED).ok_or(fmt::Error)?;
                    fields.field($shown, |out| <$type as Value>::print_stored(own, out, format))?;
                    rest = after;
                )*
                fields.end(rest)
            }
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                let mut fields = Fields::begin(out, format)?;
                $(fields.field($shown, |out| self.$field.print(out, format))?;)*
                fields.end(&[])
            }
        }
    )*};
}
structures! {
    CUmemLocation { kind "type": CUmemLocationType, id "id": i32, }
    CUmemAccessDesc { location "location": CUmemLocation, flags "flags": CUmemAccess_flags, }
    CUmemAllocationProp {
        kind "type": CUmemAllocationType,
        requestedHandleTypes "requestedHandleTypes": CUmemAllocationHandleType,
        location "location": CUmemLocation,
    }
    CUmemPoolProps {
        allocType "allocType": CUmemAllocationType,
        handleTypes "handleTypes": CUmemAllocationHandleType,
        location "location": CUmemLocation,
        maxSize "maxSize": usize,
    }
    CUmulticastObjectProp {
        numDevices "numDevices": u32,
        size "size": usize,
        handleTypes "handleTypes": u64,
        flags "flags": u64,
    }
}

/// Target of a pointer to a shareable handle. Another argument of the call has the kind of handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shareable {
    /// A descriptor: its number, and the number of its open file description in all processes; 0 if it has
    /// none.
    Descriptor(i32, u64),
    /// The bytes of a fabric handle, which are never printed.
    Fabric([u8; 64]),
}

impl Shareable {
    /// Handle type of file descriptors: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
    pub const DESCRIPTOR: i32 = 1;
    /// Handle type of fabric handles: CU_MEM_HANDLE_TYPE_FABRIC.
    pub const FABRIC: i32 = 8;

    /// Highest byte of the identifiers of open file descriptions, which also have at least one lower bit set.
    const KNOWN: u64 = 0x2c;
    /// Highest byte of the fingerprints of pool pointers.
    const POINTERS: u64 = 0x2e;
    /// The highest byte of the fingerprints of fabric handles.
    const FABRICS: u64 = 0x2f;

    /// Returns the identifier of an open file description, from 56 bits.
    pub const fn description_id(bits: u64) -> u64 {
        Self::KNOWN << 56 | bits & ((1 << 56) - 1) | 1
    }

    /// Returns true if a number is the identifier of an open file description.
    pub const fn is_description_id(number: u64) -> bool {
        number >> 56 == Self::KNOWN
    }

    /// Returns the word before the digits of a fingerprint: for a descriptor, a fabric handle, a pool
    /// pointer, or an IPC handle.
    pub const fn fingerprint_prefix(fingerprint: u64) -> &'static str {
        match fingerprint >> 56 {
            Self::KNOWN => "fd",
            Self::POINTERS => "ptr",
            Self::FABRICS => "fabric",
            _ => "ipc",
        }
    }

    /// Returns the fingerprint of an IPC handle from a hash. It differs from the fingerprints of other kinds
    /// of handles.
    pub const fn ipc_fingerprint(hash: u64) -> u64 {
        if matches!(hash >> 56, Self::KNOWN | Self::POINTERS | Self::FABRICS) { hash ^ 1 << 63 } else { hash }
    }

    fn stored_number(&self, fingerprint: Fingerprint) -> u64 {
        match self {
            Shareable::Descriptor(_, known) => *known,
            Shareable::Fabric(bytes) => Self::FABRICS << 56 | fingerprint(bytes) >> 8,
        }
    }

    fn print_number(fd: i32, number: u64, out: &mut dyn Write, format: Format) -> fmt::Result {
        let prefix = Self::fingerprint_prefix(number);
        match (format.json, fd < 0, number) {
            (true, true, _) => write!(out, "\"{prefix}:{number:016x}\""),
            (false, true, _) => write!(out, "{prefix}:{number:016x}"),
            (true, false, 0) => write!(out, "{{\"fd\":{fd}}}"),
            (false, false, 0) => write!(out, "{fd}"),
            (true, false, _) => write!(out, "{{\"fd\":{fd},\"handle\":\"{prefix}:{number:016x}\"}}"),
            (false, false, _) => write!(out, "{fd} ({prefix}:{number:016x})"),
        }
    }
}

impl Value for Shareable {
    /// Stored like an IPC handle: two fingerprints, which are equal here; then the number of the descriptor,
    /// or -1.
    const STORED: usize = 20;

    fn store(self, place: &mut [u8], fingerprint: Fingerprint) {
        let number = self.stored_number(fingerprint).to_le_bytes();
        let fd = if let Shareable::Descriptor(fd, _) = self { fd } else { -1 };
        place[..8].copy_from_slice(&number);
        place[8..16].copy_from_slice(&number);
        place[16..20].copy_from_slice(&fd.to_le_bytes());
    }

    fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
        let fd = if let Shareable::Descriptor(fd, _) = self { fd } else { -1 };
        Self::print_number(fd, self.stored_number(format.fingerprint), out, format)
    }

    fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
        let (Some(number), Some(fd)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            return Err(fmt::Error);
        };
        Self::print_number(i32::from_le_bytes(*fd), u64::from_le_bytes(*number), out, format)
    }
}

/// The export data of a pool pointer opens the memory, so it is stored and printed like an IPC handle. It is
/// unknown which of its bytes the driver checks.
impl Value for CUmemPoolPtrExportData {
    const STORED: usize = 16;

    fn store(self, place: &mut [u8], fingerprint: Fingerprint) {
        let number = (Shareable::POINTERS << 56 | fingerprint(&self.reserved) >> 8).to_le_bytes();
        place[..8].copy_from_slice(&number);
        place[8..].copy_from_slice(&number);
    }

    fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
        let number = Shareable::POINTERS << 56 | (format.fingerprint)(&self.reserved) >> 8;
        word(out, format, format_args!("ptr:{number:016x}"))
    }

    fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
        let [number, _] = bytes.as_chunks::<8>().0 else { return Err(fmt::Error) };
        let number = u64::from_le_bytes(*number);
        word(out, format, format_args!("ptr:{number:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Format = Format { json: false, fingerprint: |_| 0x1234 };
    const JSON: Format = Format { json: true, fingerprint: |_| 0x1234 };

    fn printed<T: Value>(value: T, format: Format) -> String {
        let (mut now, mut later) = (String::new(), String::new());
        value.print(&mut now, format).expect("it prints");
        let mut stored = vec![0; T::STORED];
        value.store(&mut stored, format.fingerprint);
        T::print_stored(&stored, &mut later, format).expect("it prints from a recording");
        assert_eq!(now, later);
        assert!(T::print_stored(&stored[1..], &mut String::new(), format).is_err() || T::STORED == 20);
        now
    }

    fn access(id: i32) -> CUmemAccessDesc {
        CUmemAccessDesc { location: CUmemLocation { kind: CUmemLocationType(1), id }, flags: CUmemAccess_flags(3) }
    }

    #[test]
    fn structures_have_the_names_of_the_header() {
        assert_eq!(
            printed(access(2), TEXT),
            "{location={type=CU_MEM_LOCATION_TYPE_DEVICE, id=2}, flags=CU_MEM_ACCESS_FLAGS_PROT_READWRITE}"
        );
        assert_eq!(
            printed(access(2), JSON),
            r#"{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":2},"flags":"CU_MEM_ACCESS_FLAGS_PROT_READWRITE"}"#
        );
    }

    #[test]
    fn a_descriptor_shows_its_number_and_a_fabric_handle_no_byte() {
        let known = Shareable::description_id(0x77);
        assert!(Shareable::is_description_id(known) && !Shareable::is_description_id(0x77));
        assert_eq!(printed(Shareable::Descriptor(57, known), TEXT), "57 (fd:2c00000000000077)");
        assert_eq!(printed(Shareable::Descriptor(57, 0), TEXT), "57");
        assert_eq!(printed(Shareable::Descriptor(57, known), JSON), r#"{"fd":57,"handle":"fd:2c00000000000077"}"#);
        assert_eq!(printed(Shareable::Fabric([7; 64]), TEXT), "fabric:2f00000000000012");
        assert_eq!(printed(Shareable::Fabric([7; 64]), JSON), r#""fabric:2f00000000000012""#);
        let pointer = CUmemPoolPtrExportData { reserved: [7; 64] };
        assert_eq!(printed(pointer, TEXT), "ptr:2e00000000000012");
        assert_eq!(printed(pointer, JSON), r#""ptr:2e00000000000012""#);
        assert_eq!(
            (Shareable::fingerprint_prefix(known), Shareable::fingerprint_prefix(Shareable::ipc_fingerprint(known))),
            ("fd", "ipc")
        );
    }
}
