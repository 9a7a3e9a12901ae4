//! Looks up the memory of copies and memsets.
//!
//! The driver's lock is held during the look-up, and released before bytes move: a place keeps its memory alive. As on a
//! GPU, the program must not free memory during a copy; a copy that loses this race moves bytes of freed memory, and
//! breaks nothing.

use super::answer::{Answer, fail, fail_if, invalid, invalid_if};
use super::damage::DamagedLink;
use super::driver::{
    AccessRights, Allocation, AllocationKind, ByteUse, Driver, PoolSharing, StorePosition, Stream, Visibility,
};
use super::places::{RangeMessages, Storage, inaccessible_failure};
use super::transfers::{AddressRole, Transfer, TransferShape, TransferSide, TransferSource};
use cupeer_spec::results::Result as Code;
use cupeer_topology::{DataCarrier, LinkDamage};

/// The order of a copy or a memset relative to other work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyMode {
    /// The call has no stream, and waits for the copy.
    Blocking,
    /// The copy follows earlier work of its stream.
    InStream,
    /// The copy follows earlier work of its stream, but its source may be read before that work.
    SourceFirst,
    /// The copy is a node of a launched graph.
    InGraph,
}

/// Limit in bytes up to which a copy from the program's own memory reads its source when it is called.
const MOST_STAGED: u64 = 64 << 20;

const SOURCE: RangeMessages = RangeMessages {
    unknown: "Allocation not found",
    too_long: "Copy is larger than memobj size, for source operand",
    too_long_in_pool: "Copy exceeds allocation size",
    torn: "Copy range not fully allocated",
    crossed: "Copy range not fully allocated",
    inaccessible: None,
    read_only: None,
};
const DESTINATION: RangeMessages = RangeMessages {
    too_long: "Copy is larger than memobj size, for destination operand",
    read_only: Some("Requested write on read-only memory, for destination operand"),
    ..SOURCE
};
const FILLED: RangeMessages = RangeMessages {
    unknown: NOT_FILLED,
    too_long: "Memset extends beyond allocation range",
    too_long_in_pool: "Memset extends beyond allocation range",
    torn: "Memset extends beyond allocation range",
    crossed: "Memset crosses out of VMM bounds",
    inaccessible: Some(NOT_FILLED),
    read_only: Some("memset of a read-only allocation is not allowed"),
};
const NOT_FILLED: &str = "invalid memset range - no allocation found and cudaDevAttrPageableMemoryAccess is false";

/// Returns the byte ranges that a transfer writes and reads. With `is_staged`, the source has already been
/// read, and is left out.
fn used_byte_ranges(transfer: &Transfer, is_staged: bool) -> Vec<ByteUse> {
    let read = transfer.source().filter(|_| !is_staged).map(|(place, side)| (place, side, false));
    let sides = [(&transfer.to.0, &transfer.to.1, true)].into_iter().chain(read);
    let of = |(place, side, is_write): (&Storage, &TransferSide, bool)| {
        let to = side.address.saturating_add(transfer.shape.extent(side).unwrap_or(u64::MAX));
        ByteUse { from: side.address, to, is_write, file: place.file_position() }
    };
    sides.filter(|(_, side, _)| side.has_address()).map(of).collect()
}

impl Driver {
    /// Returns the device whose memory holds an allocation, by its index in the machine; `None` for host
    /// memory.
    fn memory_device_of(&self, allocation: &Allocation) -> Option<usize> {
        match &allocation.kind {
            AllocationKind::Import { home, .. } => Some(*home),
            AllocationKind::Mapped(mapping) => mapping.memory_device(),
            AllocationKind::Device { .. } | AllocationKind::Pool { .. } => Some(self.visible[allocation.device]),
            AllocationKind::Host { .. } | AllocationKind::Registered { .. } | AllocationKind::Managed(_) => None,
        }
    }

    /// Returns the link from a device to the device with the memory at an address, if that link damages data.
    /// `device` is an ordinal.
    pub(crate) fn damaged_link(&self, device: usize, address: u64, carrier: DataCarrier) -> Option<DamagedLink> {
        let (_, allocation) = self.memory.allocation_at(address)?;
        let (from, to) = (self.visible[device], self.memory_device_of(allocation)?);
        let data = self.machine.link(from, to)?.damage_for(carrier);
        (data != LinkDamage::Good).then_some(DamagedLink { from, to, data })
    }

