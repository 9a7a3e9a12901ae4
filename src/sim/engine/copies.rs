//! Looks up the memory of copies and memsets.
//!
//! The driver's lock is held during the look-up, and released before bytes move: a place keeps its memory alive. As on a
//! GPU, the program must not free memory during a copy; a copy that loses this race moves bytes of freed memory, and
//! breaks nothing.

use super::answer::{Answer, fail, fail_if, invalid, invalid_if};
use super::damage::DamagedLink;
use super::driver::{Allocation, Driver, Kind, Rights, Shared, Stored, Stream, Use, Visibility};
use super::places::{Messages, Place, inaccessible};
use super::transfers::{Role, Shape, Side, Source, Transfer};
use cupeer_spec::results::Result as Code;
use cupeer_topology::{Carrier, Data};

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

const SOURCE: Messages = Messages {
    unknown: "Allocation not found",
    too_long: "Copy is larger than memobj size, for source operand",
    too_long_in_pool: "Copy exceeds allocation size",
    torn: "Copy range not fully allocated",
    crossed: "Copy range not fully allocated",
    inaccessible: None,
    read_only: None,
};
const DESTINATION: Messages = Messages {
    too_long: "Copy is larger than memobj size, for destination operand",
    read_only: Some("Requested write on read-only memory, for destination operand"),
    ..SOURCE
};
const FILLED: Messages = Messages {
    unknown: NOT_FILLED,
    too_long: "Memset extends beyond allocation range",
    too_long_in_pool: "Memset extends beyond allocation range",
    torn: "Memset extends beyond allocation range",
    crossed: "Memset crosses out of VMM bounds",
    inaccessible: Some(NOT_FILLED),
    read_only: Some("memset of a read-only allocation is not allowed"),
};
const NOT_FILLED: &str =
    "invalid memset range - no allocation found and cudaDevAttrPageableMemoryAccess is false";

/// Returns the byte ranges that a transfer writes and reads. With `is_staged`, the source has already been
/// read, and is left out.
fn uses_of(transfer: &Transfer, is_staged: bool) -> Vec<Use> {
    let read = transfer.source().filter(|_| !is_staged).map(|(place, side)| (place, side, false));
    let sides = [(&transfer.to.0, &transfer.to.1, true)].into_iter().chain(read);
    let of = |(place, side, is_write): (&Place, &Side, bool)| {
        let to = side.address.saturating_add(transfer.shape.extent(side).unwrap_or(u64::MAX));
        Use { from: side.address, to, is_write, file: place.file() }
    };
    sides.filter(|(_, side, _)| side.has_address()).map(of).collect()
}

impl Driver {
    /// Returns the device whose memory holds an allocation, by its index in the machine; `None` for host
    /// memory.
    fn home_of(&self, allocation: &Allocation) -> Option<usize> {
        match &allocation.kind {
            Kind::Import { home, .. } => Some(*home),
            Kind::Mapped(mapping) => mapping.home(),
            Kind::Device { .. } | Kind::Pool { .. } => Some(self.visible[allocation.device]),
            Kind::Host { .. } | Kind::Registered { .. } | Kind::Managed(_) => None,
        }
    }

    /// Returns the link from a device to the device with the memory at an address, if that link damages data.
    /// `device` is an ordinal.
    pub(crate) fn damaged_link(&self, device: usize, address: u64, carrier: Carrier) -> Option<DamagedLink> {
        let (_, allocation) = self.memory.containing(address)?;
        let (from, to) = (self.visible[device], self.home_of(allocation)?);
        let data = self.machine.link(from, to)?.data_of(carrier);
        (data != Data::Good).then_some(DamagedLink { from, to, data })
    }

    /// Returns true for memory of the program that the driver did not allocate or register. The driver itself
    /// reads and writes such memory; a device does not.
    fn is_unknown(&self, place: &Place) -> bool {
        matches!(place, Place::Host(address) if self.memory.containing(*address).is_none())
    }

