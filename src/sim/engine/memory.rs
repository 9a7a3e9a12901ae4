//! Allocations: device memory, host memory, managed memory, and what is open of other processes.

use super::answer::{Answer, fail, refuse};
use super::backing::Backing;
use super::channel::{MEMORY_NAME, State};
use super::handle::Locator;
use super::holes::Holes;
use super::limits;
use super::managed::Advice;
use super::pools::Pools;
use super::process::Driver;
use super::space::{GRANULE, LARGE};
use cupeer_spec::results::Result as Code;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flags of `cuMemHostAlloc`, and of `cuMemHostRegister`, that concern us.
pub(crate) const HOST_PORTABLE: u32 = 1;
/// See [`HOST_PORTABLE`].
pub(crate) const HOST_DEVICE_MAP: u32 = 2;

/// What an allocation is made of.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Device memory of `cuMemAlloc`. `low` says that its address has 32 bits.
    Device { backing: Arc<Backing>, offset: u64, low: bool, export: Option<u16> },
    /// Device memory of `cuMemAllocAsync`.
    Pool { backing: Arc<Backing>, offset: u64, pool: usize },
    /// Host memory of `cuMemHostAlloc`.
    Host { flags: u32 },
    /// Host memory of the program, registered by `cuMemHostRegister`.
    Registered { flags: u32 },
    /// Memory of `cuMemAllocManaged`.
    Managed(Advice),
    /// Memory of another process.
    Import { backing: Arc<Backing>, offset: u64, locator: Locator, channel: u64, references: u32 },
}

/// An allocation.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// As many bytes as were asked for.
    pub size: u64,
    pub kind: Kind,
    /// The context to which it belongs.
    pub context: u64,
    /// The ordinal of that context's device.
    pub device: usize,
    /// A number that no other allocation of the process has.
    pub id: u64,
    /// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
    pub sync_memops: bool,
}

impl Allocation {
    pub(crate) fn new(size: u64, kind: Kind, context: u64, device: usize) -> Allocation {
        let sync_memops = !matches!(kind, Kind::Host { .. } | Kind::Registered { .. });
        Allocation { size, kind, context, device, id: 0, sync_memops }
    }

    /// Changes the number of references to an import: what it is then.
    pub(crate) fn import_references(&mut self, by: i32) -> u32 {
        match &mut self.kind {
            Kind::Import { references, .. } => {
                *references = references.saturating_add_signed(by);
                *references
            }
            _ => 0,
        }
    }

    /// Whether host code can touch it.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host { .. } | Kind::Registered { .. } | Kind::Managed(_))
    }

    /// Whether host code cannot touch it.
    pub(crate) fn is_device(&self) -> bool {
        !self.is_host()
    }
}

/// The memory of a device, as far as this process uses it.
#[derive(Debug)]
struct Store {
    backing: Arc<Backing>,
    holes: Holes,
}

/// Device memory that is freed here and open elsewhere.
#[derive(Debug)]
struct Ghost {
    device: usize,
    offset: u64,
    size: u64,
    slot: u16,
}

/// All allocations of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    by_address: BTreeMap<u64, Allocation>,
    stores: Vec<Option<Store>>,
    /// Bytes in use, by device.
    used: Vec<u64>,
    ghosts: Vec<Ghost>,
    /// Bytes of pinned and managed memory.
    mapped: u64,
    pub pools: Pools,
    next_id: u64,
}

impl Memory {
    pub(crate) fn new(devices: usize) -> Memory {
        Memory {
            by_address: BTreeMap::new(),
            stores: (0..devices).map(|_| None).collect(),
            used: vec![0; devices],
            ghosts: Vec::new(),
            mapped: 0,
            pools: Pools::new(devices),
            next_id: 1,
        }
    }

    /// The allocation in which an address lies, with its base.
    pub(crate) fn containing(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (base, allocation) = self.by_address.range(..=address).next_back()?;
        (address - base < allocation.size).then_some((*base, allocation))
    }

    /// The same, to change it.
    pub(crate) fn containing_mut(&mut self, address: u64) -> Option<(u64, &mut Allocation)> {
        let (base, allocation) = self.by_address.range_mut(..=address).next_back()?;
        (address - base < allocation.size).then_some((*base, allocation))
    }

