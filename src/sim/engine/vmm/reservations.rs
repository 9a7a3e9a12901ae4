//! Ranges of addresses that `cuMemAddressReserve` reserves for mappings.
//!
//! Their pages are not accessible, like all addresses of device memory.

use super::super::answer::{Answer, fail_if, invalid, invalid_if};
use super::super::descriptors::GRANULARITY;
use super::super::driver::Driver;
use super::super::pages;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemAddressReserve`, after its null check. The address is a hint.
    pub(crate) fn reserve_addresses(&mut self, size: u64, alignment: u64, wish: u64) -> Answer<u64> {
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        if !size.is_multiple_of(GRANULARITY) {
            return invalid(format!("Parameter size not aligned to minimum granularity ({GRANULARITY:#x} bytes)"));
        }
        invalid_if(alignment != 0 && !alignment.is_power_of_two(), "Parameter alignment must be a power of two")?;
        if !wish.is_multiple_of(GRANULARITY) {
            // The text is the text of the driver, including the second closing parenthesis.
            let text = format!("Requested address, addr, not aligned to minimum granularity ({GRANULARITY:#x} bytes))");
            return invalid(text);
        }
        let start = reserve_pages(size, alignment.max(GRANULARITY), wish).ok_or(Code::OUT_OF_MEMORY)?;
        self.vmm.reservations.insert(start, size);
        Ok(start)
    }

    /// `cuMemAddressFree`.
    pub(crate) fn free_addresses(&mut self, start: u64, size: u64) -> Answer {
        invalid_if(start == 0, "Parameter ptr cannot be 0")?;
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        let Some(reservation) = self.reservation_of(start) else {
            return invalid(
                "Address range requested to free must belong to a range reserved previously by cuMemAddressReserve()",
            );
        };
        fail_if(reservation != (start, size), Code::INVALID_VALUE)?;
        invalid_if(self.mappings_in(start, size).next().is_some(), "Address range contains existing mapping")?;
        self.vmm.reservations.remove(&start);
        // SAFETY: the pages are those of a reservation that ends here; no code can have touched them.
        unsafe { pages::unmap_pages(start, size) };
        Ok(())
    }

    /// Returns the start and the size of the reservation that contains an address.
    pub(crate) fn reservation_of(&self, address: u64) -> Option<(u64, u64)> {
        let (start, size) = self.vmm.reservations.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size))
    }
}

/// Reserves aligned pages at the address that the program wants, or anywhere.
fn reserve_pages(size: u64, alignment: u64, wanted: u64) -> Option<u64> {
    let at = pages::map_pages(wanted, size, pages::UNTOUCHED, 0)?;
    if at.is_multiple_of(alignment) {
        return Some(at);
    }
    // SAFETY: the pages are new, so nothing uses them.
    unsafe { pages::unmap_pages(at, size) };
    let room = size.checked_add(alignment)?;
    let start = pages::map_pages(0, room, pages::UNTOUCHED, 0)?;
    let at = start.next_multiple_of(alignment);
    // SAFETY: these parts of the new pages are before and after those that the caller receives.
    unsafe {
        pages::unmap_pages(start, at - start);
        pages::unmap_pages(at + size, start + room - (at + size));
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver};
    use super::*;
    use crate::engine::answer::fail;

    #[test]
    fn a_reservation_has_its_alignment_and_its_wish_where_it_can() {
        let mut driver = driver();
        let at = driver.reserve_addresses(3 * GRANULE, 1 << 30, 0).unwrap();
        assert!(at.is_multiple_of(1 << 30));
        assert_eq!(driver.reservation_of(at + 3 * GRANULE - 1), Some((at, 3 * GRANULE)));
        assert_eq!(driver.reservation_of(at + 3 * GRANULE), None);
        let other = driver.reserve_addresses(GRANULE, 0, at).unwrap();
        assert_ne!(other, at);
        driver.free_addresses(at, 3 * GRANULE).unwrap();
        assert_eq!(driver.reserve_addresses(3 * GRANULE, 0, at), Ok(at));
        assert_eq!(driver.reserve_addresses(1 << 60, 0, 0), fail(Code::OUT_OF_MEMORY));
        assert_eq!(driver.reserve_addresses(GRANULE, 3, 0).unwrap_err().code, Code::INVALID_VALUE);
    }

    #[test]
    fn it_is_freed_whole_and_empty() {
        let mut driver = driver();
        let at = driver.reserve_addresses(2 * GRANULE, 0, 0).unwrap();
        let handle = allocation(&mut driver, 0, 1);
        driver.map_allocation(at + GRANULE, GRANULE, 0, handle).unwrap();
        assert_eq!(driver.free_addresses(at, GRANULE), fail(Code::INVALID_VALUE));
        assert_eq!(driver.free_addresses(at + GRANULE, GRANULE), fail(Code::INVALID_VALUE));
        assert_eq!(driver.free_addresses(at, 2 * GRANULE).unwrap_err().messages.len(), 1);
        driver.unmap_range(at, 2 * GRANULE).unwrap();
        driver.free_addresses(at, 2 * GRANULE).unwrap();
        assert_eq!(driver.free_addresses(at, 2 * GRANULE).unwrap_err().messages.len(), 1);
    }
}
