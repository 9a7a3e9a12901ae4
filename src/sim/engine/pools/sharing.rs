//! Exports and imports pools.

use super::super::answer::{Answer, fail, fail_if, invalid, invalid_if, refuse_if};
use super::super::descriptors::{self, GRANULARITY, ShareableKind};
use super::super::driver::{DESCRIPTOR, Driver, FABRIC, PointerTable, Pool, PoolOrigin, WINDOWS, WINDOWS_KMT};
use super::super::space::HandleKind;
use cupeer_spec::results::Result as Code;

/// The driver's message for an unknown handle type.
const NOT_A_TYPE: &str = "Invalid handletype requested";

impl Driver {
    /// `cuMemPoolExportToShareableHandle`, after its null checks. Returns a descriptor.
    pub(crate) fn export_pool(&mut self, handle: u64, kind: i32, flags: u64) -> Answer<i32> {
        invalid_if(flags != 0, "Parameter flags must be 0")?;
        invalid_if(!matches!(kind, DESCRIPTOR | WINDOWS | WINDOWS_KMT | FABRIC), NOT_A_TYPE)?;
        let at = self.memory.pools.find_even_destroyed(handle).ok_or(Code::INVALID_VALUE)?;
        let pool = &self.memory.pools.pools[at];
        match pool.origin {
            PoolOrigin::Created if !pool.is_destroyed => {}
            PoolOrigin::Created | PoolOrigin::Default => {
                return invalid(
                    "Only memory pools created with the pool creation API and pools that have not been destroyed can be exported",
                );
            }
            PoolOrigin::Imported => {
                return invalid("Only memory pools created with the pool creation API can be exported");
            }
        }
        invalid_if(pool.types & kind == 0, "Handle type was not requested during pool creation")?;
        if kind == FABRIC {
            // The machine has no IMEX channel.
            return fail(Code::NOT_PERMITTED);
        }
        if pool.table.is_none() {
            let block = self.create_block(ShareableKind::Pool, pool.device, GRANULARITY)?;
            self.memory.pools.pools[at].table = Some(PointerTable::new(block));
        }
        let table = self.memory.pools.pools[at].table.as_ref().ok_or(Code::UNKNOWN)?;
        table.block.backing.check_still_open()?;
        let issued = descriptors::create_descriptor(&table.block.backing, table.block.part);
        issued.ok_or_else(|| Code::OPERATING_SYSTEM.into())
    }

