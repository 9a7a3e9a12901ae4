//! Multicast objects: devices join them, and writes reach the memory of all these devices.
//!
//! The behavior is as documented; undocumented failures are CUDA_ERROR_INVALID_VALUE. No answer was compared with a real
//! driver, because multicast objects can disturb shared machines.

use super::super::answer::{Answer, fail, fail_if, invalid};
use super::super::descriptors::GRANULARITY;
use super::super::driver::{
    AccessRights, AllocationHandle, BoundMemory, DEVICE_TYPES, Driver, FABRIC, HandleTarget, Mapping, rights_of,
};
use super::super::multicasts::{Binding, Multicast, MulticastShape};
use super::super::places::{FilePiece, FilePieces, RangeMessages, Storage};
use super::handles::unknown_handle;
use cupeer_spec::abi::{CUmemAllocationFlags, CUmulticastObjectProp};
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// A part of a multicast object, and the device whose memory is bound there; the device is `None` if the
/// memory determines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulticastPart {
    pub device: Option<i32>,
    pub offset: u64,
    pub size: u64,
}

impl MulticastPart {
    /// Fails unless an object of `whole` bytes can have such a part.
    fn check(&self, whole: u64) -> Answer {
        let is_even = self.offset.is_multiple_of(GRANULARITY) && self.size.is_multiple_of(GRANULARITY);
        let is_inside = self.offset.checked_add(self.size).is_some_and(|end| end <= whole);
        if self.size > 0 && is_even && is_inside { Ok(()) } else { fail(Code::INVALID_VALUE) }
    }
}

/// The memory that a program binds to a multicast object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryToBind {
    /// An allocation, by its handle, and the offset in it.
    Handle(u64, u64),
    /// The mapped memory at an address.
    Address(u64),
}

impl Driver {
    /// `cuMulticastCreate`, after its null checks.
    pub(crate) fn create_multicast(&mut self, wanted: &CUmulticastObjectProp) -> Answer<u64> {
        fail_if(!self.machine.has_multicast, Code::NOT_SUPPORTED)?;
        let CUmulticastObjectProp { numDevices, size, handleTypes, flags } = *wanted;
        let (devices, size) = (u64::from(numDevices), size as u64);
        let fits = (1..=self.machine.devices.len() as u64).contains(&devices);
        let is_even = size > 0 && size.is_multiple_of(GRANULARITY);
        fail_if(!fits || !is_even || flags != 0 || handleTypes & !(DEVICE_TYPES as u64) != 0, Code::INVALID_VALUE)?;
        if handleTypes & FABRIC as u64 != 0 {
            // The machine has no IMEX channel.
            return fail(Code::NOT_PERMITTED);
        }
        let object =
            Multicast::create(MulticastShape { devices, size, types: handleTypes }).ok_or(Code::OUT_OF_MEMORY)?;
        self.add_multicast(object, handleTypes as i32)
    }

    /// Adds a handle for a multicast object.
    pub(super) fn add_multicast(&mut self, object: Arc<Multicast>, types: i32) -> Answer<u64> {
        self.add_handle(AllocationHandle::new(HandleTarget::Multicast(object), types, CUmemAllocationFlags::default()))
    }

    fn multicast_of_handle(&self, number: u64) -> Answer<&Arc<Multicast>> {
        match &self.handle(number)?.behind {
            HandleTarget::Multicast(object) => Ok(object),
            HandleTarget::Memory(_) => Err(unknown_handle()),
        }
    }

    /// Returns true if all devices joined the multicast object with a handle, or if the handle is of an
    /// allocation.
    pub(crate) fn has_all_devices(&self, number: u64) -> Answer<bool> {
        match &self.handle(number)?.behind {
            HandleTarget::Multicast(object) => object.has_all_devices(),
            HandleTarget::Memory(_) => Ok(true),
        }
    }

    /// `cuMulticastAddDevice`.
    pub(crate) fn join_multicast(&mut self, number: u64, device: i32) -> Answer {
        let object = self.multicast_of_handle(number)?;
        let ordinal = self.check_ordinal(device).or(fail(Code::INVALID_DEVICE))?;
        object.add_device(self.visible[ordinal])
    }

