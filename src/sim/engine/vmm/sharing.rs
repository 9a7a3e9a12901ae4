//! Exports allocations to other processes, and imports their allocations.

use super::super::answer::{Answer, Failure, fail, fail_if, invalid, invalid_if};
use super::super::descriptors::{self, ShareableKind};
use super::super::driver::{AllocationHandle, DESCRIPTOR, Driver, FABRIC, HandleTarget, WINDOWS, WINDOWS_KMT};
use super::super::multicasts::Multicast;
use cupeer_spec::results::Result as Code;

/// The driver's message for a null shareable handle.
pub(crate) const NO_HANDLE: &str = "Parameter shareableHandle cannot be NULL";

impl Driver {
    /// `cuMemExportToShareableHandle`, after its null checks. Returns a descriptor.
    pub(crate) fn export_allocation(&mut self, number: u64, kind: i32, flags: u64) -> Answer<i32> {
        let handle = self.handle(number)?;
        invalid_if(flags != 0, "Parameter flags must be 0")?;
        invalid_if(!matches!(kind, DESCRIPTOR | WINDOWS | WINDOWS_KMT | FABRIC), "Invalid export handleType")?;
        // At creation, descriptors are the only handle type that a program can request here.
        invalid_if(handle.types & kind == 0, "Allocation not configured for sharing with requested handleType")?;
        let issued = match &handle.behind {
            HandleTarget::Memory(block) => {
                block.backing.check_still_open()?;
                descriptors::create_descriptor(&block.backing, block.part)
            }
            HandleTarget::Multicast(object) => object.create_descriptor(),
        };
        issued.ok_or_else(|| Code::OPERATING_SYSTEM.into())
    }

    /// `cuMemImportFromShareableHandle`, after its null check; `shared` is a descriptor or an address.
    pub(crate) fn import_allocation(&mut self, shared: u64, kind: i32) -> Answer<u64> {
        match kind {
            DESCRIPTOR => {}
            WINDOWS | WINDOWS_KMT => return fail(Code::NOT_SUPPORTED),
            FABRIC if shared == 0 => return invalid(NO_HANDLE),
            // The machine has no IMEX channel.
            FABRIC => return fail(Code::NOT_PERMITTED),
            _ => return invalid("Parameter shHandleType is not valid"),
        }
        if let Some(object) = Multicast::import(shared as i32) {
            return self.add_handle(AllocationHandle::new_imported(HandleTarget::Multicast(object)));
        }
        let (part, file) = descriptors::read_descriptor(shared as i32).ok_or(Code::UNKNOWN)?;
        if part.thing != ShareableKind::Allocation {
            let texts = [
                "File descriptor to import must originate from CUDA VMM APIs or graphics libraries for interop!",
                "Failed to import object from file descriptor.",
            ];
            return Err(Failure { code: Code::NOT_SUPPORTED, messages: texts.map(Into::into).into() });
        }
        fail_if(part.device >= self.machine.devices.len(), Code::UNKNOWN)?;
        let block = self.import_block(part, file)?;
        self.add_handle(AllocationHandle::new_imported(HandleTarget::Memory(block)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GRANULE, allocation, driver, on};
    use super::*;
    use descriptors::close;

    #[test]
    fn released_memory_is_imported_again_as_long_as_there_is_a_descriptor() {
        let mut driver = driver();
        let (free, _) = driver.memory_info(0);
        let handle = allocation(&mut driver, 0, 1);
        let descriptor = driver.export_allocation(handle, DESCRIPTOR, 0).unwrap();
        driver.release_allocation(handle).unwrap();
        assert_eq!(driver.memory_info(0).0, free - GRANULE);
        let again = driver.import_allocation(descriptor as u64, DESCRIPTOR).unwrap();
        close(descriptor);
        // Its number is given out again.
        assert_eq!(again, handle);
        assert_eq!(driver.memory_info(0).0, free - GRANULE);
        assert_eq!(driver.allocation_properties(again).unwrap().requestedHandleTypes.0, 0);
        assert_eq!(driver.export_allocation(again, DESCRIPTOR, 0).unwrap_err().code, Code::INVALID_VALUE);
        driver.release_allocation(again).unwrap();
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn another_driver_holds_what_it_imports() {
        // Two drivers of one process know nothing of each other: they share as two processes do.
        let (mut exporter, mut importer) = (driver(), driver());
        let (free, _) = exporter.memory_info(1);
        let handle = allocation(&mut exporter, 1, 2);
        let descriptor = exporter.export_allocation(handle, DESCRIPTOR, 0).unwrap();
        let a = importer.import_allocation(descriptor as u64, DESCRIPTOR).unwrap();
        let b = importer.import_allocation(descriptor as u64, DESCRIPTOR).unwrap();
        close(descriptor);
        exporter.release_allocation(handle).unwrap();
        assert_eq!(importer.allocation_properties(a).unwrap().location.id, 1);
        importer.release_allocation(a).unwrap();
        assert_eq!(exporter.memory_info(1).0, free - 2 * GRANULE);
        importer.release_allocation(b).unwrap();
        assert_eq!(exporter.memory_info(1).0, free);
        assert!(importer.vmm.foreign.is_empty());
    }

    #[test]
    fn only_what_was_asked_for_can_be_exported() {
        let mut driver = driver();
        let handle = driver.create_allocation(GRANULE, &on(0, 0)).unwrap();
        let mut said = |kind, flags| driver.export_allocation(handle, kind, flags).unwrap_err().messages;
        assert_eq!(said(3, 0), ["Invalid export handleType"]);
        assert_eq!(said(3, 1), ["Parameter flags must be 0"]);
        for kind in [DESCRIPTOR, FABRIC] {
            assert_eq!(said(kind, 0), ["Allocation not configured for sharing with requested handleType"]);
        }
        assert_eq!(driver.import_allocation(1, FABRIC), fail(Code::NOT_PERMITTED));
        assert_eq!(driver.import_allocation(0, DESCRIPTOR), fail(Code::UNKNOWN));
    }
}
