//! Access of devices to mappings.

use super::super::answer::{Answer, fail, fail_if, invalid};
use super::super::descriptors::GRANULARITY;
use super::super::driver::{ALL_HOSTS, AccessRights, AllocationKind, DEVICE, Driver, HandleTarget, rights_of};
use super::mappings::check_alignment;
use cupeer_spec::abi::{CUmemAccessDesc, CUmemLocation};
use cupeer_spec::results::Result as Code;

/// The types of locations of the host that `cuMemSetAccess` accepts: CU_MEM_LOCATION_TYPE_HOST and
/// CU_MEM_LOCATION_TYPE_HOST_NUMA.
const HOSTS: std::ops::RangeInclusive<i32> = 2..=3;

impl Driver {
    /// `cuMemSetAccess`, after its null check. If one of the requests is wrong, nothing changes.
    pub(crate) fn set_access(&mut self, start: u64, size: u64, wishes: &[CUmemAccessDesc]) -> Answer {
        for (index, wish) in wishes.iter().enumerate() {
            if AccessRights::from_flags(wish.flags).is_none() {
                return invalid(format!("Index {index}: Invalid flag specified ({:#x})", wish.flags.0));
            }
            let kind = wish.location.kind.0;
            if kind != DEVICE && !HOSTS.contains(&kind) {
                let text = format!(
                    "Index {index}: Invalid location type ({kind:#x}), only DEVICE, HOST_NUMA, and HOST are valid types"
                );
                return invalid(text);
            }
        }
        check_alignment(start)?;
        if !size.is_multiple_of(GRANULARITY) {
            return invalid(format!("Size not aligned to minimum granularity ({GRANULARITY:#x} bytes)"));
        }
        let mappings = self.whole_mappings(start, size)?;
        let mut granted = Vec::new();
        for wish in wishes {
            fail_if(wish.location.kind.0 != DEVICE, Code::NOT_SUPPORTED)?;
            let device = self.check_ordinal(wish.location.id).or(fail(Code::INVALID_VALUE))?;
            let rights = AccessRights::from_flags(wish.flags).unwrap_or(AccessRights::Nothing);
            fail_if(
                rights > AccessRights::Nothing && !mappings.iter().all(|base| self.can_reach_mapping(device, *base)),
                Code::INVALID_DEVICE,
            )?;
            granted.push((device, rights));
        }
        for base in mappings {
            if let Some((_, allocation)) = self.memory.allocation_at_mut(base)
                && let AllocationKind::Mapped(mapping) = &mut allocation.kind
            {
                for (device, rights) in &granted {
                    mapping.rights.retain(|(known, _)| known != device);
                    mapping.rights.push((*device, *rights));
                }
            }
        }
        Ok(())
    }

    /// Returns the bases of the mappings in a range. Fails unless the range begins and ends at the borders of
    /// mappings. As recorded, the range may have holes: then only the mappings before the first hole count.
    fn whole_mappings(&self, start: u64, size: u64) -> Answer<Vec<u64>> {
        if let Some((_, allocation)) = self.memory.allocation_at(start)
            && !matches!(allocation.kind, AllocationKind::Mapped(_))
        {
            return invalid("Address range not fully mapped with cuMemMap or equivalent");
        }
        let found: Vec<(u64, u64)> = self.mappings_in(start, size).collect();
        let ends = found.last().is_some_and(|(base, length)| start.checked_add(size) == Some(base + length));
        fail_if(!ends || found[0].0 != start, Code::INVALID_VALUE)?;
        let mut end = start;
        let joined = found.into_iter().take_while(|(base, length)| {
            let follows = *base == end;
            end = base + length;
            follows
        });
        Ok(joined.map(|(base, _)| base).collect())
    }

    /// Returns true if a device can reach the memory of a mapping over a link, or joined its multicast object.
    fn can_reach_mapping(&self, device: usize, base: u64) -> bool {
        let here = self.visible[device];
        self.mapping_at(base).is_some_and(|(_, mapping)| {
            let home = match &mapping.behind {
                HandleTarget::Memory(block) => block.part.device,
                HandleTarget::Multicast(object) => return object.has_device(here) == Ok(true),
            };
            self.has_path(here, home)
        })
    }

