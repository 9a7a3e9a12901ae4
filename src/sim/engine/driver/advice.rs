//! Advice about managed memory. It has no effect here, but queries return it.

use super::super::answer::{Answer, fail};
use cupeer_spec::abi::{CUmemLocation, CUmemLocationType};
use cupeer_spec::results::Result as Code;

/// Attributes of managed memory: values of `CU_MEM_RANGE_ATTRIBUTE_*`.
const READ_MOSTLY: i32 = 1;
const PREFERRED_LOCATION: i32 = 2;
const ACCESSED_BY: i32 = 3;
const LAST_PREFETCH_LOCATION: i32 = 4;
const PREFERRED_LOCATION_TYPE: i32 = 5;
const PREFERRED_LOCATION_ID: i32 = 6;
const LAST_PREFETCH_LOCATION_TYPE: i32 = 7;
const LAST_PREFETCH_LOCATION_ID: i32 = 8;
/// CU_DEVICE_CPU.
const CPU: i32 = -1;
/// CU_DEVICE_INVALID.
const NOWHERE: i32 = -2;

/// CU_MEM_LOCATION_TYPE_DEVICE.
const DEVICE: CUmemLocationType = CUmemLocationType(CUmemLocation::DEVICE);
/// CU_MEM_LOCATION_TYPE_HOST.
const HOST: CUmemLocationType = CUmemLocationType(2);

/// Returns the location for an ordinal of a device, or for -1, which stands for the host.
pub(crate) fn location_of_device(device: i32) -> CUmemLocation {
    match device {
        CPU => CUmemLocation { kind: HOST, id: 0 },
        id => CUmemLocation { kind: DEVICE, id },
    }
}

/// Returns the ordinal of the device of a location; -1 for the host.
pub(crate) fn device_of_location(place: CUmemLocation) -> i32 {
    if place.kind == DEVICE { place.id } else { CPU }
}

/// The advice that the program gave about an allocation of managed memory.
#[derive(Clone, Default, Debug)]
pub(crate) struct Advice {
    pub(in crate::engine) read_mostly: bool,
    pub(in crate::engine) preferred: Option<CUmemLocation>,
    pub(in crate::engine) accessed_by: Vec<i32>,
    pub(in crate::engine) prefetched: Option<CUmemLocation>,
}

impl Advice {
    pub(crate) fn attribute_values(&self, attribute: i32, room: usize) -> Answer<Vec<i32>> {
        let kind = |place: Option<CUmemLocation>| place.map_or(0, |place| place.kind.0);
        let id = |place: Option<CUmemLocation>| place.map_or(0, |place| place.id);
        let device = |place: Option<CUmemLocation>| place.map_or(NOWHERE, device_of_location);
        let one = match attribute {
            READ_MOSTLY => self.read_mostly.into(),
            PREFERRED_LOCATION => device(self.preferred),
            LAST_PREFETCH_LOCATION => device(self.prefetched),
            PREFERRED_LOCATION_TYPE => kind(self.preferred),
            PREFERRED_LOCATION_ID => id(self.preferred),
            LAST_PREFETCH_LOCATION_TYPE => kind(self.prefetched),
            LAST_PREFETCH_LOCATION_ID => id(self.prefetched),
            ACCESSED_BY if room > 0 => {
                let nobody = std::iter::repeat(&NOWHERE);
                return Ok(self.accessed_by.iter().chain(nobody).take(room).copied().collect());
            }
            _ => return fail(Code::INVALID_VALUE),
        };
        if room == 1 { Ok(vec![one]) } else { fail(Code::INVALID_VALUE) }
    }
}
