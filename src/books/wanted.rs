//! Structures by which programs ask for memory, pools, multicast objects, and access.

use cupeer_spec::abi::CUmemLocation;

/// The size of a CUmemAccessDesc.
const ACCESS: usize = 12;

/// Properties of an allocation, or of a pool, that is to be created.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The handle types.
    pub types: i32,
    /// The device that it is to be on, where it is one.
    pub device: Option<i32>,
}

impl Wanted {
    /// Reads a CUmemAllocationProp, or a CUmemPoolProps, which begins in the same way.
    pub fn of(bytes: &[u8]) -> Option<Wanted> {
        Some(Wanted { types: number(bytes, 4)?, device: device(number(bytes, 8)?, number(bytes, 12)?) })
    }
}

/// Properties of a multicast object that is to be created.
#[derive(Clone, Copy)]
pub struct Gathering {
    /// How many devices it is for.
    pub devices: u32,
    /// Its size.
    pub bytes: u64,
    /// The handle types.
    pub types: i32,
}

impl Gathering {
    /// Reads a CUmulticastObjectProp.
    pub fn of(bytes: &[u8]) -> Option<Gathering> {
        let wide = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Gathering { devices: number(bytes, 0)? as u32, bytes: wide(4)?, types: wide(12)? as i32 })
    }
}

/// Reads an array of CUmemAccessDesc: for each the device, where it is one, and the flags.
pub fn access(bytes: &[u8]) -> impl Iterator<Item = (Option<i32>, i32)> {
    let all = bytes.chunks_exact(ACCESS);
    all.filter_map(|one| Some((device(number(one, 0)?, number(one, 4)?), number(one, 8)?)))
}

/// The device of a CUmemLocation, where it is one.
fn device(kind: i32, id: i32) -> Option<i32> {
    (kind == CUmemLocation::DEVICE).then_some(id)
}

/// Reads a number of 4 bytes.
pub fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