    /// The allocation at a base.
    pub(crate) fn get_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.by_address.get_mut(&base)
    }

    /// Whether a range touches any allocation.
    fn touches(&self, start: u64, size: u64) -> bool {
        let end = start.saturating_add(size);
        self.by_address.range(..end).next_back().is_some_and(|(base, a)| base + a.size > start)
    }

    /// Adds an allocation.
    pub(crate) fn insert(&mut self, base: u64, mut allocation: Allocation) {
        allocation.id = self.next_id;
        self.next_id += 1;
        self.by_address.insert(base, allocation);
    }

    /// What is open of an export on a device.
    pub(crate) fn import_of(&mut self, wanted: &Locator, device: usize) -> Option<(u64, &mut Allocation)> {
        let open = |a: &Allocation| {
            a.device == device && matches!(&a.kind, Kind::Import { locator, .. } if locator == wanted)
        };
        self.by_address.iter_mut().find(|(_, a)| open(a)).map(|(base, a)| (*base, a))
    }
}

/// How much of a device's memory an allocation takes.
fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(if size < LARGE { GRANULE } else { 4096 })
}

impl Driver {
    /// The bytes that are free on a device, and those that it has.
    pub(crate) fn memory_info(&self, device: usize) -> (u64, u64) {
        let total = self.device(device).memory;
        (total.saturating_sub(self.memory.used[device]), total)
    }

    /// Takes memory of a device: its file, and where it lies there.
    fn take_store(&mut self, device: usize, size: u64) -> Answer<(Arc<Backing>, u64)> {
        self.lay_ghosts();
        let total = self.device(device).memory;
        let store = match &mut self.memory.stores[device] {
            Some(store) => store,
            none => {
                let length = total.min(file_size_limit());
                let backing = Backing::create(MEMORY_NAME, length).ok_or(Code::OUT_OF_MEMORY)?;
                none.insert(Store { backing: Arc::new(backing), holes: Holes::of(0, length) })
            }
        };
        let align = if size < LARGE { GRANULE } else { 4096 };
        let offset = store.holes.take(size, align).ok_or(Code::OUT_OF_MEMORY)?;
        self.memory.used[device] += size;
        Ok((store.backing.clone(), offset))
    }

    /// Takes memory for an array, zeroed: its file, where it lies there, and how much it is.
    pub(crate) fn take_array(&mut self, device: usize, size: u64) -> Answer<(Arc<Backing>, u64, u64)> {
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        let (backing, offset) = self.take_store(device, taken)?;
        backing.punch(offset, taken);
        Ok((backing, offset, taken))
    }

    /// Gives memory of a device back.
    pub(crate) fn give_store(&mut self, device: usize, offset: u64, size: u64) {
        self.memory.used[device] -= size;
        if let Some(store) = &mut self.memory.stores[device] {
            if size >= LARGE {
                store.backing.punch(offset, size);
            }
            store.holes.give(offset, size);
        }
    }

    /// Gives back what was freed here and is no longer open elsewhere.
    fn lay_ghosts(&mut self) {
        let (held, gone): (Vec<Ghost>, Vec<Ghost>) =
            std::mem::take(&mut self.memory.ghosts).into_iter().partition(|g| self.exports.is_held(g.slot));
        self.memory.ghosts = held;
        for ghost in gone {
            self.exports.recycle(ghost.slot);
            self.give_store(ghost.device, ghost.offset, ghost.size);
        }
    }

    /// `cuMemAlloc`. `low` asks for an address of 32 bits.
    pub(crate) fn allocate(&mut self, size: u64, low: bool) -> Answer<u64> {
        let context = self.current()?;
        let device = self.context(context)?.device;
        let (backing, offset, address) = self.allocate_on(device, size, low)?;
        let kind = Kind::Device { backing, offset, low, export: None };
        self.memory.insert(address, Allocation::new(size, kind, context, device));
        Ok(address)
    }

    /// `cuMemAllocFromPoolAsync`.
    pub(crate) fn allocate_from_pool(&mut self, pool: usize, size: u64) -> Answer<u64> {
        let context = self.current()?;
        if size == 0 {
            return Ok(0);
        }
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        self.memory.pools.check_room(pool, taken)?;
        let device = self.memory.pools.device(pool);
        let (backing, offset, address) = self.allocate_on(device, size, false)?;
        self.memory.pools.take(pool, taken);
        let kind = Kind::Pool { backing, offset, pool };
        self.memory.insert(address, Allocation::new(size, kind, context, device));
        Ok(address)
    }