    /// `cuMulticastBindMem` and `cuMulticastBindAddr`, once all devices have joined.
    pub(crate) fn bind_multicast(&mut self, number: u64, part: MulticastPart, memory: MemoryToBind) -> Answer {
        let object = self.multicast_of_handle(number)?.clone();
        part.check(object.shape.size)?;
        let (source, offset) = match memory {
            MemoryToBind::Handle(handle, offset) => (handle, offset),
            MemoryToBind::Address(address) => {
                let (base, mapping) = self.mapping_at(address).ok_or(Code::INVALID_VALUE)?;
                (mapping.handle, address - base)
            }
        };
        let handle = self.handle(source)?;
        let HandleTarget::Memory(block) = &handle.behind else { return fail(Code::INVALID_VALUE) };
        let block = block.clone();
        let is_inside = offset.checked_add(part.size).is_some_and(|end| end <= block.part.size);
        fail_if(!offset.is_multiple_of(GRANULARITY) || !is_inside, Code::INVALID_VALUE)?;
        // To an object that can be exported, a program can bind only memory that can be exported, too.
        let leaves = object.shape.types != 0 || object.is_imported;
        fail_if(leaves && handle.types == 0 && !handle.is_imported, Code::INVALID_VALUE)?;
        let device = block.part.device;
        let named = part.device.map(|named| self.check_ordinal(named)).transpose().or(fail(Code::INVALID_DEVICE))?;
        fail_if(named.is_some_and(|named| self.visible[named] != device), Code::INVALID_DEVICE)?;
        fail_if(!object.has_device(device)?, Code::INVALID_DEVICE)?;
        let binding = Binding {
            device: device as u64,
            at: part.offset,
            size: part.size,
            pid: std::process::id().into(),
            descriptor: block.backing.descriptor_number() as u64,
            inode: block.backing.inode(),
            offset: block.part.offset + offset,
        };
        let index = object.add_binding(binding)?;
        self.handle_mut(number)?.bound.push(BoundMemory { index, binding, block });
        Ok(())
    }

    /// `cuMulticastUnbind`: removes the binding of this process to exactly this part.
    pub(crate) fn unbind_multicast(&mut self, number: u64, part: MulticastPart) -> Answer {
        let object = self.multicast_of_handle(number)?.clone();
        part.check(object.shape.size)?;
        let ordinal = self.check_ordinal(part.device.unwrap_or(-1)).or(fail(Code::INVALID_DEVICE))?;
        let device = self.visible[ordinal] as u64;
        let is_it = |bound: &BoundMemory| {
            let Binding { device: of, at, size, .. } = bound.binding;
            (of, at, size) == (device, part.offset, part.size)
        };
        // Another handle of the same object may have the binding.
        let found = self.multicasts_mut().find_map(|(known, handle)| {
            let index = handle.bound.iter().position(is_it).filter(|_| known.inode() == object.inode())?;
            Some((known, handle.bound.swap_remove(index)))
        });
        let (known, bound) = found.ok_or(Code::INVALID_VALUE)?;
        known.remove_binding(bound.index);
        self.release_block(bound.block);
        Ok(())
    }

    /// Removes the bindings that this process made through a handle that was released.
    pub(super) fn unbind_all(&mut self, object: &Multicast, all: Vec<BoundMemory>) {
        for bound in all {
            object.remove_binding(bound.index);
            self.release_block(bound.block);
        }
    }

    /// Returns the place of a range that begins in the mapping of a multicast object: memory of each device,
    /// which can only be written. Fails unless all devices have bound memory to the whole range.
    pub(super) fn multicast_place(
        &self,
        (base, mapping, object): (u64, &Mapping, &Multicast),
        (start, extent): (u64, u64),
        device: usize,
        words: &RangeMessages,
    ) -> Answer<Storage> {
        fail_if(
            rights_of(mapping, device) < AccessRights::ReadWrite || words.read_only.is_none(),
            Code::INVALID_VALUE,
        )?;
        let at = start - base;
        if at.checked_add(extent).is_none_or(|end| end > object.shape.size) {
            return invalid(words.torn);
        }
        let mut bound: Vec<Binding> = object.bindings().map(|(_, binding)| binding).collect();
        bound.sort_by_key(|binding| binding.at);
        let of = |device| bound_pieces(bound.iter().filter(|binding| binding.device == device), at, extent);
        let copies = object.joined_devices()?.map(of).collect::<Answer<Vec<FilePieces>>>()?;
        Ok(Storage::Copies(Arc::new(copies), 0))
    }
}

