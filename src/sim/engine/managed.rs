//! Stores advice about managed memory, and returns it.

use super::answer::{Answer, fail, invalid};
use super::driver::{ALL_HOSTS, Advice, Allocation, AllocationKind, DEVICE, Driver, device_of_location};
use cupeer_spec::abi::CUmemLocation;
use cupeer_spec::results::Result as Code;

impl Driver {
    fn check_location(&self, place: CUmemLocation) -> Answer {
        match place.kind.0 {
            DEVICE => self.check_ordinal(place.id).map(|_| ()),
            kind if ALL_HOSTS.contains(&kind) => Ok(()),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Returns the advice that is stored for the allocation of managed memory with this range.
    pub(crate) fn advice_at(&mut self, address: u64, count: u64) -> Answer<&mut Advice> {
        self.current_context_handle()?;
        match self.memory.allocation_at_mut(address) {
            Some((base, Allocation { kind: AllocationKind::Managed(advice), size, .. }))
                if count > 0 && count <= *size - (address - base) =>
            {
                Ok(advice)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Fails for memory that is not managed. The message is `unknown` for memory that the driver does not
    /// know, and `other` for other kinds of memory.
    fn check_managed(&self, address: u64, unknown: &'static str, other: String) -> Answer {
        match self.memory.allocation_at(address) {
            Some((_, Allocation { kind: AllocationKind::Managed(_), .. })) => Ok(()),
            Some(_) => invalid(other),
            None => invalid(unknown),
        }
    }

    /// `cuMemAdvise`.
    pub(crate) fn advise(&mut self, address: u64, count: u64, what: i32, place: CUmemLocation) -> Answer {
        if matches!(what, 3 | 5 | 6) {
            self.check_location(place)?;
        }
        self.current_context_handle()?;
        self.check_managed(
            address,
            "Mem Advise for system-allocated memory is only supported on systems with non-zero CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
            "Specified pointer must belong to system-allocated memory or managed memory".into(),
        )?;
        let advice = self.advice_at(address, count)?;
        match what {
            1 => advice.read_mostly = true,
            2 => advice.read_mostly = false,
            3 => advice.preferred = Some(place),
            4 => advice.preferred = None,
            5 | 6 => {
                let device = device_of_location(place);
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
        self.current_context_handle()?;
        self.check_managed(
            address,
            "System-allocated memory specified in dptrs[0]. Prefetching system-allocated memory is only supported on systems with non-zero CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
            format!("Address range({address:#x} and size: {count}) specified for prefetch must belong to system-allocated memory or managed memory"),
        )?;
        self.advice_at(address, count)?.prefetched = Some(place);
        Ok(())
    }

    /// `cuMemRangeGetAttribute`: the values of an attribute, of which the buffer can hold this many.
    pub(crate) fn range_attribute(
        &mut self,
        attribute: i32,
        room: usize,
        address: u64,
        count: u64,
    ) -> Answer<Vec<i32>> {
        self.advice_at(address, count)?.attribute_values(attribute, room)
    }
}
