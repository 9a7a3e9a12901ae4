//! Advice about managed memory: it changes nothing here, as it may, but can be asked for.

use super::answer::{Answer, fail, refuse};
use super::memory::{Allocation, Kind};
use super::process::Driver;
use cupeer_spec::abi::{CUmemLocation, CUmemLocationType};
use cupeer_spec::results::Result as Code;

/// `CU_MEM_RANGE_ATTRIBUTE_*`.
const READ_MOSTLY: i32 = 1;
const PREFERRED_LOCATION: i32 = 2;
const ACCESSED_BY: i32 = 3;
const LAST_PREFETCH_LOCATION: i32 = 4;
const PREFERRED_LOCATION_TYPE: i32 = 5;
const PREFERRED_LOCATION_ID: i32 = 6;
const LAST_PREFETCH_LOCATION_TYPE: i32 = 7;
const LAST_PREFETCH_LOCATION_ID: i32 = 8;
/// CU_DEVICE_CPU and CU_DEVICE_INVALID.
const CPU: i32 = -1;
const NOWHERE: i32 = -2;

/// CU_MEM_LOCATION_TYPE_DEVICE and CU_MEM_LOCATION_TYPE_HOST.
const DEVICE: CUmemLocationType = CUmemLocationType(CUmemLocation::DEVICE);
const HOST: CUmemLocationType = CUmemLocationType(2);
/// From CU_MEM_LOCATION_TYPE_HOST to CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
const HOSTS: std::ops::RangeInclusive<i32> = 2..=4;

/// The place of a device's ordinal, or of -1 for the host.
pub(crate) fn place_of(device: i32) -> CUmemLocation {
    match device {
        CPU => CUmemLocation { kind: HOST, id: 0 },
        id => CUmemLocation { kind: DEVICE, id },
    }
}

/// Back again.
fn device_of(place: CUmemLocation) -> i32 {
    if place.kind == DEVICE { place.id } else { CPU }
}

/// What was advised about an allocation.
#[derive(Clone, Default, Debug)]
pub(crate) struct Advice {
    read_mostly: bool,
    preferred: Option<CUmemLocation>,
    accessed_by: Vec<i32>,
    prefetched: Option<CUmemLocation>,
}

impl Advice {
    fn attribute(&self, attribute: i32, room: usize) -> Answer<Vec<i32>> {
        let kind = |place: Option<CUmemLocation>| place.map_or(0, |place| place.kind.0);
        let id = |place: Option<CUmemLocation>| place.map_or(0, |place| place.id);
        let device = |place: Option<CUmemLocation>| place.map_or(NOWHERE, device_of);
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

impl Driver {
    fn check_location(&self, place: CUmemLocation) -> Answer {
        match place.kind {
            DEVICE => self.ordinal(place.id).map(|_| ()),
            CUmemLocationType(kind) if HOSTS.contains(&kind) => Ok(()),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// The advice about a range of managed memory.
    pub(crate) fn advice(&mut self, address: u64, count: u64) -> Answer<&mut Advice> {
        self.current()?;
        match self.memory.containing_mut(address) {
            Some((base, Allocation { kind: Kind::Managed(advice), size, .. }))
                if count > 0 && count <= *size - (address - base) =>
            {
                Ok(advice)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Refuses what is not managed; `unknown` is what the driver says where it knows no memory, `other` where it is of another kind.
    fn check_managed(&self, address: u64, unknown: &'static str, other: String) -> Answer {
        match self.memory.containing(address) {
            Some((_, Allocation { kind: Kind::Managed(_), .. })) => Ok(()),
            Some(_) => refuse(Code::INVALID_VALUE, other),
            None => refuse(Code::INVALID_VALUE, unknown),
        }
    }

    /// `cuMemAdvise`.
    pub(crate) fn advise(&mut self, address: u64, count: u64, what: i32, place: CUmemLocation) -> Answer {
        if matches!(what, 3 | 5 | 6) {
            self.check_location(place)?;
        }
        self.current()?;
        self.check_managed(
            address,
            "Mem Advise for system-allocated memory is only supported on systems with non-zero CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
            "Specified pointer must belong to system-allocated memory or managed memory".into(),
        )?;
        let advice = self.advice(address, count)?;
        match what {
            1 => advice.read_mostly = true,
            2 => advice.read_mostly = false,
            3 => advice.preferred = Some(place),
            4 => advice.preferred = None,
            5 | 6 => {
                let device = device_of(place);
                advice.accessed_by.retain(|other| *other != device);
                if what == 5 {
                    advice.accessed_by.push(device);
                }
            }
            _ => return fail(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// `cuMemPrefetchAsync`.
    pub(crate) fn prefetch(&mut self, address: u64, count: u64, place: CUmemLocation) -> Answer {
        self.check_location(place)?;
        self.current()?;
        self.check_managed(
            address,
            "System-allocated memory specified in dptrs[0]. Prefetching system-allocated memory is only supported on systems with non-zero CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
            format!("Address range({address:#x} and size: {count}) specified for prefetch must belong to system-allocated memory or managed memory"),
        )?;
        self.advice(address, count)?.prefetched = Some(place);
        Ok(())
    }

    /// `cuMemRangeGetAttribute`: the numbers of an attribute, for which there is room for so many.
    pub(crate) fn range_attribute(
        &mut self,
        attribute: i32,
        room: usize,
        address: u64,
        count: u64,
    ) -> Answer<Vec<i32>> {
        self.advice(address, count)?.attribute(attribute, room)
    }
}
