//! Advice about managed memory: it changes nothing here, as it may, but can be asked for.

use super::answer::{Answer, fail};
use super::memory::{Allocation, Kind};
use super::process::Driver;
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

/// A place in memory, as `CUmemLocation` says it: the kind and the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub kind: i32,
    pub id: i32,
}

impl Location {
    const DEVICE: i32 = 1;
    const HOST: i32 = 2;
    const HOST_NUMA_CURRENT: i32 = 4;

    /// From a device's ordinal, or -1 for the host.
    pub(crate) fn of(device: i32) -> Location {
        match device {
            CPU => Location { kind: Location::HOST, id: 0 },
            id => Location { kind: Location::DEVICE, id },
        }
    }

    /// Back again.
    fn device(self) -> i32 {
        if self.kind == Location::DEVICE { self.id } else { CPU }
    }
}

/// What was advised about an allocation.
#[derive(Clone, Default, Debug)]
pub(crate) struct Advice {
    read_mostly: bool,
    preferred: Option<Location>,
    accessed_by: Vec<i32>,
    prefetched: Option<Location>,
}

impl Advice {
    fn attribute(&self, attribute: i32, room: usize) -> Answer<Vec<i32>> {
        let kind = |place: Option<Location>| place.map_or(0, |place| place.kind);
        let id = |place: Option<Location>| place.map_or(0, |place| place.id);
        let device = |place: Option<Location>| place.map_or(NOWHERE, Location::device);
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
    fn check_location(&self, place: Location) -> Answer {
        match place.kind {
            Location::DEVICE => self.ordinal(place.id).map(|_| ()),
            Location::HOST..=Location::HOST_NUMA_CURRENT => Ok(()),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// The advice about a range of managed memory.
    fn advice(&mut self, address: u64, count: u64) -> Answer<&mut Advice> {
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

    /// `cuMemAdvise`.
    pub(crate) fn advise(&mut self, address: u64, count: u64, what: i32, place: Location) -> Answer {
        if matches!(what, 3 | 5 | 6) {
            self.check_location(place)?;
        }
        let advice = self.advice(address, count)?;
        match what {
            1 => advice.read_mostly = true,
            2 => advice.read_mostly = false,
            3 => advice.preferred = Some(place),
            4 => advice.preferred = None,
            5 | 6 => {
                let device = place.device();
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
    pub(crate) fn prefetch(&mut self, address: u64, count: u64, place: Location) -> Answer {
        self.check_location(place)?;
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
