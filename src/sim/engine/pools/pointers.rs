//! Pointers into shared pools that leave the process, and that come in.
//!
//! The 64 bytes that go from one process to the other begin with the exporter's pid, as recorded, and name an entry of
//! the pool's table. Only who has imported the pool can follow them.

use super::super::answer::{Answer, fail, fail_if, invalid, invalid_if};
use super::super::backing::Backing;
use super::super::driver::{
    Allocation, AllocationKind, Driver, ExportName, PointerEntry, PoolOrigin, PoolSharing, RetainedMemory,
    StorePosition, padded_size,
};
use super::super::limits::random_bytes;
use super::super::space::Region;
use cupeer_spec::results::Result as Code;

/// The driver's message for export data that names no exported pointer.
const NOTHING: &str = "Failed to import allocation based on export data";
/// The driver's message for memory that is not from a pool of this process.
const NO_POOL: &str = "Can't export a pointer that doesn't belong to CUmemoryPool based allocation";

/// Content of the export data of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PointerLocator {
    /// Inode of the file that contains the pool's table.
    inode: u64,
    /// Offset of the pool's table in the file.
    table: u64,
    token: u64,
    slot: u16,
}

impl PointerLocator {
    fn encode(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let words = [u64::from(std::process::id()), self.inode, self.table, self.token, self.slot.into()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes export data; `None` if this driver did not write the bytes.
    fn decode(bytes: &[u8; 64]) -> Option<PointerLocator> {
        let mut words = bytes.chunks_exact(8).map(|word| word.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)));
        let mut next = || words.next().unwrap_or_default();
        let (pid, inode, table, token, slot) = (next(), next(), next(), next(), next());
        (pid != 0 && token != 0).then_some(PointerLocator { inode, table, token, slot: u16::try_from(slot).ok()? })
    }
}

/// Returns a random number that no other export has.
fn random_token() -> u64 {
    u64::from_ne_bytes(random_bytes()).max(1)
}

impl Driver {
    /// `cuMemPoolExportPointer`, after its null check. Each call for an allocation returns the same bytes.
    pub(crate) fn export_pool_pointer(&mut self, address: u64) -> Answer<[u8; 64]> {
        let Some((base, allocation)) = self.memory.allocation_at(address) else {
            return invalid("Could not find a valid allocation for this pointer");
        };
        let (AllocationKind::Pool { pool: at, shared }, Some(stored)) = (&allocation.kind, &allocation.stored) else {
            return invalid(NO_POOL);
        };
        let (at, shared, size) = (*at, *shared, allocation.size);
        if matches!(shared, PoolSharing::Imported { .. }) {
            return invalid(NO_POOL);
        }
        let entry = PointerEntry { token: random_token(), offset: stored.offset, size };
        let pool = &mut self.memory.pools.pools[at];
        invalid_if(pool.types == 0, "Can't export a pointer that doesn't belong to IPC-capable CUmemoryPool")?;
        invalid_if(base != address, "Passed pointer needs to be base address of a previous allocation")?;
        // As recorded, the pool must have been exported before, but may already be destroyed.
        let table = pool.table.as_mut().ok_or(Code::INVALID_VALUE)?;
        let (slot, token) = match shared {
            PoolSharing::Exported { slot } => (slot, table.read(slot)?.token),
            _ => (table.add(entry)?, entry.token),
        };
        let (inode, place) = (table.block.backing.inode(), table.block.part.offset);
        if let Some(Allocation { kind: AllocationKind::Pool { shared, .. }, .. }) = self.memory.get_mut(base) {
            *shared = PoolSharing::Exported { slot };
        }
        Ok(PointerLocator { inode, table: place, token, slot }.encode())
    }