    /// `cuMemGetAccess`, for a place that [`Driver::check_access_location`] knows: 0 for memory that was not mapped by
    /// `cuMemMap`; `None` if the address is in no allocation.
    pub(crate) fn query_access(&self, place: &CUmemLocation, address: u64) -> Option<u64> {
        let (_, allocation) = self.memory.allocation_at(address)?;
        let AllocationKind::Mapped(mapping) = &allocation.kind else { return Some(0) };
        let ordinal = usize::try_from(place.id).ok().filter(|_| place.kind.0 == DEVICE);
        Some(ordinal.map_or(AccessRights::Nothing, |ordinal| rights_of(mapping, ordinal)) as u64)
    }

    /// Fails if a location cannot be queried by `cuMemGetAccess`.
    pub(crate) fn check_access_location(&self, place: &CUmemLocation) -> Answer {
        match place.kind.0 {
            DEVICE => self.check_ordinal(place.id).map(|_| ()).or(fail(Code::INVALID_DEVICE)),
            kind if ALL_HOSTS.contains(&kind) => Ok(()),
            _ => fail(Code::INVALID_DEVICE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver, grant};
    use super::*;
    use cupeer_spec::abi::{CUmemAccess_flags, CUmemLocationType};
    use cupeer_topology::Topology;

    const FIRST: CUmemLocation = CUmemLocation { kind: CUmemLocationType(1), id: 0 };
    const SECOND: CUmemLocation = CUmemLocation { kind: CUmemLocationType(1), id: 1 };

    #[test]
    fn access_is_of_whole_mappings_up_to_the_first_hole() {
        let mut driver = driver();
        let at = driver.reserve_addresses(6 * GRANULE, 0, 0).unwrap();
        for (granule, granules) in [(0, 1), (1, 2), (5, 1)] {
            let handle = allocation(&mut driver, 0, granules);
            driver.map_allocation(at + granule * GRANULE, granules * GRANULE, 0, handle).unwrap();
        }
        for (from, granules) in [(0, 2), (0, 4), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
            let answer = grant(&mut driver, at + from * GRANULE, granules, 0, 3);
            assert_eq!(answer, fail(Code::INVALID_VALUE), "{from} {granules}");
        }
        grant(&mut driver, at, 6, 0, 3).unwrap();
        let of = |granule: u64| driver.query_access(&FIRST, at + granule * GRANULE);
        assert_eq!([of(0), of(2), of(3), of(5)], [Some(3), Some(3), None, Some(0)]);
        assert_eq!(driver.query_access(&SECOND, at), Some(0));
    }

    #[test]
    fn all_wishes_are_granted_or_none() {
        let mut driver = driver();
        let at = driver.reserve_addresses(GRANULE, 0, 0).unwrap();
        let handle = allocation(&mut driver, 1, 1);
        driver.map_allocation(at, GRANULE, 0, handle).unwrap();
        let wish = |location, flags| CUmemAccessDesc { location, flags: CUmemAccess_flags(flags) };
        let nowhere = CUmemLocation { id: 99, ..FIRST };
        assert!(driver.set_access(at, GRANULE, &[wish(FIRST, 3), wish(nowhere, 3)]).is_err());
        assert_eq!(driver.query_access(&FIRST, at), Some(0));
        driver.set_access(at, GRANULE, &[wish(FIRST, 3), wish(SECOND, 1), wish(FIRST, 1)]).unwrap();
        assert_eq!((driver.query_access(&FIRST, at), driver.query_access(&SECOND, at)), (Some(1), Some(1)));
        assert_eq!(driver.set_access(at, GRANULE, &[wish(FIRST, 2)]).unwrap_err().messages.len(), 1);
    }

    #[test]
    fn without_a_link_there_is_no_access() {
        let mut driver = Driver::new(Topology::parse("none:2").unwrap(), vec![0, 1]);
        let at = driver.reserve_addresses(GRANULE, 0, 0).unwrap();
        let handle = allocation(&mut driver, 0, 1);
        driver.map_allocation(at, GRANULE, 0, handle).unwrap();
        assert_eq!(grant(&mut driver, at, 1, 1, 3), fail(Code::INVALID_DEVICE));
        grant(&mut driver, at, 1, 1, 0).unwrap();
        grant(&mut driver, at, 1, 0, 3).unwrap();
    }
}
