//! Allocates and frees memory of devices and of the host.

use super::answer::{Answer, fail, fail_if, invalid_if};
use super::channel::State;
use super::driver::{
    Advice, Allocation, Driver, HOST_DEVICE_MAP, Kind, Name, Retained, Rights, Shared, Stream, Use,
    Visibility, keys_of, may_access, padded,
};
use super::limits;
use super::pages;
use super::space::Region;
use super::stack;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// `cuMemAlloc`. With `low`, the address has 32 bits.
    pub(crate) fn allocate(&mut self, size: u64, low: bool) -> Answer<u64> {
        let context = self.current()?;
        let device = self.context(context)?.device;
        let kind = Kind::Device { low, export: None };
        self.allocate_on(device, Region::of_device(low), Allocation::new(size, kind, context, device))
    }

    /// `cuMemAllocFromPoolAsync`.
    pub(crate) fn allocate_from_pool(&mut self, pool: usize, size: u64) -> Answer<u64> {
        let context = self.current()?;
        if size == 0 {
            return Ok(0);
        }
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        if self.memory.pools.check_room(pool, taken).is_err() {
            self.force_all();
            self.memory.pools.check_room(pool, taken)?;
        }
        let device = self.memory.pools.device(pool);
        let kind = Kind::Pool { pool, shared: Shared::No };
        // As recorded, the attribute is false for memory of a pool that other processes may import.
        let sync_memops = self.memory.pools.types(pool) == 0;
        let allocation = Allocation { sync_memops, ..Allocation::new(size, kind, context, device) };
        let address = self.allocate_on(device, Region::Pools, allocation)?;
        self.memory.pools.add_use(pool, taken);
        Ok(address)
    }

    /// Allocates memory of a pool. On late devices, the allocation also takes its place in the order of the
    /// stream.
    pub(crate) fn allocate_in_order(&mut self, pool: usize, size: u64, stream: &Stream) -> Answer<u64> {
        let address = self.allocate_from_pool(pool, size)?;
        if self.graphs.of(stream).is_none() {
            self.put(stream, Visibility::Nobody, |_| ());
        }
        Ok(address)
    }

    /// Takes memory of a device, and an address, for an allocation. Returns the address.
    fn allocate_on(&mut self, device: usize, region: Region, allocation: Allocation) -> Answer<u64> {
        let size = allocation.size;
        invalid_if(size == 0, "Requested 0 byte allocation")?;
        let stored = self.take_store(device, size);
        // Pending frees may release enough memory.
        let has_more = stored.is_err() && self.force_all();
        let (stored, taken) = if has_more { self.take_store(device, size) } else { stored }?;
        let Some(address) = self.space.take(size, region) else {
            self.give_store(device, stored.offset, taken);
            return fail(Code::OUT_OF_MEMORY);
        };
        self.memory.insert(address, allocation.stored(stored));
        Ok(address)
    }

    /// `cuMemFree`, which fails for host memory and imports. It needs no current context.
    pub(crate) fn free(&mut self, address: u64) -> Answer {
        self.check_free(address)?;
        self.remove(address);
        Ok(())
    }

    /// `cuMemFreeAsync`.
    pub(crate) fn free_in_order(&mut self, address: u64, stream: &Stream) -> Answer {
        self.check_free(address)?;
        if !self.is_late() {
            self.in_order(stream, move |driver| drop(driver.free(address)));
        } else if let Some(allocation) = self.memory.by_address.remove(&address) {
            // From now on, queries about the address find no memory.
            let (number, to) = (self.queue.upcoming(), address.saturating_add(allocation.size));
            self.in_order(stream, move |driver| driver.release(address, allocation, State::Free));
            self.set_uses(number, vec![Use { from: address, to, is_write: true, file: None }]);
        }
        Ok(())
    }

    /// Fails unless `cuMemFree` can free the memory at an address. A null address passes.
    pub(crate) fn check_free(&self, address: u64) -> Answer {
        self.check_failed(stack::current())?;
        if address == 0 {
            return Ok(());
        }
        if let Err(failure) = self.current()
            && failure.code == Code::CONTEXT_IS_DESTROYED
        {
            return Err(failure);
        }
        match self.memory.by_address.get(&address).map(|a| &a.kind) {
            Some(Kind::Device { .. } | Kind::Pool { .. } | Kind::Managed(_)) => Ok(()),
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemAllocHost` and `cuMemHostAlloc`.
    pub(crate) fn allocate_host(&mut self, size: u64, flags: u32) -> Answer<u64> {
        let context = self.current()?;
        fail_if(flags & !7 != 0, Code::INVALID_VALUE)?;
        if size == 0 {
            return Ok(0);
        }
        self.allocate_mapped(size, Kind::Host { flags: flags | HOST_DEVICE_MAP }, context)
    }

    /// `cuMemAllocManaged`, whose flags must be CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST.
    pub(crate) fn allocate_managed(&mut self, size: u64, flags: u32) -> Answer<u64> {
        let context = self.current()?;
        invalid_if(size == 0, "Parameter bytesize cannot be 0")?;
        invalid_if(flags == 0, "Parameter flags cannot be 0")?;
        invalid_if(
            !matches!(flags, 1 | 2),
            "Parameter flags must be either CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST",
        )?;
        self.allocate_mapped(size, Kind::Managed(Advice::default()), context)
    }

    fn allocate_mapped(&mut self, size: u64, kind: Kind, context: u64) -> Answer<u64> {
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
            Some(Kind::Host { .. }) => {
                self.remove(address);
                Ok(())
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemHostRegister`.
    pub(crate) fn register_host(&mut self, address: u64, size: u64, flags: u32) -> Answer {
        let context = self.current()?;
        invalid_if(address == 0, "Value of parameter pBase cannot be NULL")?;
        invalid_if(size == 0, "Value of parameter bytes cannot be 0")?;
        invalid_if(flags & !0xf != 0, "Invalid flags")?;
        fail_if(address.checked_add(size).is_none(), Code::INVALID_VALUE)?;
        fail_if(self.memory.touches(address, size), Code::HOST_MEMORY_ALREADY_REGISTERED)?;
        invalid_if(!is_mapped(address, size), "Failed to allocate physical memory")?;
        let device = self.context(context)?.device;
        let kind = Kind::Registered { flags: flags | HOST_DEVICE_MAP };
        self.memory.insert(address, Allocation::new(size, kind, context, device));
        Ok(())
    }

    /// `cuMemHostUnregister`.
    pub(crate) fn unregister_host(&mut self, address: u64) -> Answer {
        self.current()?;
        match self.memory.containing(address) {
            Some((base, Allocation { kind: Kind::Registered { .. }, .. })) if base == address => {
                self.remove(address);
                Ok(())
            }
            Some(_) => fail(Code::INVALID_VALUE),
            None => fail(Code::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// Returns the flags of the host memory at an address, for `cuMemHostGetFlags` and
    /// `cuMemHostGetDevicePointer`.
    pub(crate) fn host_flags(&self, address: u64) -> Answer<u32> {
        match self.memory.containing(address) {
            Some((_, Allocation { kind: Kind::Host { flags } | Kind::Registered { flags }, .. })) => {
                Ok(*flags)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemGetAddressRange`: the base and the size of the allocation with an address.
    pub(crate) fn address_range(&self, address: u64) -> Answer<(u64, u64)> {
        let device = self.current_device()?;
        let is_denied = |allocation: &Allocation| match &allocation.kind {
            Kind::Mapped(mapping) => may_access(mapping, device) == Rights::Nothing,
            _ => false,
        };
        match self.memory.containing(address) {
            Some((base, allocation)) if !is_denied(allocation) => Ok((base, allocation.size)),
            _ => fail(Code::NOT_FOUND),
        }
    }

    /// Removes an allocation of any kind.
    pub(crate) fn remove(&mut self, base: u64) {
        self.remove_as(base, State::Free);
    }

    /// Removes an allocation of any kind. If it was exported, its slot gets `state`.
    fn remove_as(&mut self, base: u64, state: State) {
        if let Some(allocation) = self.memory.by_address.remove(&base) {
            self.release(base, allocation, state);
        }
    }

    /// Releases the memory and the address of an allocation that was removed from the table.
    fn release(&mut self, base: u64, allocation: Allocation, state: State) {
        let (size, device) = (allocation.size, allocation.device);
        let taken = padded(size).unwrap_or(size);
        if self.is_late() && state == State::Free && allocation.is_private() {
            allocation.stored.iter().for_each(|stored| stored.spoil(size));
        }
        // For an import, this closes the file before the hold on the exporter's slot ends.
        let offset = allocation.stored.map_or(0, |stored| stored.offset);
        match allocation.kind {
            Kind::Device { low, export } => {
                self.space.give(base, size, Region::of_device(low));
                match export {
                    Some(slot) if self.exports.withdraw(slot, state) => {
                        let name = Some(Name::Handle(slot));
                        self.stores.keep(Retained { device, offset, size: taken, name });
                    }
                    export => {
                        export.into_iter().for_each(|slot| self.exports.recycle(slot));
                        self.give_store(device, offset, taken);
                    }
                }
            }
            Kind::Pool { pool, shared } => {
                self.space.give(base, size, Region::Pools);
                self.give_pooled(pool, shared, device, offset, taken);
            }
            Kind::Import { locator, channel, .. } => {
                self.space.give(base, size, Region::Common);
                self.imports.let_go(channel, locator.slot);
            }
            Kind::Host { .. } | Kind::Managed(_) => {
                self.memory.mapped -= size;
                // SAFETY: these pages are of the allocation that was just removed; the program promises not to use freed memory.
                unsafe { pages::unmap(base, size.next_multiple_of(4096)) };
            }
            Kind::Registered { .. } | Kind::Mapped(_) => {}
        }
    }

    /// Frees all memory that belongs to a context.
    pub(crate) fn free_all_of(&mut self, context: u64) {
        let ends = |a: &Allocation| a.context == context && a.kind.belongs_to_context();
        for base in keys_of(&self.memory.by_address, ends) {
            self.remove_as(base, State::Ended);
        }
    }
}

fn map_pages(size: u64) -> Option<u64> {
    pages::map(0, size.checked_next_multiple_of(4096)?, pages::USABLE, 0)
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
        let a = driver.allocate(300, false).unwrap();
        assert_eq!(driver.address_range(a + 299), Ok((a, 300)));
        assert_eq!(driver.address_range(a + 300), fail(Code::NOT_FOUND));
        assert_eq!(driver.memory_info(0).0, free - 512);
        assert_eq!(driver.free(a + 1), fail(Code::INVALID_VALUE));
        driver.free(a).unwrap();
        assert_eq!(driver.free(a), fail(Code::INVALID_VALUE));
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn too_much_is_refused_and_leaves_nothing() {
        let mut driver = Driver::in_context();
        let (free, total) = driver.memory_info(0);
        for size in [total + 1, u64::MAX, u64::MAX - 4096] {
            assert_eq!(driver.allocate(size, false), fail(Code::OUT_OF_MEMORY));
        }
        assert_eq!(driver.allocate(0, false).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn a_context_takes_its_memory_with_it() {
        let mut driver = Driver::in_context();
        let context = driver.current().unwrap();
        driver.allocate(4 << 20, false).unwrap();
        let shared = driver.allocate_host(100, HOST_PORTABLE).unwrap();
        let host = driver.allocate_host(100, 0).unwrap();
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.memory_info(0).0, driver.memory_info(0).1);
        assert!(driver.memory.containing(shared).is_some() && driver.memory.containing(host).is_none());
        // As recorded, memory of a pool stays, with its pool.
        let context = driver.create_context(0, 0).unwrap();
        let pool = driver.memory.pools.current(0);
        let pooled = driver.allocate_from_pool(pool, 4 << 20).unwrap();
        driver.destroy_context(context).unwrap();
        driver.create_context(0, 0).unwrap();
        assert_eq!((driver.address_range(pooled), driver.free(pooled)), (Ok((pooled, 4 << 20)), Ok(())));
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
        unsafe { pages::unmap(pages, 8192) };
        assert_eq!(driver.register_host(pages, 8192, 0).unwrap_err().code, Code::INVALID_VALUE);
    }
}