    /// Returns true if a transfer is done when its call returns, even in a stream.
    pub(crate) fn is_synchronous(&self, transfer: &Transfer) -> bool {
        self.is_unknown(&transfer.to.0) || transfer.source().is_some_and(|(place, _)| self.is_unknown(place))
    }

    /// Hands a transfer to a late stream. If the transfer must be done when its call returns, gives it back
    /// with the numbers of the tasks that precede it.
    pub(crate) fn put_transfer(
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
                && transfer.source().is_some_and(|(place, _)| self.is_unknown(place));
        if self.must_wait(&transfer, mode, is_staged) {
            let before = self.pending_before(stream, &transfer, mode);
            return Ok(Some((transfer, before)));
        }
        transfer.check()?;
        let (seen, uses) = (self.seen_by(&transfer), uses_of(&transfer, is_staged));
        let (mapped, context) = (self.mapped_in(&transfer), stream.context);
        let number = self.queue.upcoming();
        let (transfer, staged) = if is_staged { transfer.staged()? } else { (transfer, Vec::new()) };
        self.put(stream, seen, move |driver| {
            let is_there =
                |(base, id): &(u64, u64)| driver.memory.by_address.get(base).is_some_and(|a| a.id == *id);
            if !mapped.iter().all(is_there) {
                driver.fail_context(context, Code::ILLEGAL_ADDRESS);
            } else if driver.contexts.map.get(&context).is_some_and(|context| context.failed.is_none()) {
                let _ = transfer.run();
            }
            drop(staged);
        });
        self.set_uses(number, uses);
        Ok(None)
    }

    /// Returns true if the call that requests a transfer must not return before the transfer is done.
    fn must_wait(&self, transfer: &Transfer, mode: CopyMode, is_staged: bool) -> bool {
        let is_host = |place: &Place| matches!(place, Place::Host(_));
        match mode {
            CopyMode::Blocking => {
                transfer.contexts() != [0, 0]
                    || is_host(&transfer.to.0)
                    || transfer.source().is_some_and(|(place, _)| is_host(place))
            }
            CopyMode::InStream | CopyMode::SourceFirst => {
                self.is_unknown(&transfer.to.0) || is_staged && transfer.shape.bytes() > MOST_STAGED
            }
            CopyMode::InGraph => false,
        }
    }

    /// Returns the numbers of the tasks that must be done before a transfer for which the call waits.
    fn pending_before(&self, stream: &Stream, transfer: &Transfer, mode: CopyMode) -> Vec<u64> {
        let mut before = self.pending(stream);
        let contexts = transfer.contexts();
        if mode == CopyMode::Blocking && contexts != [0, 0] {
            // As documented, such a copy is serialized with all work of both contexts.
            for context in contexts.into_iter().chain([stream.context]) {
                before.extend(self.pending_in(context));
            }
        }
        before
    }

    /// Returns the processes that can see the written bytes of a transfer without calling the driver.
    fn seen_by(&self, transfer: &Transfer) -> Visibility {
        if matches!(transfer.to.0, Place::Host(_)) {
            return Visibility::Host;
        }
        let is_shared = self.memory.containing(transfer.to.1.address).is_some_and(|(_, a)| match &a.kind {
            Kind::Device { export, .. } => export.is_some(),
            Kind::Pool { shared, .. } => *shared != Shared::No,
            Kind::Import { .. } | Kind::Mapped(_) => true,
            Kind::Host { .. } | Kind::Registered { .. } | Kind::Managed(_) => false,
        });
        if is_shared { Visibility::Others } else { Visibility::Nobody }
    }

