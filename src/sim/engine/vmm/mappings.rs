//! Mappings: an allocation at addresses that are reserved.

use super::super::answer::{Answer, invalid, invalid_if, refuse, refuse_if};
use super::super::descriptors::GRANULARITY;
use super::super::driver::{Allocation, AllocationKind, Driver, HandleTarget, Mapping, StorePosition};
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemMap`. As recorded, only a whole allocation can be mapped.
    pub(crate) fn map_allocation(&mut self, start: u64, size: u64, offset: u64, handle: u64) -> Answer {
        invalid_if(start == 0, "Parameter ptr cannot be NULL")?;
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        let behind = self.handle(handle)?.behind.clone();
        check_alignment(start)?;
        refuse_if(offset != 0, Code::NOT_SUPPORTED, "Specifying an offset is not supported")?;
        let whole = match &behind {
            HandleTarget::Memory(block) => block.part.size,
            HandleTarget::Multicast(object) => object.shape.size,
        };
        if size != whole {
            let (word, sign) = if size < whole { ("smaller", '<') } else { ("bigger", '>') };
            let text = format!("Requested mapping {word} than handle, ({size:#x} {sign} {whole:#x})");
            return refuse(Code::NOT_SUPPORTED, text);
        }
        invalid_if(self.memory.has_allocation_in(start, size), "Specified range overlaps with another allocation")?;
        invalid_if(
            !self.is_reserved(start, size),
            "Address range specified must belong to a range reserved previously by cuMemAddressReserve()",
        )?;
        let (home, stored) = match &behind {
            HandleTarget::Memory(block) => {
                let stored = StorePosition { backing: block.backing.clone(), offset: block.part.offset };
                (self.ordinal_of(block.part.device).unwrap_or(0), stored)
            }
            // A multicast object has no bytes of its own.
            HandleTarget::Multicast(object) => (0, StorePosition { backing: object.file.clone(), offset: 0 }),
        };
        let mapping = Mapping { handle, behind, rights: Vec::new() };
        let allocation =
            Allocation { sync_memops: false, ..Allocation::new(size, AllocationKind::Mapped(mapping), 0, home) };
        let allocation = allocation.with_store(stored);
        self.memory.insert(start, allocation);
        self.add_to_mappings(handle, 1);
        Ok(())
    }

    /// `cuMemUnmap`: removes all mappings in a range; there may be none.
    pub(crate) fn unmap_range(&mut self, start: u64, size: u64) -> Answer {
        invalid_if(start == 0, "Parameter ptr cannot be NULL")?;
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        invalid_if(
            self.reservation_of(start).is_none(),
            "Specified ptr must belong to a previous cuMemAddressRange() call",
        )?;
        // As recorded, the range may continue beyond the reservation.
        let mappings: Vec<(u64, u64)> = self.mappings_in(start, size).collect();
        invalid_if(
            mappings.iter().any(|(base, length)| *base < start || *length > size - (base - start)),
            "Partially unmapping a previous cuMemMap mapping is not supported",
        )?;
        for (base, _) in mappings {
            let handle = self.mapping_at(base).map(|(_, mapping)| mapping.handle);
            self.remove_allocation(base);
            if let Some(handle) = handle {
                self.add_to_mappings(handle, -1);
            }
        }
        Ok(())
    }

    /// Returns the mapping that contains an address, and its start.
    pub(crate) fn mapping_at(&self, address: u64) -> Option<(u64, &Mapping)> {
        match self.memory.allocation_at(address) {
            Some((base, Allocation { kind: AllocationKind::Mapped(mapping), .. })) => Some((base, mapping)),
            _ => None,
        }
    }

    /// Returns the starts and sizes of the mappings that overlap a range.
    pub(super) fn mappings_in(&self, start: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
        let all = self.memory.allocations_in(start, size);
        all.filter(|(_, allocation)| matches!(allocation.kind, AllocationKind::Mapped(_)))
            .map(|(base, a)| (base, a.size))
    }

    /// Returns true if a range is within one reservation. A real driver was seen to map beyond the end of a
    /// reservation, to addresses that the program must not use.
    fn is_reserved(&self, start: u64, size: u64) -> bool {
        self.reservation_of(start).is_some_and(|(from, length)| size <= length - (start - from))
    }

    /// Returns the handle types by which the memory of a mapping can be exported: bits of
    /// `CUmemAllocationHandleType`.
    pub(crate) fn export_types_of(&self, mapping: &Mapping) -> u64 {
        self.handle(mapping.handle).map_or(0, |handle| handle.types as u64)
    }
}

/// Fails if an address is not a multiple of [`GRANULARITY`].
pub(super) fn check_alignment(start: u64) -> Answer {
    if start.is_multiple_of(GRANULARITY) {
        return Ok(());
    }
    let text = format!("Pointer not aligned to minimum granularity ({GRANULARITY:#x} bytes)");
    invalid(text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver};
    use super::*;

    #[test]
    fn a_mapping_is_whole_and_overlaps_nothing() {
        let mut driver = driver();
        let (one, two) = (allocation(&mut driver, 0, 1), allocation(&mut driver, 0, 2));
        let at = driver.reserve_addresses(4 * GRANULE, 0, 0).unwrap();
        let mut code =
            |start, size, offset, handle| driver.map_allocation(start, size, offset, handle).unwrap_err().code;
        assert_eq!(code(at, GRANULE, 0, two), Code::NOT_SUPPORTED);
        assert_eq!(code(at, GRANULE, GRANULE, two), Code::NOT_SUPPORTED);
        assert_eq!(code(at, 2 * GRANULE, 0, one), Code::NOT_SUPPORTED);
        assert_eq!(code(at + 4096, GRANULE, 0, one), Code::INVALID_VALUE);
        assert_eq!(code(at + 3 * GRANULE, 2 * GRANULE, 0, two), Code::INVALID_VALUE);
        assert_eq!(code(at, GRANULE, 0, 0x1234), Code::INVALID_VALUE);
        driver.map_allocation(at + GRANULE, 2 * GRANULE, 0, two).unwrap();
        for granule in [1, 2] {
            let taken = driver.map_allocation(at + granule * GRANULE, GRANULE, 0, one).unwrap_err();
            assert_eq!(taken.messages, ["Specified range overlaps with another allocation"]);
        }
        driver.map_allocation(at, GRANULE, 0, one).unwrap();
        let found = driver.memory.allocation_at(at + 2 * GRANULE).map(|(base, it)| (base, it.size));
        assert_eq!(found, Some((at + GRANULE, 2 * GRANULE)));
    }

    #[test]
    fn a_range_is_unmapped_with_whole_mappings() {
        let mut driver = driver();
        let (one, two) = (allocation(&mut driver, 0, 1), allocation(&mut driver, 0, 2));
        let at = driver.reserve_addresses(8 * GRANULE, 0, 0).unwrap();
        driver.map_allocation(at, GRANULE, 0, one).unwrap();
        driver.map_allocation(at + 2 * GRANULE, 2 * GRANULE, 0, two).unwrap();
        for (from, granules) in [(0, 3), (3, 1), (2, 1)] {
            assert!(driver.unmap_range(at + from * GRANULE, granules * GRANULE).is_err(), "{from} {granules}");
        }
        driver.unmap_range(at + GRANULE, GRANULE).unwrap();
        driver.unmap_range(at, 8 * GRANULE).unwrap();
        assert!(driver.mapping_at(at).is_none() && driver.mapping_at(at + 2 * GRANULE).is_none());
        driver.unmap_range(at, 8 * GRANULE).unwrap();
        driver.map_allocation(at + 6 * GRANULE, 2 * GRANULE, 0, two).unwrap();
    }
}