    /// `cuMemPoolImportPointer`, after its null checks. A second import returns the same address.
    pub(crate) fn import_pool_pointer(&mut self, pool: u64, data: &[u8; 64]) -> Answer<u64> {
        let at = self.memory.pools.find_pool(pool)?;
        let pool = &self.memory.pools.pools[at];
        invalid_if(pool.origin != PoolOrigin::Imported, "Cannot import onto a CUmemoryPool of this type")?;
        let (Some(table), Some(locator)) = (&pool.table, PointerLocator::decode(data)) else {
            return invalid(NOTHING);
        };
        let block = &table.block;
        // The pointer must be of the pool that this process imported.
        invalid_if((locator.inode, locator.table) != (block.backing.inode(), block.part.offset), NOTHING)?;
        let token = locator.token;
        if let Some(known) = self.memory.find_shared(at, PoolSharing::Imported { token }) {
            return Ok(known);
        }
        let wanted = table.read(locator.slot)?;
        invalid_if(wanted.token != token || wanted.size == 0, NOTHING)?;
        let (backing, is_own) = (block.backing.clone(), block.is_own());
        // Memory of this process needs no lock: see `Driver::is_open`.
        fail_if(!is_own && !backing.lock_shared(wanted.offset), Code::OPERATING_SYSTEM)?;
        // With the lock, the memory stays, unless its owner released it before the lock.
        let let_go = |backing: &Backing| {
            if !is_own {
                backing.unlock(wanted.offset)
            }
        };
        if table.read(locator.slot) != Ok(wanted) {
            let_go(&backing);
            return invalid(NOTHING);
        }
        let PointerEntry { offset, size, .. } = wanted;
        let device = pool.device;
        let (Some(taken), Some(address)) = (padded_size(size), self.space.take_addresses(size, Region::Pools)) else {
            let_go(&backing);
            return fail(Code::OUT_OF_MEMORY);
        };
        // The imported memory belongs to no context.
        let kind = AllocationKind::Pool { pool: at, shared: PoolSharing::Imported { token } };
        let allocation = Allocation { sync_memops: false, ..Allocation::new(size, kind, 0, device) };
        let allocation = allocation.with_store(StorePosition { backing, offset });
        self.memory.insert(address, allocation);
        self.memory.pools.add_use(at, taken);
        Ok(address)
    }