    /// Returns the mappings of `cuMemMap` that a transfer uses: the base address and the number of each.
    fn mapped_in(&self, transfer: &Transfer) -> Vec<(u64, u64)> {
        let sides = transfer.source().into_iter().chain([(&transfer.to.0, &transfer.to.1)]);
        let sides = sides.filter(|(_, side)| side.has_address());
        let ranges = sides.filter_map(|(_, side)| Some((side.address, transfer.shape.extent(side)?)));
        let all = ranges.flat_map(|(address, length)| self.memory.touching(address, length));
        let mapped = all.filter(|(_, allocation)| matches!(allocation.kind, Kind::Mapped(_)));
        mapped.map(|(base, allocation)| (base, allocation.id)).collect()
    }

    /// Returns the place of device memory at an address, if the current context has access to it.
    pub(crate) fn place_of(&self, address: u64, length: u64) -> Answer<Place> {
        self.place(&Side::flat(address, Role::Device), &Shape::flat(length), &DESTINATION)
    }

    fn place(&self, side: &Side, shape: &Shape, words: &Messages) -> Answer<Place> {
        if let Role::Array(handle) = side.role {
            let Stored { backing, offset } = &self.arrays.get(handle)?.stored;
            return Ok(Place::File(backing.clone(), offset + side.address));
        }
        let extent = shape.extent(side).ok_or(Code::INVALID_VALUE)?;
        let Some((base, allocation)) = self.memory.containing(side.address) else {
            invalid_if(side.address == 0, "Null address specified")?;
            if side.role == Role::Device {
                return invalid(words.unknown);
            }
            fail_if(side.address.checked_add(extent).is_none(), Code::INVALID_VALUE)?;
            return Ok(Place::Host(side.address));
        };
        let context = || if side.context == 0 { self.current() } else { Ok(side.context) };
        if let Kind::Mapped(_) = allocation.kind {
            return self.mapped_place(side.address, extent, context()?, words);
        }
        let within = side.address - base;
        if extent > allocation.size - within {
            // Registered memory belongs to the program: a copy may continue beyond the registered part.
            if allocation.is_host() && side.role == Role::Any {
                return Ok(Place::Host(side.address));
            }
            let in_pool = matches!(allocation.kind, Kind::Pool { .. });
            let text = if in_pool { words.too_long_in_pool } else { words.too_long };
            return invalid(text);
        }
        if let Kind::Pool { pool, .. } = allocation.kind {
            let context = self.context(context()?)?;
            if self.memory.pools.rights(pool, context.device) == Rights::Nothing {
                return Err(inaccessible(side.address, context.id, words));
            }
        }
        Ok(match &allocation.stored {
            Some(stored) => Place::File(stored.backing.clone(), stored.offset + within),
            None => Place::Host(side.address),
        })
    }

    /// Returns the transfer of a copy, after looking up the memory of both sides.
    pub(crate) fn copy(&self, to: Side, from: Side, shape: Shape) -> Answer<Transfer> {
        if shape.is_empty() {
            let from = Source::Memory(Place::Host(0), from);
            return Ok(Transfer { to: (Place::Host(0), to), from, shape, damage: (None, None) });
        }
        let to_place = self.place(&to, &shape, &DESTINATION)?;
        let from_place = self.place(&from, &shape, &SOURCE)?;
        let packed = |side: &Side| {
            (shape.height == 1 || side.pitch == shape.width)
                && (shape.depth == 1 || side.slice == shape.width * shape.height)
        };
        let shape = match packed(&to) && packed(&from) {
            true => Shape::flat(shape.width * shape.height * shape.depth),
            false => shape,
        };
        // The device of the current context moves the bytes.
        let device = self.current_device().ok();
        let damaged = |side: &Side| match side.role {
            Role::Array(_) => None,
            _ => self.damaged_link(device?, side.address, Carrier::Copies),
        };
        let damage = (damaged(&to), damaged(&from));
        Ok(Transfer { to: (to_place, to), from: Source::Memory(from_place, from), shape, damage })
    }