    /// Returns true for memory of the program that the driver did not allocate or register. The driver itself
    /// reads and writes such memory; a device does not.
    fn is_unregistered_host(&self, place: &Storage) -> bool {
        matches!(place, Storage::Host(address) if self.memory.allocation_at(*address).is_none())
    }

    /// Returns true if a transfer is done when its call returns, even in a stream.
    pub(crate) fn is_synchronous(&self, transfer: &Transfer) -> bool {
        self.is_unregistered_host(&transfer.to.0)
            || transfer.source().is_some_and(|(place, _)| self.is_unregistered_host(place))
    }

    /// Hands a transfer to a late stream. If the transfer must be done when its call returns, gives it back
    /// with the numbers of the tasks that precede it.
    pub(crate) fn queue_transfer(
        &mut self,
        stream: &Stream,
        transfer: Transfer,
        mode: CopyMode,
    ) -> Answer<Option<(Transfer, Vec<u64>)>> {
        if transfer.shape.is_empty() {
            return Ok(None);
        }
        let is_staged = mode == CopyMode::SourceFirst
            || mode == CopyMode::InStream
                && transfer.source().is_some_and(|(place, _)| self.is_unregistered_host(place));
        if self.must_wait(&transfer, mode, is_staged) {
            let before = self.pending_before(stream, &transfer, mode);
            return Ok(Some((transfer, before)));
        }
        transfer.check()?;
        let (seen, uses) = (self.visibility_of(&transfer), used_byte_ranges(&transfer, is_staged));
        let (mapped, context) = (self.used_mappings(&transfer), stream.context);
        let number = self.queue.next_number();
        let (transfer, staged) = if is_staged { transfer.stage()? } else { (transfer, Vec::new()) };
        self.add_late_work(stream, seen, move |driver| {
            let is_there = |(base, id): &(u64, u64)| driver.memory.by_address.get(base).is_some_and(|a| a.id == *id);
            if !mapped.iter().all(is_there) {
                driver.mark_context_failed(context, Code::ILLEGAL_ADDRESS);
            } else if driver.contexts.map.get(&context).is_some_and(|context| context.failed.is_none()) {
                let _ = transfer.run();
            }
            drop(staged);
        });
        self.set_piece_uses(number, uses);
        Ok(None)
    }

    /// Returns true if the call that requests a transfer must not return before the transfer is done.
    fn must_wait(&self, transfer: &Transfer, mode: CopyMode, is_staged: bool) -> bool {
        let is_host = |place: &Storage| matches!(place, Storage::Host(_));
        match mode {
            CopyMode::Blocking => {
                transfer.contexts() != [0, 0]
                    || is_host(&transfer.to.0)
                    || transfer.source().is_some_and(|(place, _)| is_host(place))
            }
            CopyMode::InStream | CopyMode::SourceFirst => {
                self.is_unregistered_host(&transfer.to.0) || is_staged && transfer.shape.byte_count() > MOST_STAGED
            }
            CopyMode::InGraph => false,
        }
    }

    /// Returns the numbers of the tasks that must be done before a transfer for which the call waits.
    fn pending_before(&self, stream: &Stream, transfer: &Transfer, mode: CopyMode) -> Vec<u64> {
        let mut before = self.pending_of_stream(stream);
        let contexts = transfer.contexts();
        if mode == CopyMode::Blocking && contexts != [0, 0] {
            // As documented, such a copy is serialized with all work of both contexts.
            for context in contexts.into_iter().chain([stream.context]) {
                before.extend(self.pending_in_context(context));
            }
        }
        before
    }

    /// Returns the processes that can see the written bytes of a transfer without calling the driver.
    fn visibility_of(&self, transfer: &Transfer) -> Visibility {
        if matches!(transfer.to.0, Storage::Host(_)) {
            return Visibility::Host;
        }
        let is_shared = self.memory.allocation_at(transfer.to.1.address).is_some_and(|(_, a)| match &a.kind {
            AllocationKind::Device { export, .. } => export.is_some(),
            AllocationKind::Pool { shared, .. } => *shared != PoolSharing::No,
            AllocationKind::Import { .. } | AllocationKind::Mapped(_) => true,
            AllocationKind::Host { .. } | AllocationKind::Registered { .. } | AllocationKind::Managed(_) => false,
        });
        if is_shared { Visibility::Others } else { Visibility::Nobody }
    }