    /// `cuMemPoolImportFromShareableHandle`, after its null check. A second import returns the same pool.
    /// `shared` is a descriptor or an address.
    pub(crate) fn import_pool(&mut self, shared: u64, kind: i32, flags: u64) -> Answer<u64> {
        invalid_if(flags != 0, "flags must be 0")?;
        match kind {
            DESCRIPTOR => {}
            WINDOWS | WINDOWS_KMT => return fail(Code::NOT_SUPPORTED),
            FABRIC if shared == 0 => return invalid("handle cannot be NULL"),
            // The machine has no IMEX channel.
            FABRIC => return fail(Code::NOT_PERMITTED),
            _ => return invalid(NOT_A_TYPE),
        }
        let (part, file) = descriptors::read_descriptor(shared as i32).ok_or(Code::UNKNOWN)?;
        refuse_if(
            part.thing != ShareableKind::Pool,
            Code::NOT_SUPPORTED,
            "File descriptor to import must originate from CUDA Mempool APIs!",
        )?;
        fail_if(part.device >= self.machine.devices.len(), Code::UNKNOWN)?;
        let block = self.import_block(part, file)?;
        let known = self.memory.pools.pools.iter_mut().find(|pool| {
            pool.origin == PoolOrigin::Imported
                && pool.table.as_ref().is_some_and(|table| table.block.is_same_part(&block))
        });
        if let Some(known) = known {
            known.references += 1;
            return Ok(known.handle);
        }
        let handle = match self.space.new_handle(HandleKind::Pool) {
            Ok(handle) => handle,
            Err(failure) => {
                self.release_block(block);
                return Err(failure);
            }
        };
        let device = self.ordinal_of(part.device);
        let (table, is_hidden) = (Some(PointerTable::new(block)), device.is_none());
        let pool = Pool::new(handle, PoolOrigin::Imported, device.unwrap_or(0));
        self.memory.pools.add_pool(Pool { table, is_hidden, ..pool });
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{allocation, shareable};
    use super::*;
    use crate::engine::descriptors::close;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_pool_is_imported_once() {
        let (mut importer, mut exporter) = (Driver::in_context(), Driver::in_context());
        let pool = shareable(&mut exporter);
        let (a, b) =
            (exporter.export_pool(pool, DESCRIPTOR, 0).unwrap(), exporter.export_pool(pool, DESCRIPTOR, 0).unwrap());
        let first = importer.import_pool(a as u64, DESCRIPTOR, 0).unwrap();
        assert_eq!(importer.import_pool(b as u64, DESCRIPTOR, 0), Ok(first));
        importer.destroy_pool(first).unwrap();
        importer.destroy_pool(first).unwrap();
        let second = importer.import_pool(b as u64, DESCRIPTOR, 0).unwrap();
        assert_ne!(first, second);
        // One's own is another pool.
        let own = exporter.import_pool(b as u64, DESCRIPTOR, 0).unwrap();
        assert_ne!(own, pool);
        for imported in [(&mut importer, second), (&mut exporter, own)] {
            let (driver, pool) = imported;
            assert_eq!(driver.export_pool(pool, DESCRIPTOR, 0).unwrap_err().code, Code::INVALID_VALUE);
            let at = driver.memory.pools.find_pool(pool).unwrap();
            assert_eq!(driver.memory.pools.check_room(at, 512), fail(Code::INVALID_VALUE));
            assert_eq!(driver.memory.pools.set_current(0, at), fail(Code::INVALID_VALUE));
        }
        close(a);
        close(b);
    }

    #[test]
    fn memory_is_free_when_the_last_one_has_let_go() {
        let (mut importer, mut exporter) = (Driver::in_context(), Driver::in_context());
        let (free, _) = exporter.memory_info(0);
        let pool = shareable(&mut exporter);
        let descriptor = exporter.export_pool(pool, DESCRIPTOR, 0).unwrap();
        let imported = importer.import_pool(descriptor as u64, DESCRIPTOR, 0).unwrap();
        let at = allocation(&mut exporter, pool, 4 * MIB);
        let data = exporter.export_pool_pointer(at).unwrap();
        let there = importer.import_pool_pointer(imported, &data).unwrap();
        exporter.destroy_pool(pool).unwrap();
        exporter.free_device(at).unwrap();
        assert_eq!(importer.destroy_pool(imported).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(exporter.memory_info(0).0, free - GRANULARITY - 4 * MIB);
        importer.free_device(there).unwrap();
        assert_eq!(exporter.memory_info(0).0, free - GRANULARITY);
        importer.destroy_pool(imported).unwrap();
        assert_eq!(exporter.memory_info(0).0, free - GRANULARITY);
        close(descriptor);
        assert_eq!(exporter.memory_info(0).0, free);
    }

    #[test]
    fn only_what_was_asked_for_can_be_exported() {
        let mut driver = Driver::in_context();
        let pool = shareable(&mut driver);
        let said = |driver: &mut Driver, pool, kind, flags| {
            driver.export_pool(pool, kind, flags).unwrap_err().messages.remove(0)
        };
        assert_eq!(said(&mut driver, pool, FABRIC, 0), "Handle type was not requested during pool creation");
        assert_eq!(said(&mut driver, pool, DESCRIPTOR, 1), "Parameter flags must be 0");
        let default = driver.memory.pools.handle(0);
        assert!(said(&mut driver, default, DESCRIPTOR, 0).ends_with("have not been destroyed can be exported"));
        assert_eq!(driver.import_pool(987, DESCRIPTOR, 0), fail(Code::UNKNOWN));
        let block = driver.create_block(ShareableKind::Allocation, 0, GRANULARITY).unwrap();
        let descriptor = descriptors::create_descriptor(&block.backing, block.part).unwrap();
        assert_eq!(driver.import_pool(descriptor as u64, DESCRIPTOR, 0).unwrap_err().code, Code::NOT_SUPPORTED);
        close(descriptor);
    }
}