    /// Writes the initial content of a module's variable, under the driver's lock: the content is short, and
    /// no other thread knows the memory yet.
    pub(crate) fn initialize(&self, address: u64, bytes: &[u8]) -> Answer {
        match self.memory.containing(address) {
            Some((_, Allocation { stored: Some(Stored { backing, offset }), size, .. })) => {
                backing.punch(*offset, *size);
                backing.put(*offset, bytes)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Returns the transfer of a memset, after looking up its memory. Elements have 1, 2, or 4 bytes; `width`
    /// is the number of elements in a row.
    pub(crate) fn fill(
        &self,
        address: u64,
        pitch: u64,
        element: u64,
        value: u32,
        width: u64,
        height: u64,
    ) -> Answer<Transfer> {
        let width = width.checked_mul(element).ok_or(Code::INVALID_VALUE)?;
        let shape = Shape { width, height, depth: 1 };
        let side = Side { address, role: Role::Device, pitch, slice: 0, context: 0 };
        if !address.is_multiple_of(element) {
            return invalid(format!("Device pointer must be {element}-byte aligned to match elementSize"));
        }
        invalid_if(height > 1 && pitch < width, "Pitch must be greater than width (in bytes) of fill")?;
        fail_if(height > 1 && !pitch.is_multiple_of(element), Code::INVALID_VALUE)?;
        let place = if shape.is_empty() { Place::Host(0) } else { self.place(&side, &shape, &FILLED)? };
        let pattern = match element {
            1 => u32::from(value as u8) * 0x0101_0101,
            2 => u32::from(value as u16) * 0x0001_0001,
            _ => value,
        };
        Ok(Transfer {
            to: (place, side),
            from: Source::Pattern(pattern.to_le_bytes()),
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

    fn side(address: u64, pitch: u64, slice: u64) -> Side {
        Side { address, role: Role::Any, pitch, slice, context: 0 }
    }

    fn upload(driver: &Driver, to: u64, bytes: &[u8]) {
        let from = Side::flat(bytes.as_ptr() as u64, Role::Any);
        let copy = driver.copy(Side::flat(to, Role::Device), from, Shape::flat(bytes.len() as u64));
        copy.unwrap().run().unwrap();
    }

    fn download(driver: &Driver, from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let to = Side::flat(bytes.as_mut_ptr() as u64, Role::Any);
        driver.copy(to, Side::flat(from, Role::Device), Shape::flat(length as u64)).unwrap().run().unwrap();
        bytes
    }

    #[test]
    fn bytes_go_around() {
        let mut driver = Driver::in_context();
        let (a, b) = (driver.allocate(100, false).unwrap(), driver.allocate(3 << 20, false).unwrap());
        let host = driver.allocate_host(100, 0).unwrap();
        upload(&driver, a, b"0123456789");
        for (to, from) in [(b + 5, a), (host, b + 5), (a + 50, host)] {
            let copy =
                driver.copy(Side::flat(to, Role::Device), Side::flat(from, Role::Device), Shape::flat(10));
            copy.unwrap().run().unwrap();
        }
        assert_eq!(download(&driver, a + 50, 10), b"0123456789");
    }

    #[test]
    fn rows_and_slices_follow_their_pitches() {
        let mut driver = Driver::in_context();
        let a = driver.allocate(1000, false).unwrap();
        let source: Vec<u8> = (0..24).collect();
        let shape = Shape { width: 3, height: 2, depth: 2 };
        let copy = driver.copy(side(a, 10, 100), side(source.as_ptr() as u64, 4, 12), shape).unwrap();
        copy.run().unwrap();
        let got = download(&driver, a, 113);
        assert_eq!((&got[0..4], &got[10..14]), (&[0, 1, 2, 0][..], &[4, 5, 6, 0][..]));
        assert_eq!((&got[100..103], &got[110..113]), (&[12, 13, 14][..], &[16, 17, 18][..]));
    }

    #[test]
    fn nothing_beyond_an_allocation_moves() {
        let mut driver = Driver::in_context();
        let a = driver.allocate(100, false).unwrap();
        let local = [0u8; 200];
        let host = Side::flat(local.as_ptr() as u64, Role::Any);
        for (address, length) in [(a, 101), (a + 99, 2), (a + 100, 1), (a - 1, 1), (0x1234, 1), (0, 1)] {
            let copy = driver.copy(Side::flat(address, Role::Device), host, Shape::flat(length));
            assert_eq!(copy.unwrap_err().code, Code::INVALID_VALUE, "{address:#x} {length}");
        }
        let shape = Shape { width: 1, height: u64::MAX, depth: 2 };
        assert!(driver.copy(side(a, u64::MAX, 5), host, shape).is_err());
        assert!(driver.copy(Side::flat(a, Role::Device), host, Shape::flat(100)).is_ok());
    }

    #[test]
    fn bad_host_memory_is_an_error() {
        let mut driver = Driver::in_context();
        let a = driver.allocate(100, false).unwrap();
        let (device, wild) = (Side::flat(a, Role::Device), Side::flat(0x1000, Role::Any));
        for (to, from) in [(device, wild), (wild, device), (wild, wild)] {
            let copy = driver.copy(to, from, Shape::flat(16)).unwrap();
            assert_eq!(copy.run().unwrap_err().code, Code::INVALID_VALUE);
        }
    }

    #[test]
    fn fills_repeat_their_element() {
        let mut driver = Driver::in_context();
        let a = driver.allocate(64, false).unwrap();
        driver.fill(a, 0, 1, 0xee, 64, 1).unwrap().run().unwrap();
        driver.fill(a + 2, 8, 2, 0x1234, 2, 2).unwrap().run().unwrap();
        driver.fill(a + 32, 0, 4, 0x0403_0201, 2, 1).unwrap().run().unwrap();
        let got = download(&driver, a, 64);
        assert_eq!(got[..16], *b"\xee\xee\x34\x12\x34\x12\xee\xee\xee\xee\x34\x12\x34\x12\xee\xee");
        assert_eq!(got[32..40], [1, 2, 3, 4, 1, 2, 3, 4]);
        assert_eq!(driver.fill(a + 1, 0, 2, 0, 1, 1).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.fill(a, 2, 4, 0, 1, 2).unwrap_err().code, Code::INVALID_VALUE);
        assert_eq!(driver.fill(a, 0, 1, 0, 65, 1).unwrap_err().code, Code::INVALID_VALUE);
    }
    /// Copies bytes, one by one, from a device to another one. Returns the other device's byte after each copy.
    fn arrived(link: &str, bytes: &[u8]) -> Vec<u8> {
        let text = format!("count = 2\n[[link]]\nfrom = 0\nto = 1\n{link}\n");
        let machine = Topology::parse_file("x", text.as_bytes()).unwrap();
        let mut driver = Driver::new(machine, vec![0, 1]);
        let there = driver.create_context(1, 0).unwrap();
        let owned = driver.allocate(16, false).unwrap();
        let here = driver.create_context(0, 0).unwrap();
        let local = driver.allocate(16, false).unwrap();
        let copy = |driver: &Driver, to: u64, from: u64| {
            let side = |address| Side::flat(address, Role::Any);
            driver.copy(side(to), side(from), Shape::flat(1)).unwrap()
        };
        let mut seen = Vec::new();
        for byte in bytes {
            copy(&driver, local, &raw const *byte as u64).run().unwrap();
            copy(&driver, owned, local).run().unwrap();
            stack::set(there);
            let mut back = 0u8;
            copy(&driver, &raw mut back as u64, owned).run().unwrap();
            stack::set(here);
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
        let owned = driver.allocate(16, false).unwrap();
        let byte = 1u8;
        let write = |driver: &Driver| {
            let (to, from) = (Side::flat(owned, Role::Any), Side::flat(&raw const byte as u64, Role::Any));
            driver.copy(to, from, Shape::flat(1)).unwrap().stalls()
        };
        assert!(!write(&driver), "its own device");
        driver.create_context(0, 0).unwrap();
        assert!(write(&driver));
    }
}