    /// Returns the mappings of `cuMemMap` that a transfer uses: the base address and the number of each.
    fn used_mappings(&self, transfer: &Transfer) -> Vec<(u64, u64)> {
        let sides = transfer.source().into_iter().chain([(&transfer.to.0, &transfer.to.1)]);
        let sides = sides.filter(|(_, side)| side.has_address());
        let ranges = sides.filter_map(|(_, side)| Some((side.address, transfer.shape.extent(side)?)));
        let all = ranges.flat_map(|(address, length)| self.memory.allocations_in(address, length));
        let mapped = all.filter(|(_, allocation)| matches!(allocation.kind, AllocationKind::Mapped(_)));
        mapped.map(|(base, allocation)| (base, allocation.id)).collect()
    }

    /// Returns the place of device memory at an address, if the current context has access to it.
    pub(crate) fn place_of(&self, address: u64, length: u64) -> Answer<Storage> {
        self.look_up_place(
            &TransferSide::flat(address, AddressRole::Device),
            &TransferShape::flat(length),
            &DESTINATION,
        )
    }

    fn look_up_place(&self, side: &TransferSide, shape: &TransferShape, words: &RangeMessages) -> Answer<Storage> {
        if let AddressRole::Array(handle) = side.role {
            let StorePosition { backing, offset } = &self.arrays.get(handle)?.stored;
            return Ok(Storage::File(backing.clone(), offset + side.address));
        }
        let extent = shape.extent(side).ok_or(Code::INVALID_VALUE)?;
        let Some((base, allocation)) = self.memory.allocation_at(side.address) else {
            invalid_if(side.address == 0, "Null address specified")?;
            if side.role == AddressRole::Device {
                return invalid(words.unknown);
            }
            fail_if(side.address.checked_add(extent).is_none(), Code::INVALID_VALUE)?;
            return Ok(Storage::Host(side.address));
        };
        let context = || if side.context == 0 { self.current_context_handle() } else { Ok(side.context) };
        if let AllocationKind::Mapped(_) = allocation.kind {
            return self.mapped_place(side.address, extent, context()?, words);
        }
        let within = side.address - base;
        if extent > allocation.size - within {
            // Registered memory belongs to the program: a copy may continue beyond the registered part.
            if allocation.is_host_accessible() && side.role == AddressRole::Any {
                return Ok(Storage::Host(side.address));
            }
            let in_pool = matches!(allocation.kind, AllocationKind::Pool { .. });
            let text = if in_pool { words.too_long_in_pool } else { words.too_long };
            return invalid(text);
        }
        if let AllocationKind::Pool { pool, .. } = allocation.kind {
            let context = self.context(context()?)?;
            if self.memory.pools.rights(pool, context.device) == AccessRights::Nothing {
                return Err(inaccessible_failure(side.address, context.id, words));
            }
        }
        Ok(match &allocation.stored {
            Some(stored) => Storage::File(stored.backing.clone(), stored.offset + within),
            None => Storage::Host(side.address),
        })
    }

    /// Returns the transfer of a copy, after looking up the memory of both sides.
    pub(crate) fn look_up_copy(&self, to: TransferSide, from: TransferSide, shape: TransferShape) -> Answer<Transfer> {
        if shape.is_empty() {
            let from = TransferSource::Memory(Storage::Host(0), from);
            return Ok(Transfer { to: (Storage::Host(0), to), from, shape, damage: (None, None) });
        }
        let to_place = self.look_up_place(&to, &shape, &DESTINATION)?;
        let from_place = self.look_up_place(&from, &shape, &SOURCE)?;
        let packed = |side: &TransferSide| {
            (shape.height == 1 || side.pitch == shape.width)
                && (shape.depth == 1 || side.slice == shape.width * shape.height)
        };
        let shape = match packed(&to) && packed(&from) {
            true => TransferShape::flat(shape.width * shape.height * shape.depth),
            false => shape,
        };
        // The device of the current context moves the bytes.
        let device = self.current_device().ok();
        let damaged = |side: &TransferSide| match side.role {
            AddressRole::Array(_) => None,
            _ => self.damaged_link(device?, side.address, DataCarrier::Copies),
        };
        let damage = (damaged(&to), damaged(&from));
        Ok(Transfer { to: (to_place, to), from: TransferSource::Memory(from_place, from), shape, damage })
    }

