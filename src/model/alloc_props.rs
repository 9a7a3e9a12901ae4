//! Readers for the structures of cuda.h that describe allocations, pools, multicast objects, and access.

use cupeer_spec::abi::CUmemLocation;

/// The size of a CUmemAccessDesc, in bytes.
const ACCESS_DESC_BYTES: usize = 12;

/// Properties of an allocation, or of a pool, that is to be created.
#[derive(Clone, Copy)]
pub struct AllocationProps {
    /// Bit mask of the handle types by which it can be exported.
    pub types: i32,
    /// The device on which the memory is to be; `None` if its location is not a device.
    pub device: Option<i32>,
}

impl AllocationProps {
    /// Reads a CUmemAllocationProp, or a CUmemPoolProps, which has the same first fields.
    pub fn from_bytes(bytes: &[u8]) -> Option<AllocationProps> {
        Some(AllocationProps {
            types: read_i32(bytes, 4)?,
            device: device_of_location(read_i32(bytes, 8)?, read_i32(bytes, 12)?),
        })
    }
}

/// Properties of a multicast object that is to be created.
#[derive(Clone, Copy)]
pub struct MulticastProps {
    /// Number of devices that it is created for.
    pub devices: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Bit mask of the handle types by which it can be exported.
    pub types: i32,
}

impl MulticastProps {
    /// Reads a CUmulticastObjectProp.
    pub fn from_bytes(bytes: &[u8]) -> Option<MulticastProps> {
        let wide = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(MulticastProps { devices: read_i32(bytes, 0)? as u32, bytes: wide(4)?, types: wide(12)? as i32 })
    }
}

/// The access rights of devices: bit masks by the process's device ordinals.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AccessRights {
    /// Devices without access.
    none: u64,
    /// Devices that may read.
    read: u64,
    /// Devices that may read and write.
    write: u64,
}

impl AccessRights {
    /// No rights for any device.
    pub const NONE: AccessRights = AccessRights { none: 0, read: 0, write: 0 };

    /// Reads an array of CUmemAccessDesc. Returns the access, and the number of elements.
    pub fn from_bytes(bytes: &[u8]) -> (AccessRights, usize) {
        let (mut all, mut count) = (AccessRights::default(), 0);
        for (device, flags) in access_descriptors(bytes) {
            count += 1;
            let bit = device.and_then(|device| 1u64.checked_shl(u32::try_from(device).ok()?)).unwrap_or(0);
            for (known, is_it) in
                [(&mut all.none, flags == 0), (&mut all.read, flags == 1), (&mut all.write, flags > 1)]
            {
                *known = if is_it { *known | bit } else { *known & !bit };
            }
        }
        (all, count)
    }

    /// Returns the bit mask of the devices that may read, or read and write.
    pub fn granted_mask(self) -> u64 {
        self.read | self.write
    }

    /// Returns each device of the array with its CUmemAccess_flags.
    pub fn each(self) -> impl Iterator<Item = (i32, i32)> {
        let flags = move |device: i32| {
            let has = |bits: u64| bits >> device & 1 != 0;
            has(self.write).then_some(3).or(has(self.read).then_some(1)).or(has(self.none).then_some(0))
        };
        (0..64).filter_map(move |device| Some((device, flags(device)?)))
    }
}

/// Reads an array of CUmemAccessDesc. Returns for each element the device (`None` if its location is not a device) and the flags.
pub fn access_descriptors(bytes: &[u8]) -> impl Iterator<Item = (Option<i32>, i32)> {
    let all = bytes.chunks_exact(ACCESS_DESC_BYTES);
    all.filter_map(|one| Some((device_of_location(read_i32(one, 0)?, read_i32(one, 4)?), read_i32(one, 8)?)))
}

/// Returns the device ordinal of a CUmemLocation; `None` if the location is not a device.
fn device_of_location(kind: i32, id: i32) -> Option<i32> {
    (kind == CUmemLocation::DEVICE).then_some(id)
}

/// Reads a little-endian number of 4 bytes at an offset.
pub fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
