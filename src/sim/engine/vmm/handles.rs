//! Handles of allocations.
//!
//! A handle counts how often it must be released, and what is mapped with it: as recorded, it remains usable
//! after its last release until nothing is mapped with it.

use super::super::answer::{Answer, Failure, fail, fail_if, invalid, invalid_if, refuse};
use super::super::descriptors::{GRANULARITY, ShareableKind};
use super::super::driver::{
    ALL_WINDOWS, AllocationHandle, AllocationKind, DEVICE, Driver, FABRIC, HOST, HOST_NUMA, HandleTarget, PINNED,
};
use super::super::multicasts::Multicast;
use super::super::space::HandleKind;
use cupeer_spec::abi::{
    CUmemAllocationFlags, CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocationType,
};
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// CU_MEM_ALLOCATION_COMP_GENERIC.
const COMPRESSED: u8 = 1;
/// CU_DEVICE_INVALID.
const NOWHERE: i32 = -2;

/// Returns the failure for a number that is not a handle.
pub(super) fn unknown_handle() -> Failure {
    Failure {
        code: Code::INVALID_VALUE,
        messages: vec!["Parameter handle is not a valid CUmemGenericAllocationHandle".into()],
    }
}

/// Checks the properties of a new allocation that do not depend on a device.
fn check_properties(wanted: &CUmemAllocationProp) -> Answer {
    let types = wanted.requestedHandleTypes.0;
    match wanted.location.kind.0 {
        DEVICE => {}
        HOST if types != 0 => {
            return invalid("Value of requestedHandleTypes for HOST memory must be 0");
        }
        // The attributes of the device report no support.
        HOST | HOST_NUMA => return fail(Code::NOT_SUPPORTED),
        _ => {
            return invalid("Value of prop->location.type is not valid: must be DEVICE, HOST_NUMA, or HOST");
        }
    }
    let flags = &wanted.allocFlags;
    fail_if(
        wanted.kind.0 != PINNED
            || !wanted.win32HandleMetaData.is_null()
            || flags.reserved != [0; 4]
            || flags.compressionType > COMPRESSED
            || types & ALL_WINDOWS != 0,
        Code::INVALID_VALUE,
    )?;
    Ok(())
}

impl Driver {
    /// `cuMemCreate`, after its null checks.
    pub(crate) fn create_allocation(&mut self, size: u64, wanted: &CUmemAllocationProp) -> Answer<u64> {
        invalid_if(size == 0, "Parameter size cannot be 0")?;
        check_properties(wanted)?;
        // The driver has no message about the ordinal.
        let device = self.check_ordinal(wanted.location.id).or(fail(Code::INVALID_DEVICE))?;
        if !size.is_multiple_of(GRANULARITY) {
            return invalid(format!("Requested size not aligned to minimum granularity ({GRANULARITY:#x} bytes)"));
        }
        let types = wanted.requestedHandleTypes.0;
        if types & FABRIC != 0 {
            // The machine has no IMEX channel.
            return refuse(Code::NOT_PERMITTED, "Failed to allocate physical memory");
        }
        let block = self.create_block(ShareableKind::Allocation, device, size)?;
        // Memory is not compressed, as the attributes of the device say.
        let flags = CUmemAllocationFlags { compressionType: 0, ..wanted.allocFlags };
        self.add_handle(AllocationHandle::new(HandleTarget::Memory(block), types, flags))
    }

    /// Adds a handle to the table. Returns its number.
    pub(super) fn add_handle(&mut self, handle: AllocationHandle) -> Answer<u64> {
        let number = self.space.new_handle(HandleKind::Allocation);
        match &number {
            Ok(number) => drop(self.vmm.handles.insert(*number, handle)),
            Err(_) => self.release_target(handle),
        }
        number
    }

    fn release_target(&mut self, handle: AllocationHandle) {
        match handle.behind {
            HandleTarget::Memory(block) => self.release_block(block),
            HandleTarget::Multicast(object) => self.unbind_all(&object, handle.bound),
        }
    }

    pub(super) fn handle_mut(&mut self, number: u64) -> Answer<&mut AllocationHandle> {
        self.vmm.handles.get_mut(&number).ok_or_else(unknown_handle)
    }

    /// Returns the handles of multicast objects, each with its object.
    pub(super) fn multicasts_mut(&mut self) -> impl Iterator<Item = (Arc<Multicast>, &mut AllocationHandle)> {
        self.vmm.handles.values_mut().filter_map(|handle| match &handle.behind {
            HandleTarget::Multicast(object) => Some((object.clone(), handle)),
            HandleTarget::Memory(_) => None,
        })
    }

    pub(super) fn handle(&self, number: u64) -> Answer<&AllocationHandle> {
        self.vmm.handles.get(&number).ok_or_else(unknown_handle)
    }

    /// `cuMemRelease`.
    pub(crate) fn release_allocation(&mut self, number: u64) -> Answer {
        let handle = self.vmm.handles.get_mut(&number).ok_or_else(unknown_handle)?;
        handle.references = handle.references.checked_sub(1).ok_or(Code::INVALID_VALUE)?;
        if handle.references == 0 && handle.mappings != 0 && self.space.reuses_early() {
            self.renumber_handle(number);
        }
        self.release_unused_handle(number);
        Ok(())
    }