    /// Writes the initial content of a module's variable, under the driver's lock: the content is short, and
    /// no other thread knows the memory yet.
    pub(crate) fn initialize_variable(&self, address: u64, bytes: &[u8]) -> Answer {
        match self.memory.allocation_at(address) {
            Some((_, Allocation { stored: Some(StorePosition { backing, offset }), size, .. })) => {
                backing.release_pages(*offset, *size);
                backing.write_bytes(*offset, bytes)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Returns the transfer of a memset, after looking up its memory. Elements have 1, 2, or 4 bytes; `width`
    /// is the number of elements in a row.
    pub(crate) fn look_up_fill(
        &self,
        address: u64,
        pitch: u64,
        element: u64,
        value: u32,
        width: u64,
        height: u64,
    ) -> Answer<Transfer> {
        let width = width.checked_mul(element).ok_or(Code::INVALID_VALUE)?;
        let shape = TransferShape { width, height, depth: 1 };
        let side = TransferSide { address, role: AddressRole::Device, pitch, slice: 0, context: 0 };
        if !address.is_multiple_of(element) {
            return invalid(format!("Device pointer must be {element}-byte aligned to match elementSize"));
        }
        invalid_if(height > 1 && pitch < width, "Pitch must be greater than width (in bytes) of fill")?;
        fail_if(height > 1 && !pitch.is_multiple_of(element), Code::INVALID_VALUE)?;
        let place = if shape.is_empty() { Storage::Host(0) } else { self.look_up_place(&side, &shape, &FILLED)? };
        let pattern = match element {
            1 => u32::from(value as u8) * 0x0101_0101,
            2 => u32::from(value as u16) * 0x0001_0001,
            _ => value,
        };
        Ok(Transfer {
            to: (place, side),
            from: TransferSource::Pattern(pattern.to_le_bytes()),
            shape,
            damage: (None, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stack;
    use cupeer_topology::Topology;

    fn side(address: u64, pitch: u64, slice: u64) -> TransferSide {
        TransferSide { address, role: AddressRole::Any, pitch, slice, context: 0 }
    }

    fn upload(driver: &Driver, to: u64, bytes: &[u8]) {
        let from = TransferSide::flat(bytes.as_ptr() as u64, AddressRole::Any);
        let copy = driver.look_up_copy(
            TransferSide::flat(to, AddressRole::Device),
            from,
            TransferShape::flat(bytes.len() as u64),
        );
        copy.unwrap().run().unwrap();
    }

    fn download(driver: &Driver, from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let to = TransferSide::flat(bytes.as_mut_ptr() as u64, AddressRole::Any);
        driver
            .look_up_copy(to, TransferSide::flat(from, AddressRole::Device), TransferShape::flat(length as u64))
            .unwrap()
            .run()
            .unwrap();
        bytes
    }

    #[test]
    fn bytes_go_around() {
        let mut driver = Driver::in_context();
        let (a, b) = (driver.allocate_device(100, false).unwrap(), driver.allocate_device(3 << 20, false).unwrap());
        let host = driver.allocate_host(100, 0).unwrap();
        upload(&driver, a, b"0123456789");
        for (to, from) in [(b + 5, a), (host, b + 5), (a + 50, host)] {
            let copy = driver.look_up_copy(
                TransferSide::flat(to, AddressRole::Device),
                TransferSide::flat(from, AddressRole::Device),
                TransferShape::flat(10),
            );
            copy.unwrap().run().unwrap();
        }
        assert_eq!(download(&driver, a + 50, 10), b"0123456789");
    }

    #[test]
    fn rows_and_slices_follow_their_pitches() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_device(1000, false).unwrap();
        let source: Vec<u8> = (0..24).collect();
        let shape = TransferShape { width: 3, height: 2, depth: 2 };
        let copy = driver.look_up_copy(side(a, 10, 100), side(source.as_ptr() as u64, 4, 12), shape).unwrap();
        copy.run().unwrap();
        let got = download(&driver, a, 113);
        assert_eq!((&got[0..4], &got[10..14]), (&[0, 1, 2, 0][..], &[4, 5, 6, 0][..]));
        assert_eq!((&got[100..103], &got[110..113]), (&[12, 13, 14][..], &[16, 17, 18][..]));
    }

    #[test]
    fn nothing_beyond_an_allocation_moves() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_device(100, false).unwrap();
        let local = [0u8; 200];
        let host = TransferSide::flat(local.as_ptr() as u64, AddressRole::Any);
        for (address, length) in [(a, 101), (a + 99, 2), (a + 100, 1), (a - 1, 1), (0x1234, 1), (0, 1)] {
            let copy = driver.look_up_copy(
                TransferSide::flat(address, AddressRole::Device),
                host,
                TransferShape::flat(length),
            );
            assert_eq!(copy.unwrap_err().code, Code::INVALID_VALUE, "{address:#x} {length}");
        }
        let shape = TransferShape { width: 1, height: u64::MAX, depth: 2 };
        assert!(driver.look_up_copy(side(a, u64::MAX, 5), host, shape).is_err());
        assert!(
            driver.look_up_copy(TransferSide::flat(a, AddressRole::Device), host, TransferShape::flat(100)).is_ok()
        );
    }

    #[test]
    fn bad_host_memory_is_an_error() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_device(100, false).unwrap();
        let (device, wild) = (TransferSide::flat(a, AddressRole::Device), TransferSide::flat(0x1000, AddressRole::Any));
        for (to, from) in [(device, wild), (wild, device), (wild, wild)] {
            let copy = driver.look_up_copy(to, from, TransferShape::flat(16)).unwrap();
            assert_eq!(copy.run().unwrap_err().code, Code::INVALID_VALUE);
        }
    }

    #[test]
    fn fills_repeat_their_element() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_device(64, false).unwrap();
        driver.look_up_fill(a, 0, 1, 0xee, 64, 1).unwrap().run().unwrap();
        driver.look_up_fill(a + 2, 8, 2, 0x1234, 2, 2).unwrap().run().unwrap();
        driver.look_up_fill(a + 32, 0, 4, 0x0403_0201, 2, 1).unwrap().run().unwrap();
        let got = download(&driver, a, 64);
        assert_eq!(got[..16], *b"\xee\xee\x34\x12\x34\x12\xee\xee\xee\xee\x34\x12\x34\x12\xee\xee");
        assert_eq!(got[32..40], [1, 2, 3, 4, 1, 2, 3, 4]);
        assert_eq!(driver.look_up_fill(a + 1, 0, 2, 0, 1, 1).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.look_up_fill(a, 2, 4, 0, 1, 2).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.look_up_fill(a, 0, 1, 0, 65, 1).unwrap_err().code, Code::INVALID_VALUE);
    }
    /// Copies bytes, one by one, from a device to another one. Returns the other device's byte after each copy.
    fn arrived(link: &str, bytes: &[u8]) -> Vec<u8> {
        let text = format!("count = 2\n[[link]]\nfrom = 0\nto = 1\n{link}\n");
        let machine = Topology::parse_file("x", text.as_bytes()).unwrap();
        let mut driver = Driver::new(machine, vec![0, 1]);
        let there = driver.create_context(1, 0).unwrap();
        let owned = driver.allocate_device(16, false).unwrap();
        let here = driver.create_context(0, 0).unwrap();
        let local = driver.allocate_device(16, false).unwrap();
        let copy = |driver: &Driver, to: u64, from: u64| {
            let side = |address| TransferSide::flat(address, AddressRole::Any);
            driver.look_up_copy(side(to), side(from), TransferShape::flat(1)).unwrap()
        };
        let mut seen = Vec::new();
        for byte in bytes {
            copy(&driver, local, &raw const *byte as u64).run().unwrap();
            copy(&driver, owned, local).run().unwrap();
            stack::set_current_context(there);
            let mut back = 0u8;
            copy(&driver, &raw mut back as u64, owned).run().unwrap();
            stack::set_current_context(here);
            seen.push(back);
        }
        seen
    }

    #[test]
    fn lost_data_never_arrives_and_stale_data_arrives_one_write_late() {
        assert_eq!(arrived("data = 'good'", &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(arrived("data = 'lost'", &[1, 2, 3]), [0, 0, 0]);
        assert_eq!(arrived("data = 'stale'", &[1, 2, 3]), [0, 1, 2]);
        assert_eq!(arrived("data = 'lost'\ndata_by = 'kernels'", &[1, 2]), [1, 2]);
        assert_eq!(arrived("data = 'stale'\ndata_by = 'copies'", &[1, 2]), [0, 1]);
    }

    #[test]
    fn a_transfer_that_never_ends_is_known_before() {
        let text = b"count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'stall'\n";
        let mut driver = Driver::new(Topology::parse_file("x", text).unwrap(), vec![0, 1]);
        driver.create_context(1, 0).unwrap();
        let owned = driver.allocate_device(16, false).unwrap();
        let byte = 1u8;
        let write = |driver: &Driver| {
            let (to, from) = (
                TransferSide::flat(owned, AddressRole::Any),
                TransferSide::flat(&raw const byte as u64, AddressRole::Any),
            );
            driver.look_up_copy(to, from, TransferShape::flat(1)).unwrap().stalls()
        };
        assert!(!write(&driver), "its own device");
        driver.create_context(0, 0).unwrap();
        assert!(write(&driver));
    }
}