/// Returns the memory that a device has bound to a range. Fails if a part of the range has no memory.
fn bound_pieces<'a>(bound: impl Iterator<Item = &'a Binding>, at: u64, extent: u64) -> Answer<FilePieces> {
    let mut pieces = Vec::new();
    let mut done = 0;
    for binding in bound.filter(|binding| binding.overlaps(at, extent)) {
        if binding.at > at + done {
            break;
        }
        let within = at + done - binding.at;
        let length = (binding.size - within).min(extent - done);
        let backing = Arc::new(binding.open_file().ok_or(Code::INVALID_VALUE)?);
        pieces.push(FilePiece { from: done, length, backing, offset: binding.offset + within });
        done += length;
    }
    if done == extent { Ok(FilePieces(pieces)) } else { fail(Code::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::super::super::transfers::{AddressRole, TransferShape, TransferSide};
    use super::super::tests::{GRANULE, allocation, driver, grant, on};
    use super::*;
    use cupeer_topology::Topology;

    const WHOLE: MulticastPart = MulticastPart { device: None, offset: 0, size: 2 * GRANULE };

    fn wanted(devices: u32, granules: u64, types: u64) -> CUmulticastObjectProp {
        CUmulticastObjectProp { numDevices: devices, size: (granules * GRANULE) as usize, handleTypes: types, flags: 0 }
    }

    /// A multicast object of both devices, of two granules.
    fn object(driver: &mut Driver) -> u64 {
        let object = driver.create_multicast(&wanted(2, 2, 1)).unwrap();
        assert_eq!(driver.has_all_devices(object), Ok(false));
        driver.join_multicast(object, 1).unwrap();
        driver.join_multicast(object, 0).unwrap();
        assert_eq!(driver.has_all_devices(object), Ok(true));
        object
    }

    fn flat(address: u64) -> TransferSide {
        TransferSide::flat(address, AddressRole::Any)
    }

    fn mapped(driver: &mut Driver, handle: u64, device: i32) -> u64 {
        let at = driver.reserve_addresses(2 * GRANULE, 0, 0).unwrap();
        driver.map_allocation(at, 2 * GRANULE, 0, handle).unwrap();
        grant(driver, at, 2, device, 3).unwrap();
        at
    }

    #[test]
    fn a_write_reaches_the_memory_of_all_devices() {
        let mut driver = driver();
        let object = object(&mut driver);
        let both = [0, 1].map(|device| allocation(&mut driver, device, 2));
        let at = mapped(&mut driver, object, 0);
        let text = *b"to all of you";
        let shape = TransferShape::flat(text.len() as u64);
        driver.bind_multicast(object, WHOLE, MemoryToBind::Handle(both[0], 0)).unwrap();
        let write = |driver: &Driver| driver.look_up_copy(flat(at + GRANULE - 5), flat(text.as_ptr() as u64), shape);
        assert!(write(&driver).is_err(), "a device has nothing bound there");
        let own = mapped(&mut driver, both[1], 0);
        for granule in [1, 0] {
            let (at, size) = (granule * GRANULE, GRANULE);
            driver
                .bind_multicast(
                    object,
                    MulticastPart { device: Some(1), offset: at, size },
                    MemoryToBind::Address(own + at),
                )
                .unwrap();
        }
        write(&driver).unwrap().run().unwrap();
        let first = mapped(&mut driver, both[0], 0);
        for address in [first, own] {
            let mut back = [0u8; 13];
            driver
                .look_up_copy(flat(back.as_mut_ptr() as u64), flat(address + GRANULE - 5), shape)
                .unwrap()
                .run()
                .unwrap();
            assert_eq!(back, text);
        }
        assert!(driver.look_up_copy(flat(own), flat(at), shape).is_err(), "nothing is read from it");
        driver.look_up_fill(at, 0, 1, 7, 2 * GRANULE, 1).unwrap().run().unwrap();
        let mut byte = 0u8;
        driver
            .look_up_copy(flat(&raw mut byte as u64), flat(own + 2 * GRANULE - 1), TransferShape::flat(1))
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(byte, 7);
    }

    #[test]
    fn bound_memory_lives_until_it_is_unbound() {
        let mut driver = driver();
        let (free, _) = driver.memory_info(0);
        let object = object(&mut driver);
        let memory = allocation(&mut driver, 0, 2);
        driver.bind_multicast(object, WHOLE, MemoryToBind::Handle(memory, 0)).unwrap();
        assert!(
            driver.bind_multicast(object, WHOLE, MemoryToBind::Handle(memory, 0)).is_err(),
            "something is bound there"
        );
        driver.release_allocation(memory).unwrap();
        assert_eq!(driver.memory_info(0).0, free - 2 * GRANULE);
        assert!(driver.unbind_multicast(object, MulticastPart { device: Some(1), ..WHOLE }).is_err());
        driver.unbind_multicast(object, MulticastPart { device: Some(0), ..WHOLE }).unwrap();
        assert_eq!(driver.memory_info(0).0, free);
        let memory = allocation(&mut driver, 0, 2);
        driver.bind_multicast(object, WHOLE, MemoryToBind::Handle(memory, 0)).unwrap();
        driver.release_allocation(memory).unwrap();
        driver.release_allocation(object).unwrap();
        assert_eq!(driver.memory_info(0).0, free, "it went with the object");
    }

    #[test]
    fn another_driver_joins_and_binds() {
        let mut first = driver();
        // The second driver's context becomes current in this thread.
        let here = first.current_context_handle().unwrap();
        let mut second = driver();
        let object = first.create_multicast(&wanted(2, 2, 1)).unwrap();
        let descriptor = first.export_allocation(object, 1, 0).unwrap();
        let imported = second.import_allocation(descriptor as u64, 1).unwrap();
        // SAFETY: the descriptor is the test's own.
        unsafe { libc::close(descriptor) };
        first.join_multicast(object, 0).unwrap();
        assert_eq!(second.has_all_devices(imported), Ok(false));
        assert!(second.join_multicast(imported, 0).is_err(), "it is there");
        second.join_multicast(imported, 1).unwrap();
        assert_eq!(first.has_all_devices(object), Ok(true));
        let private = second.create_allocation(2 * GRANULE, &on(1, 0)).unwrap();
        assert_eq!(second.bind_multicast(imported, WHOLE, MemoryToBind::Handle(private, 0)), fail(Code::INVALID_VALUE));
        let own = allocation(&mut first, 0, 2);
        let other = allocation(&mut second, 1, 2);
        first.bind_multicast(object, WHOLE, MemoryToBind::Handle(own, 0)).unwrap();
        second.bind_multicast(imported, WHOLE, MemoryToBind::Handle(other, 0)).unwrap();
        let at = mapped(&mut first, object, 0);
        let there = mapped(&mut second, other, 0);
        let (byte, mut back) = (9u8, 0u8);
        let write = |first: &Driver| {
            first.look_up_copy(flat(at + 5).with_context(here), flat(&raw const byte as u64), TransferShape::flat(1))
        };
        write(&first).unwrap().run().unwrap();
        second
            .look_up_copy(flat(&raw mut back as u64), flat(there + 5), TransferShape::flat(1))
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(back, 9);
        drop(second);
        assert!(write(&first).is_err(), "it is gone");
    }

    #[test]
    fn sizes_devices_and_machines_are_checked() {
        let mut driver = driver();
        for wrong in [wanted(0, 1, 1), wanted(3, 1, 1), wanted(2, 0, 1), wanted(2, 1, 2)] {
            assert_eq!(driver.create_multicast(&wrong), fail(Code::INVALID_VALUE), "{wrong:?}");
        }
        let uneven = CUmulticastObjectProp { size: 4096, ..wanted(2, 1, 1) };
        assert_eq!(driver.create_multicast(&uneven), fail(Code::INVALID_VALUE));
        assert_eq!(driver.create_multicast(&wanted(2, 1, 8)), fail(Code::NOT_PERMITTED));
        let one = driver.create_multicast(&wanted(1, 2, 0)).unwrap();
        assert_eq!(driver.join_multicast(one, 9), fail(Code::INVALID_DEVICE));
        driver.join_multicast(one, 0).unwrap();
        assert_eq!(driver.join_multicast(one, 1), fail(Code::INVALID_VALUE), "it is whole");
        let other = allocation(&mut driver, 1, 2);
        assert_eq!(driver.bind_multicast(one, WHOLE, MemoryToBind::Handle(other, 0)), fail(Code::INVALID_DEVICE));
        let own = allocation(&mut driver, 0, 2);
        let named = MulticastPart { device: Some(1), ..WHOLE };
        assert_eq!(driver.bind_multicast(one, named, MemoryToBind::Handle(own, 0)), fail(Code::INVALID_DEVICE));
        for (at, size, offset) in [(0, 4096, 0), (4096, GRANULE, 0), (0, GRANULE, 4096), (0, 3 * GRANULE, 0), (0, 0, 0)]
        {
            let answer = driver.bind_multicast(
                one,
                MulticastPart { device: None, offset: at, size },
                MemoryToBind::Handle(own, offset),
            );
            assert_eq!(answer, fail(Code::INVALID_VALUE), "{at} {size} {offset}");
        }
        assert!(
            driver.bind_multicast(own, WHOLE, MemoryToBind::Handle(own, 0)).is_err()
                && driver.join_multicast(own, 0).is_err()
        );
        assert!(driver.bind_multicast(one, WHOLE, MemoryToBind::Handle(one, 0)).is_err());
        let at = mapped(&mut driver, one, 0);
        assert_eq!(grant(&mut driver, at, 2, 1, 3), fail(Code::INVALID_DEVICE), "not of the object");
        let mut without = Driver::new(Topology::parse("pcie:2").unwrap(), vec![0, 1]);
        assert_eq!(without.create_multicast(&wanted(2, 1, 1)), fail(Code::NOT_SUPPORTED));
    }
}