    /// Releases the memory of a pool's allocation.
    pub(crate) fn release_pooled(&mut self, pool: usize, shared: PoolSharing, device: usize, offset: u64, taken: u64) {
        let table = self.memory.pools.pools[pool].table.as_ref();
        match (shared, table) {
            // As recorded, freed memory can still be imported; here, until the memory is needed again.
            (PoolSharing::Exported { slot }, Some(_)) => {
                let name = Some(ExportName::Pointer { pool, slot });
                self.stores.keep_retained(RetainedMemory { device, offset, size: taken, name });
            }
            (PoolSharing::Imported { .. }, Some(table)) if table.block.is_own() => {}
            (PoolSharing::Imported { .. }, Some(table)) => table.block.backing.unlock(offset),
            _ => self.return_memory(device, offset, taken),
        }
        self.subtract_use(pool, taken);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{allocation, shareable};
    use super::*;
    use crate::engine::descriptors::close;

    /// A pool of one driver that another has imported.
    fn imported(exporter: &mut Driver, importer: &mut Driver) -> (u64, u64) {
        let pool = shareable(exporter);
        let descriptor = exporter.export_pool(pool, 1, 0).unwrap();
        let there = importer.import_pool(descriptor as u64, 1, 0).unwrap();
        close(descriptor);
        (pool, there)
    }

    #[test]
    fn bytes_say_all_and_begin_with_the_pid() {
        let locator = PointerLocator { inode: 5, table: 6 << 20, token: u64::MAX, slot: 7 };
        let bytes = locator.encode();
        assert_eq!(PointerLocator::decode(&bytes), Some(locator));
        assert_eq!(bytes[..4], std::process::id().to_le_bytes());
        assert_eq!(PointerLocator::decode(&[0; 64]), None);
        assert_eq!(PointerLocator::decode(&[0xff; 64]), None);
    }

    #[test]
    fn a_pointer_is_of_one_pool_and_imported_once() {
        let (mut importer, mut exporter) = (Driver::in_context(), Driver::in_context());
        let (pool, there) = imported(&mut exporter, &mut importer);
        let (_, wrong) = imported(&mut exporter, &mut importer);
        let at = allocation(&mut exporter, pool, 4096);
        let data = exporter.export_pool_pointer(at).unwrap();
        assert_eq!(exporter.export_pool_pointer(at), Ok(data));
        let said = |answer: Answer<u64>| answer.unwrap_err().messages.remove(0);
        assert_eq!(said(importer.import_pool_pointer(wrong, &data)), NOTHING);
        assert_eq!(said(importer.import_pool_pointer(there, &[0; 64])), NOTHING);
        assert_eq!(said(exporter.import_pool_pointer(pool, &data)), "Cannot import onto a CUmemoryPool of this type");
        let first = importer.import_pool_pointer(there, &data).unwrap();
        assert_eq!(importer.import_pool_pointer(there, &data), Ok(first));
        assert_eq!(importer.export_pool_pointer(first).unwrap_err().code, Code::INVALID_VALUE);
        importer.free_device(first).unwrap();
        assert_eq!(importer.free_device(first), fail(Code::INVALID_VALUE));
        exporter.free_device(at).unwrap();
        // Freed memory stays until its place is needed.
        let late = importer.import_pool_pointer(there, &data).unwrap();
        exporter.memory_info(0);
        importer.free_device(late).unwrap();
        let late = importer.import_pool_pointer(there, &data).unwrap();
        importer.free_device(late).unwrap();
        // The new memory in its place is not the exported memory.
        let at = allocation(&mut exporter, pool, 4096);
        exporter.export_pool_pointer(at).unwrap();
        assert_eq!(said(importer.import_pool_pointer(there, &data)), NOTHING);
    }

    #[test]
    fn memory_that_is_open_elsewhere_is_not_given_out() {
        let (mut importer, mut exporter) = (Driver::in_context(), Driver::in_context());
        let (pool, there) = imported(&mut exporter, &mut importer);
        let at = allocation(&mut exporter, pool, 4096);
        let data = exporter.export_pool_pointer(at).unwrap();
        let open = importer.import_pool_pointer(there, &data).unwrap();
        exporter.free_device(at).unwrap();
        let other = allocation(&mut exporter, pool, 4096);
        let place = |driver: &Driver, at| {
            driver.memory.allocation_at(at).and_then(|(_, a)| a.stored.clone()).map(|stored| stored.offset)
        };
        assert_ne!(place(&exporter, other), place(&importer, open));
        importer.free_device(open).unwrap();
        exporter.free_device(other).unwrap();
    }

    #[test]
    fn ones_own_pointers_come_back_and_keep_what_is_freed() {
        let mut driver = Driver::in_context();
        let (free, _) = driver.memory_info(0);
        let pool = shareable(&mut driver);
        let descriptor = driver.export_pool(pool, 1, 0).unwrap();
        let own = driver.import_pool(descriptor as u64, 1, 0).unwrap();
        close(descriptor);
        let at = allocation(&mut driver, pool, 4 << 20);
        let data = driver.export_pool_pointer(at).unwrap();
        let there = driver.import_pool_pointer(own, &data).unwrap();
        assert_ne!(there, at);
        let before = driver.memory_info(0).0;
        driver.free_device(at).unwrap();
        driver.destroy_pool(pool).unwrap();
        assert!(driver.destroy_pool(own).is_err(), "a pointer is open");
        assert_eq!(driver.memory_info(0).0, before);
        driver.free_device(there).unwrap();
        driver.destroy_pool(own).unwrap();
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn an_export_needs_a_pool_that_is_exported() {
        let mut driver = Driver::in_context();
        let pool = shareable(&mut driver);
        let at = allocation(&mut driver, pool, 4096);
        assert_eq!(driver.export_pool_pointer(at), fail(Code::INVALID_VALUE));
        close(driver.export_pool(pool, 1, 0).unwrap());
        driver.export_pool_pointer(at).unwrap();
        let said = |answer: Answer<[u8; 64]>| answer.unwrap_err().messages.remove(0);
        assert!(said(driver.export_pool_pointer(at + 512)).starts_with("Passed pointer needs to be base"));
        driver.destroy_pool(pool).unwrap();
        driver.export_pool_pointer(at).unwrap();
        let plain = driver.allocate_from_pool(0, 512).unwrap();
        assert!(said(driver.export_pool_pointer(plain)).ends_with("belong to IPC-capable CUmemoryPool"));
        let legacy = driver.allocate_device(512, false).unwrap();
        assert!(said(driver.export_pool_pointer(legacy)).ends_with("belong to CUmemoryPool based allocation"));
    }
}