    /// Gives another number to a released handle that is still mapped, so that its old number can be given
    /// out again.
    fn renumber_handle(&mut self, number: u64) {
        let Ok(hidden) = self.space.new_handle(HandleKind::Other) else { return };
        let Some(handle) = self.vmm.handles.remove(&number) else { return };
        self.vmm.handles.insert(hidden, handle);
        for allocation in self.memory.by_address.values_mut() {
            if let AllocationKind::Mapped(mapping) = &mut allocation.kind
                && mapping.handle == number
            {
                mapping.handle = hidden;
            }
        }
        self.space.recycle_handle(HandleKind::Allocation, number);
    }

    /// Adds `by` to the number of mappings of a handle.
    pub(super) fn add_to_mappings(&mut self, number: u64, by: i32) {
        if let Some(handle) = self.vmm.handles.get_mut(&number) {
            handle.mappings = handle.mappings.saturating_add_signed(by);
        }
        self.release_unused_handle(number);
    }

    fn release_unused_handle(&mut self, number: u64) {
        if self.vmm.handles.get(&number).is_some_and(|handle| handle.references == 0 && handle.mappings == 0)
            && let Some(handle) = self.vmm.handles.remove(&number)
        {
            self.release_target(handle);
            self.space.recycle_handle(HandleKind::Allocation, number);
        }
    }

    /// `cuMemRetainAllocationHandle`, after its null checks.
    pub(crate) fn retain_allocation(&mut self, address: u64) -> Answer<u64> {
        let Some((_, mapping)) = self.mapping_at(address) else {
            let what = match self.reservation_of(address) {
                Some(_) => "have a valid mapping created with a call to cuMemMap()",
                None => "belong to a range reserved previously by cuMemAddressReserve()",
            };
            return invalid(format!("Address specified(addr: {address:#x}) must {what}"));
        };
        let number = mapping.handle;
        let handle = self.vmm.handles.get_mut(&number).ok_or(Code::INVALID_VALUE)?;
        handle.references += 1;
        Ok(number)
    }

    /// `cuMemGetAllocationPropertiesFromHandle`, after its null checks.
    pub(crate) fn allocation_properties(&self, number: u64) -> Answer<CUmemAllocationProp> {
        let handle = self.handle(number)?;
        let HandleTarget::Memory(block) = &handle.behind else { return Err(unknown_handle()) };
        let ordinal = self.ordinal_of(block.part.device);
        Ok(CUmemAllocationProp {
            kind: CUmemAllocationType(PINNED),
            requestedHandleTypes: CUmemAllocationHandleType(handle.types),
            location: CUmemLocation {
                kind: CUmemLocationType(DEVICE),
                id: ordinal.map_or(NOWHERE, |ordinal| ordinal as i32),
            },
            win32HandleMetaData: core::ptr::null_mut(),
            allocFlags: handle.flags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver, on};
    use super::*;

    #[test]
    fn properties_are_checked_before_the_device() {
        let mut driver = driver();
        let mut code = |wanted: CUmemAllocationProp| driver.create_allocation(GRANULE, &wanted).unwrap_err().code;
        assert_eq!(code(on(99, 1)), Code::INVALID_DEVICE);
        assert_eq!(code(on(99, 2)), Code::INVALID_VALUE);
        assert_eq!(code(on(0, FABRIC)), Code::NOT_PERMITTED);
        let mut wanted = on(0, 0);
        wanted.location.kind.0 = HOST_NUMA;
        assert_eq!(code(wanted), Code::NOT_SUPPORTED);
        let mut wanted = on(0, 0);
        wanted.allocFlags.reserved[3] = 1;
        assert_eq!(code(wanted), Code::INVALID_VALUE);
        assert_eq!(driver.create_allocation(GRANULE + 4096, &on(0, 0)).unwrap_err().code, Code::INVALID_VALUE);
        let total = driver.memory_info(0).1;
        let more = (total + GRANULE).next_multiple_of(GRANULE);
        assert_eq!(driver.create_allocation(more, &on(0, 0)), fail(Code::OUT_OF_MEMORY));
    }

    #[test]
    fn a_handle_lives_until_it_is_released_and_unmapped() {
        let mut driver = driver();
        let (free, _) = driver.memory_info(0);
        let handle = allocation(&mut driver, 0, 1);
        let at = driver.reserve_addresses(GRANULE, 0, 0).unwrap();
        driver.map_allocation(at, GRANULE, 0, handle).unwrap();
        assert_eq!(driver.retain_allocation(at + 5), Ok(handle));
        driver.release_allocation(handle).unwrap();
        driver.release_allocation(handle).unwrap();
        assert_eq!(driver.release_allocation(handle), fail(Code::INVALID_VALUE));
        assert_eq!(driver.allocation_properties(handle).unwrap().requestedHandleTypes.0, 1);
        assert_eq!(driver.memory_info(0).0, free - GRANULE);
        driver.unmap_range(at, GRANULE).unwrap();
        assert_eq!(driver.memory_info(0).0, free);
        assert_eq!(driver.allocation_properties(handle), Err(unknown_handle()));
    }
}