    fn allocate_on(&mut self, device: usize, size: u64, low: bool) -> Answer<(Arc<Backing>, u64, u64)> {
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Requested 0 byte allocation");
        }
        let taken = padded(size).ok_or(Code::OUT_OF_MEMORY)?;
        let (backing, offset) = self.take_store(device, taken)?;
        match self.space.take(size, low) {
            Some(address) => Ok((backing, offset, address)),
            None => {
                self.give_store(device, offset, taken);
                fail(Code::OUT_OF_MEMORY)
            }
        }
    }

    /// `cuMemFree`: not for host memory, and not for what is open of others. No context need be current.
    pub(crate) fn free(&mut self, address: u64) -> Answer {
        self.check_free(address)?;
        self.remove(address);
        Ok(())
    }

    /// Whether `cuMemFree` could free what is at an address, which may be null.
    pub(crate) fn check_free(&self, address: u64) -> Answer {
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
        if flags & !7 != 0 {
            return fail(Code::INVALID_VALUE);
        }
        if size == 0 {
            return Ok(0);
        }
        self.allocate_mapped(size, Kind::Host { flags: flags | HOST_DEVICE_MAP }, context)
    }

    /// `cuMemAllocManaged`: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST.
    pub(crate) fn allocate_managed(&mut self, size: u64, flags: u32) -> Answer<u64> {
        let context = self.current()?;
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter bytesize cannot be 0");
        }
        if flags == 0 {
            return refuse(Code::INVALID_VALUE, "Parameter flags cannot be 0");
        }
        if !matches!(flags, 1 | 2) {
            let text = "Parameter flags must be either CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST";
            return refuse(Code::INVALID_VALUE, text);
        }
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
            Some(Kind::Host { .. }) => self.remove(address),
            _ => return fail(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// `cuMemHostRegister`.
    pub(crate) fn register_host(&mut self, address: u64, size: u64, flags: u32) -> Answer {
        let context = self.current()?;
        if address == 0 {
            return refuse(Code::INVALID_VALUE, "Value of parameter pBase cannot be NULL");
        }
        if size == 0 {
            return refuse(Code::INVALID_VALUE, "Value of parameter bytes cannot be 0");
        }
        if flags & !0xf != 0 {
            return refuse(Code::INVALID_VALUE, "Invalid flags");
        }
        if address.checked_add(size).is_none() {
            return fail(Code::INVALID_VALUE);
        }
        if self.memory.touches(address, size) {
            return fail(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        if !is_mapped(address, size) {
            return refuse(Code::INVALID_VALUE, "Failed to allocate physical memory");
        }
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
            Some((base, _)) if base != address => fail(Code::INVALID_VALUE),
            Some(_) => fail(Code::INVALID_VALUE),
            None => fail(Code::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// `cuMemHostGetFlags` and `cuMemHostGetDevicePointer`: the flags of the host memory at an address.
    pub(crate) fn host_flags(&self, address: u64) -> Answer<u32> {
        match self.memory.containing(address) {
            Some((_, Allocation { kind: Kind::Host { flags } | Kind::Registered { flags }, .. })) => {
                Ok(*flags)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// `cuMemGetAddressRange`.
    pub(crate) fn address_range(&self, address: u64) -> Answer<(u64, u64)> {
        self.current()?;
        match self.memory.containing(address) {
            Some((base, allocation)) => Ok((base, allocation.size)),
            None => fail(Code::NOT_FOUND),
        }
    }

    /// Checks a range of managed memory that somebody advises about.
    pub(crate) fn check_managed(&self, address: u64, count: u64, valid: bool) -> Answer {
        self.current()?;
        match self.memory.containing(address) {
            Some((base, Allocation { kind: Kind::Managed(_), size, .. }))
                if valid && count > 0 && count <= size - (address - base) =>
            {
                Ok(())
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Takes an allocation away, whatever it is.
    pub(crate) fn remove(&mut self, base: u64) {
        self.remove_as(base, State::Free);
    }

    /// The same; `state` is what becomes of its export.
    fn remove_as(&mut self, base: u64, state: State) {
        let Some(allocation) = self.memory.by_address.remove(&base) else { return };
        let (size, device) = (allocation.size, allocation.device);
        let taken = padded(size).unwrap_or(size);
        match allocation.kind {
            Kind::Device { offset, low, export, .. } => {
                self.space.give(base, size, low);
                match export {
                    Some(slot) if self.exports.withdraw(slot, state) => {
                        self.memory.ghosts.push(Ghost { device, offset, size: taken, slot });
                    }
                    Some(slot) => {
                        self.exports.recycle(slot);
                        self.give_store(device, offset, taken);
                    }
                    None => self.give_store(device, offset, taken),
                }
            }
            Kind::Pool { offset, pool, .. } => {
                self.space.give(base, size, false);
                self.memory.pools.give(pool, taken);
                self.give_store(device, offset, taken);
            }
            Kind::Import { backing, locator, channel, .. } => {
                self.space.give(base, size, false);
                drop(backing);
                self.imports.let_go(channel, locator.slot);
            }
            Kind::Host { .. } | Kind::Managed(_) => {
                self.memory.mapped -= size;
                unmap_pages(base, size);
            }
            Kind::Registered { .. } => {}
        }
    }

    /// Frees all that belongs to a context, but for host memory that is for all of them.
    pub(crate) fn free_all_of(&mut self, context: u64) {
        let portable = |a: &Allocation| matches!(a.kind, Kind::Host { flags } if flags & HOST_PORTABLE != 0);
        let bases: Vec<u64> = self
            .memory
            .by_address
            .iter()
            .filter(|(_, a)| a.context == context && !portable(a))
            .map(|(base, _)| *base)
            .collect();
        for base in bases {
            self.remove_as(base, State::Ended);
        }
    }
}

/// How long a file may be: a process that exceeds it is killed, so that nobody may try.
fn file_size_limit() -> u64 {
    // SAFETY: all-zero is a value of this plain structure.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` is a structure of the kind that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur / GRANULE * GRANULE
}

fn map_pages(size: u64) -> Option<u64> {
    let size = usize::try_from(size.checked_next_multiple_of(4096)?).ok()?;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses touches nothing that exists.
    let at = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

fn unmap_pages(base: u64, size: u64) {
    // SAFETY: the pages are those of `map_pages`, whose allocation was just taken away; that nobody uses
    // them any more is the promise of the one who frees them.
    unsafe { libc::munmap(base as *mut _, size.next_multiple_of(4096) as usize) };
}

/// Whether all pages of a range exist.
fn is_mapped(address: u64, size: u64) -> bool {
    let start = address & !4095;
    let Some(end) = (address + size).checked_next_multiple_of(4096) else { return false };
    // SAFETY: the call changes nothing: it fails with ENOMEM where a page is missing.
    unsafe { libc::msync(start as *mut _, (end - start) as usize, libc::MS_ASYNC) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    fn driver() -> Driver {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        driver.create_context(0, 0).unwrap();
        driver
    }

    #[test]
    fn sizes_are_exact_and_freed_memory_comes_back() {
        let mut driver = driver();
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
        let mut driver = driver();
        let (free, total) = driver.memory_info(0);
        for size in [total + 1, u64::MAX, u64::MAX - 4096] {
            assert_eq!(driver.allocate(size, false), fail(Code::OUT_OF_MEMORY));
        }
        assert_eq!(driver.allocate(0, false).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn a_context_takes_its_memory_with_it() {
        let mut driver = driver();
        let context = driver.current().unwrap();
        driver.allocate(4 << 20, false).unwrap();
        let shared = driver.allocate_host(100, HOST_PORTABLE).unwrap();
        let host = driver.allocate_host(100, 0).unwrap();
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.memory_info(0).0, driver.memory_info(0).1);
        assert!(driver.memory.containing(shared).is_some() && driver.memory.containing(host).is_none());
    }

    #[test]
    fn host_memory_is_registered_once() {
        let mut driver = driver();
        let pages = map_pages(8192).unwrap();
        driver.register_host(pages, 8192, 0).unwrap();
        assert_eq!(driver.register_host(pages + 4096, 10, 0), fail(Code::HOST_MEMORY_ALREADY_REGISTERED));
        assert_eq!(driver.host_flags(pages + 5), Ok(HOST_DEVICE_MAP));
        driver.unregister_host(pages).unwrap();
        assert_eq!(driver.unregister_host(pages), fail(Code::HOST_MEMORY_NOT_REGISTERED));
        unmap_pages(pages, 8192);
        assert_eq!(driver.register_host(pages, 8192, 0).unwrap_err().code, Code::INVALID_VALUE);
    }
}
