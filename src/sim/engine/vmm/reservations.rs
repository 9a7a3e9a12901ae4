//! Addresses that are reserved, for mappings.
//!
//! They are pages that may not be touched, as all addresses of device memory are.

use super::super::answer::{Answer, fail, refuse};
use super::super::driver::Driver;
use super::super::tickets::GRANULARITY;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemAddressReserve`, after its null check. The address is a wish.
    pub(crate) fn reserve_addresses(&mut self, size: u64, alignment: u64, wish: u64) -> Answer<u64> {
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter size cannot be 0");
        }
        if !size.is_multiple_of(GRANULARITY) {
            let text = format!("Parameter size not aligned to minimum granularity ({GRANULARITY:#x} bytes)");
            return refuse(Code::INVALID_VALUE, text);
        }
        if alignment != 0 && !alignment.is_power_of_two() {
            return refuse(Code::INVALID_VALUE, "Parameter alignment must be a power of two");
        }
        if !wish.is_multiple_of(GRANULARITY) {
            // The second bracket is the driver's.
            let text = format!(
                "Requested address, addr, not aligned to minimum granularity ({GRANULARITY:#x} bytes))"
            );
            return refuse(Code::INVALID_VALUE, text);
        }
        let start = map(size, alignment.max(GRANULARITY), wish).ok_or(Code::OUT_OF_MEMORY)?;
        self.vmm.reservations.insert(start, size);
        Ok(start)
    }

    /// `cuMemAddressFree`.
    pub(crate) fn free_addresses(&mut self, start: u64, size: u64) -> Answer {
        if start == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter ptr cannot be 0");
        }
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter size cannot be 0");
        }
        let Some(reservation) = self.reservation_of(start) else {
            let text = "Address range requested to free must belong to a range reserved previously by cuMemAddressReserve()";
            return refuse(Code::INVALID_VALUE, text);
        };
        if reservation != (start, size) {
            return fail(Code::INVALID_VALUE);
        }
        if self.mappings_in(start, size).next().is_some() {
            return refuse(Code::INVALID_VALUE, "Address range contains existing mapping");
        }
        self.vmm.reservations.remove(&start);
        unmap(start, size);
        Ok(())
    }

    /// The reservation in which an address lies: its start and size.
    pub(crate) fn reservation_of(&self, address: u64) -> Option<(u64, u64)> {
        let (start, size) = self.vmm.reservations.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size))
    }
}

/// Reserves pages at the wish, or where there is room.
fn map(size: u64, alignment: u64, wish: u64) -> Option<u64> {
    let at = pages(size, wish)?;
    if at.is_multiple_of(alignment) {
        return Some(at);
    }
    unmap(at, size);
    let room = size.checked_add(alignment)?;
    let start = pages(room, 0)?;
    let at = start.next_multiple_of(alignment);
    let (before, after) = (at - start, start + room - (at + size));
    unmap(start, before);
    unmap(at + size, after);
    Some(at)
}

fn pages(size: u64, wish: u64) -> Option<u64> {
    // SAFETY: a new anonymous mapping; the kernel puts it at the wish only where nothing is.
    let at = unsafe {
        libc::mmap(
            wish as *mut _,
            usize::try_from(size).ok()?,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

fn unmap(start: u64, size: u64) {
    if size > 0 {
        // SAFETY: the pages are those of `pages`, or a part of them, and nobody can have touched them.
        unsafe { libc::munmap(start as *mut _, size as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver};
    use super::*;

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
        driver.map(at + GRANULE, GRANULE, 0, handle).unwrap();
        assert_eq!(driver.free_addresses(at, GRANULE), fail(Code::INVALID_VALUE));
        assert_eq!(driver.free_addresses(at + GRANULE, GRANULE), fail(Code::INVALID_VALUE));
        assert_eq!(driver.free_addresses(at, 2 * GRANULE).unwrap_err().messages.len(), 1);
        driver.unmap(at, 2 * GRANULE).unwrap();
        driver.free_addresses(at, 2 * GRANULE).unwrap();
        assert_eq!(driver.free_addresses(at, 2 * GRANULE).unwrap_err().messages.len(), 1);
    }
}
