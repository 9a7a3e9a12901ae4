//! Allocates and frees memory of devices and of the host.

use super::answer::{Answer, fail, fail_if, invalid_if};
use super::channel::SlotState;
use super::driver::{
    AccessRights, Advice, Allocation, AllocationKind, ByteUse, Driver, ExportName, HOST_DEVICE_MAP, PoolSharing,
    RetainedMemory, Stream, Visibility, keys_of, padded_size, rights_of,
};
use super::limits;
use super::pages;
use super::space::Region;
use super::stack;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemAlloc`. With `low`, the address has 32 bits.
    pub(crate) fn allocate_device(&mut self, size: u64, low: bool) -> Answer<u64> {
        let context = self.current_context_handle()?;
        let device = self.context(context)?.device;
        let kind = AllocationKind::Device { low, export: None };
        self.allocate_on(device, Region::of_device(low), Allocation::new(size, kind, context, device))
    }

    /// `cuMemAllocFromPoolAsync`.
    pub(crate) fn allocate_from_pool(&mut self, pool: usize, size: u64) -> Answer<u64> {
        let context = self.current_context_handle()?;
        if size == 0 {
            return Ok(0);
        }
        let taken = padded_size(size).ok_or(Code::OUT_OF_MEMORY)?;
        if self.memory.pools.check_room(pool, taken).is_err() {
            self.request_all_work();
            self.memory.pools.check_room(pool, taken)?;
        }
        let device = self.memory.pools.device_of_pool(pool);
        let kind = AllocationKind::Pool { pool, shared: PoolSharing::No };
        // As recorded, the attribute is false for memory of a pool that other processes may import.
        let sync_memops = self.memory.pools.export_types(pool) == 0;
        let allocation = Allocation { sync_memops, ..Allocation::new(size, kind, context, device) };
        let address = self.allocate_on(device, Region::Pools, allocation)?;
        self.memory.pools.add_use(pool, taken);
        Ok(address)
    }

    /// Allocates memory of a pool. On late devices, the allocation also takes its place in the order of the
    /// stream.
    pub(crate) fn allocate_in_order(&mut self, pool: usize, size: u64, stream: &Stream) -> Answer<u64> {
        let address = self.allocate_from_pool(pool, size)?;
        if self.graphs.capture_of(stream).is_none() {
            self.add_late_work(stream, Visibility::Nobody, |_| ());
        }
        Ok(address)
    }

    /// Takes memory of a device, and an address, for an allocation. Returns the address.
    fn allocate_on(&mut self, device: usize, region: Region, allocation: Allocation) -> Answer<u64> {
        let size = allocation.size;
        invalid_if(size == 0, "Requested 0 byte allocation")?;
        let stored = self.take_memory(device, size);
        // Pending frees may release enough memory.
        let has_more = stored.is_err() && self.request_all_work();
        let (stored, taken) = if has_more { self.take_memory(device, size) } else { stored }?;
        let Some(address) = self.space.take_addresses(size, region) else {
            self.return_memory(device, stored.offset, taken);
            return fail(Code::OUT_OF_MEMORY);
        };
        self.memory.insert(address, allocation.with_store(stored));
        Ok(address)
    }

    /// `cuMemFree`, which fails for host memory and imports. It needs no current context.
    pub(crate) fn free_device(&mut self, address: u64) -> Answer {
        self.check_free(address)?;
        self.remove_allocation(address);
        Ok(())
    }

    /// `cuMemFreeAsync`.
    pub(crate) fn free_in_order(&mut self, address: u64, stream: &Stream) -> Answer {
        self.check_free(address)?;
        if !self.is_late() {
            self.do_in_order(stream, move |driver| drop(driver.free_device(address)));
        } else if let Some(allocation) = self.memory.by_address.remove(&address) {
            // From now on, queries about the address find no memory.
            let (number, to) = (self.queue.next_number(), address.saturating_add(allocation.size));
            self.do_in_order(stream, move |driver| driver.release_memory(address, allocation, SlotState::Free));
            self.set_piece_uses(number, vec![ByteUse { from: address, to, is_write: true, file: None }]);
        }
        Ok(())
    }

    /// Fails unless `cuMemFree` can free the memory at an address. A null address passes.
    pub(crate) fn check_free(&self, address: u64) -> Answer {
        self.check_context_not_failed(stack::current_context())?;
        if address == 0 {
            return Ok(());
        }
        if let Err(failure) = self.current_context_handle()
            && failure.code == Code::CONTEXT_IS_DESTROYED
        {
            return Err(failure);
        }
        match self.memory.by_address.get(&address).map(|a| &a.kind) {
            Some(AllocationKind::Device { .. } | AllocationKind::Pool { .. } | AllocationKind::Managed(_)) => Ok(()),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemAllocHost` and `cuMemHostAlloc`.
    pub(crate) fn allocate_host(&mut self, size: u64, flags: u32) -> Answer<u64> {
        let context = self.current_context_handle()?;
        fail_if(flags & !7 != 0, Code::INVALID_VALUE)?;
        if size == 0 {
            return Ok(0);
        }
        self.allocate_host_pages(size, AllocationKind::Host { flags: flags | HOST_DEVICE_MAP }, context)
    }

    /// `cuMemAllocManaged`, whose flags must be CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST.
    pub(crate) fn allocate_managed(&mut self, size: u64, flags: u32) -> Answer<u64> {
        let context = self.current_context_handle()?;
        invalid_if(size == 0, "Parameter bytesize cannot be 0")?;
        invalid_if(flags == 0, "Parameter flags cannot be 0")?;
        invalid_if(
            !matches!(flags, 1 | 2),
            "Parameter flags must be either CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST",
        )?;
        self.allocate_host_pages(size, AllocationKind::Managed(Advice::default()), context)
    }

    fn allocate_host_pages(&mut self, size: u64, kind: AllocationKind, context: u64) -> Answer<u64> {
        let device = self.context(context)?.device;
        limits::check_reservation(size, self.memory.mapped)?;
        let address = map_pages(size).ok_or(Code::OUT_OF_MEMORY)?;
        self.memory.mapped += size;
        self.memory.insert(address, Allocation::new(size, kind, context, device));
        Ok(address)
    }

    /// `cuMemFreeHost`.
    pub(crate) fn free_host(&mut self, address: u64) -> Answer {
        if address == 0 {
            return Ok(());
        }
        match self.memory.by_address.get(&address).map(|a| &a.kind) {
            Some(AllocationKind::Host { .. }) => {
                self.remove_allocation(address);
                Ok(())
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemHostRegister`.
    pub(crate) fn register_host(&mut self, address: u64, size: u64, flags: u32) -> Answer {
        let context = self.current_context_handle()?;
        invalid_if(address == 0, "Value of parameter pBase cannot be NULL")?;
        invalid_if(size == 0, "Value of parameter bytes cannot be 0")?;
        invalid_if(flags & !0xf != 0, "Invalid flags")?;
        fail_if(address.checked_add(size).is_none(), Code::INVALID_VALUE)?;
        fail_if(self.memory.has_allocation_in(address, size), Code::HOST_MEMORY_ALREADY_REGISTERED)?;
        invalid_if(!is_mapped(address, size), "Failed to allocate physical memory")?;
        let device = self.context(context)?.device;
        let kind = AllocationKind::Registered { flags: flags | HOST_DEVICE_MAP };
        self.memory.insert(address, Allocation::new(size, kind, context, device));
        Ok(())
    }

    /// `cuMemHostUnregister`.
    pub(crate) fn unregister_host(&mut self, address: u64) -> Answer {
        self.current_context_handle()?;
        match self.memory.allocation_at(address) {
            Some((base, Allocation { kind: AllocationKind::Registered { .. }, .. })) if base == address => {
                self.remove_allocation(address);
                Ok(())
            }
            Some(_) => fail(Code::INVALID_VALUE),
            None => fail(Code::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// Returns the flags of the host memory at an address, for `cuMemHostGetFlags` and
    /// `cuMemHostGetDevicePointer`.
    pub(crate) fn host_flags(&self, address: u64) -> Answer<u32> {
        match self.memory.allocation_at(address) {
            Some((
                _,
                Allocation { kind: AllocationKind::Host { flags } | AllocationKind::Registered { flags }, .. },
            )) => Ok(*flags),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemGetAddressRange`: the base and the size of the allocation with an address.
    pub(crate) fn address_range(&self, address: u64) -> Answer<(u64, u64)> {
        let device = self.current_device()?;
        let is_denied = |allocation: &Allocation| match &allocation.kind {
            AllocationKind::Mapped(mapping) => rights_of(mapping, device) == AccessRights::Nothing,
            _ => false,
        };
        match self.memory.allocation_at(address) {
            Some((base, allocation)) if !is_denied(allocation) => Ok((base, allocation.size)),
            _ => fail(Code::NOT_FOUND),
        }
    }

    /// Removes an allocation of any kind.
    pub(crate) fn remove_allocation(&mut self, base: u64) {
        self.remove_allocation_as(base, SlotState::Free);
    }

    /// Removes an allocation of any kind. If it was exported, its slot gets `state`.
    fn remove_allocation_as(&mut self, base: u64, state: SlotState) {
        if let Some(allocation) = self.memory.by_address.remove(&base) {
            self.release_memory(base, allocation, state);
        }
    }

    /// Releases the memory and the address of an allocation that was removed from the table.
    fn release_memory(&mut self, base: u64, allocation: Allocation, state: SlotState) {
        let (size, device) = (allocation.size, allocation.device);
        let taken = padded_size(size).unwrap_or(size);
        if self.is_late() && state == SlotState::Free && allocation.is_unexported_device() {
            allocation.stored.iter().for_each(|stored| stored.overwrite_freed(size));
        }
        // For an import, this closes the file before the hold on the exporter's slot ends.
        let offset = allocation.stored.map_or(0, |stored| stored.offset);
        match allocation.kind {
            AllocationKind::Device { low, export } => {
                self.space.return_addresses(base, size, Region::of_device(low));
                match export {
                    Some(slot) if self.exports.withdraw(slot, state) => {
                        let name = Some(ExportName::Handle(slot));
                        self.stores.keep_retained(RetainedMemory { device, offset, size: taken, name });
                    }
                    export => {
                        export.into_iter().for_each(|slot| self.exports.recycle_slot(slot));
                        self.return_memory(device, offset, taken);
                    }
                }
            }
            AllocationKind::Pool { pool, shared } => {
                self.space.return_addresses(base, size, Region::Pools);
                self.release_pooled(pool, shared, device, offset, taken);
            }
            AllocationKind::Import { locator, channel, .. } => {
                self.space.return_addresses(base, size, Region::Common);
                self.imports.release_slot(channel, locator.slot);
            }
            AllocationKind::Host { .. } | AllocationKind::Managed(_) => {
                self.memory.mapped -= size;
                // SAFETY: these pages are of the allocation that was just removed; the program promises not to use freed memory.
                unsafe { pages::unmap_pages(base, size.next_multiple_of(4096)) };
            }
            AllocationKind::Registered { .. } | AllocationKind::Mapped(_) => {}
        }
    }

    /// Frees all memory that belongs to a context.
    pub(crate) fn free_memory_of_context(&mut self, context: u64) {
        let ends = |a: &Allocation| a.context == context && a.kind.belongs_to_context();
        for base in keys_of(&self.memory.by_address, ends) {
            self.remove_allocation_as(base, SlotState::Ended);
        }
    }
}

fn map_pages(size: u64) -> Option<u64> {
    pages::map_pages(0, size.checked_next_multiple_of(4096)?, pages::USABLE, 0)
}

/// Returns true if all pages of a range of the process are mapped.
fn is_mapped(address: u64, size: u64) -> bool {
    let start = address & !4095;
    let Some(end) = (address + size).checked_next_multiple_of(4096) else { return false };
    // SAFETY: the call changes nothing: it fails with ENOMEM where a page is missing.
    unsafe { libc::msync(start as *mut _, (end - start) as usize, libc::MS_ASYNC) == 0 }
}

#[cfg(test)]
mod tests {
    use super::super::driver::HOST_PORTABLE;
    use super::*;

    #[test]
    fn sizes_are_exact_and_freed_memory_comes_back() {
        let mut driver = Driver::in_context();
        let (free, total) = driver.memory_info(0);
        assert_eq!(free, total);
        let a = driver.allocate_device(300, false).unwrap();
        assert_eq!(driver.address_range(a + 299), Ok((a, 300)));
        assert_eq!(driver.address_range(a + 300), fail(Code::NOT_FOUND));
        assert_eq!(driver.memory_info(0).0, free - 512);
        assert_eq!(driver.free_device(a + 1), fail(Code::INVALID_VALUE));
        driver.free_device(a).unwrap();
        assert_eq!(driver.free_device(a), fail(Code::INVALID_VALUE));
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn too_much_is_refused_and_leaves_nothing() {
        let mut driver = Driver::in_context();
        let (free, total) = driver.memory_info(0);
        for size in [total + 1, u64::MAX, u64::MAX - 4096] {
            assert_eq!(driver.allocate_device(size, false), fail(Code::OUT_OF_MEMORY));
        }
        assert_eq!(driver.allocate_device(0, false).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn a_context_takes_its_memory_with_it() {
        let mut driver = Driver::in_context();
        let context = driver.current_context_handle().unwrap();
        driver.allocate_device(4 << 20, false).unwrap();
        let shared = driver.allocate_host(100, HOST_PORTABLE).unwrap();
        let host = driver.allocate_host(100, 0).unwrap();
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.memory_info(0).0, driver.memory_info(0).1);
        assert!(driver.memory.allocation_at(shared).is_some() && driver.memory.allocation_at(host).is_none());
        // As recorded, memory of a pool stays, with its pool.
        let context = driver.create_context(0, 0).unwrap();
        let pool = driver.memory.pools.current_pool(0);
        let pooled = driver.allocate_from_pool(pool, 4 << 20).unwrap();
        driver.destroy_context(context).unwrap();
        driver.create_context(0, 0).unwrap();
        assert_eq!((driver.address_range(pooled), driver.free_device(pooled)), (Ok((pooled, 4 << 20)), Ok(())));
    }

    #[test]
    fn host_memory_is_registered_once() {
        let mut driver = Driver::in_context();
        let pages = map_pages(8192).unwrap();
        driver.register_host(pages, 8192, 0).unwrap();
        assert_eq!(driver.register_host(pages + 4096, 10, 0), fail(Code::HOST_MEMORY_ALREADY_REGISTERED));
        assert_eq!(driver.host_flags(pages + 5), Ok(HOST_DEVICE_MAP));
        driver.unregister_host(pages).unwrap();
        assert_eq!(driver.unregister_host(pages), fail(Code::HOST_MEMORY_NOT_REGISTERED));
        // SAFETY: the pages are mapped above, and nothing is in them.
        unsafe { pages::unmap_pages(pages, 8192) };
        assert_eq!(driver.register_host(pages, 8192, 0).unwrap_err().code, Code::INVALID_VALUE);
    }
}
