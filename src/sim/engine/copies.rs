//! Moving and setting bytes.
//!
//! The driver's lock is held while addresses are looked up, and given back before bytes move: what is
//! looked up keeps its memory alive. That nobody frees memory under a copy is the program's business, as on
//! a GPU; a copy that loses this race moves bytes of memory that is gone, and breaks nothing.

use super::answer::{Answer, fail, refuse};
use super::backing::Backing;
use super::limits;
use super::memory::{Allocation, Kind};
use super::process::Driver;
use super::store::Stored;
use super::vmm::{Pieces, Rights, inaccessible};
use super::wires::{self, Wire};
use cupeer_spec::results::Result as Code;
use cupeer_topology::Carrier;
use std::sync::Arc;

/// How many bytes move at once where they cannot move directly.
const CHUNK: usize = 1 << 20;

/// What an address must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Known to the driver.
    Device,
    /// Known to the driver, or any memory of the process.
    Any,
    /// In this array, whose shape has been checked: a distance from its start.
    Array(u64),
}

/// One side of a transfer of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// Where the first row starts.
    pub address: u64,
    pub role: Role,
    /// From one row to the next.
    pub pitch: u64,
    /// From one slice to the next.
    pub slice: u64,
    /// The context that has to have access to it; 0 is the current one.
    pub context: u64,
}

impl Side {
    /// Bytes in one row.
    pub(crate) fn flat(address: u64, role: Role) -> Side {
        Side { address, role, pitch: 0, slice: 0, context: 0 }
    }

    /// The same for a context.
    pub(crate) fn of(self, context: u64) -> Side {
        Side { context, ..self }
    }
}

/// How many bytes, rows and slices move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Shape {
    /// One row.
    pub(crate) fn flat(width: u64) -> Shape {
        Shape { width, height: 1, depth: 1 }
    }

    fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// From the first byte to the last one, on a side.
    fn extent(&self, side: &Side) -> Option<u64> {
        let slices = (self.depth - 1).checked_mul(side.slice)?;
        let rows = (self.height - 1).checked_mul(side.pitch)?;
        slices.checked_add(rows)?.checked_add(self.width)
    }
}

/// Where bytes lie.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Host(u64),
    File(Arc<Backing>, u64),
    /// A distance from the start of several pieces.
    Pieces(Arc<Pieces>, u64),
    /// The same in several places at once, which are only written.
    Copies(Arc<Vec<Pieces>>, u64),
}

impl Place {
    fn check(&self) -> Answer {
        match self {
            Place::File(file, _) => file.check(),
            Place::Pieces(pieces, _) => pieces.check(),
            Place::Copies(copies, _) => copies.iter().try_for_each(Pieces::check),
            Place::Host(_) => Ok(()),
        }
    }

    pub(crate) fn at(&self, distance: u64) -> Place {
        match self {
            Place::Host(address) => Place::Host(address + distance),
            Place::File(file, offset) => Place::File(file.clone(), offset + distance),
            Place::Pieces(pieces, start) => Place::Pieces(pieces.clone(), start + distance),
            Place::Copies(copies, start) => Place::Copies(copies.clone(), start + distance),
        }
    }

    /// What tells it from other places.
    pub(crate) fn identity(&self) -> String {
        match self {
            Place::Host(address) => format!("{address:#x}"),
            Place::File(file, offset) => format!("{} {offset:#x}", file.number()),
            Place::Pieces(pieces, start) => format!("{:p} {start:#x}", Arc::as_ptr(pieces)),
            Place::Copies(copies, start) => format!("{:p} {start:#x}", Arc::as_ptr(copies)),
        }
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) -> Answer {
        match self {
            Place::Host(address) => read_host(*address, bytes),
            Place::File(file, offset) => file.fill(*offset, bytes),
            Place::Pieces(pieces, start) => pieces
                .each(*start, bytes.len() as u64, |file, offset, part| file.fill(offset, &mut bytes[part])),
            Place::Copies(..) => fail(Code::INVALID_VALUE),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Answer {
        match self {
            Place::Host(address) => write_host(*address, bytes),
            Place::File(file, offset) => file.write(*offset, bytes.as_ptr() as u64, bytes.len() as u64),
            Place::Pieces(pieces, start) => write_pieces(pieces, *start, bytes),
            Place::Copies(copies, start) => {
                copies.iter().try_for_each(|pieces| write_pieces(pieces, *start, bytes))
            }
        }
    }

    /// Lets what lies there read as zeros, where that can be done without writing them.
    fn punch(&self, length: u64) -> bool {
        match self {
            Place::Host(_) | Place::Copies(..) => false,
            Place::File(file, offset) => file.punch(*offset, length),
            Place::Pieces(pieces, start) => {
                let mut done = true;
                let each = pieces.each(*start, length, |file, offset, part| {
                    done &= file.punch(offset, part.len() as u64);
                    Ok(())
                });
                each.is_ok() && done
            }
        }
    }
}

fn write_pieces(pieces: &Pieces, start: u64, bytes: &[u8]) -> Answer {
    pieces.each(start, bytes.len() as u64, |file, offset, part| {
        let part = &bytes[part];
        file.write(offset, part.as_ptr() as u64, part.len() as u64)
    })
}

/// What is written.
#[derive(Debug)]
enum Source {
    Memory(Place, Side),
    /// An element of 1, 2 or 4 bytes, repeated to 4.
    Pattern([u8; 4]),
}

/// A copy or a memset whose addresses have been looked up.
#[derive(Debug)]
pub(crate) struct Transfer {
    to: (Place, Side),
    from: Source,
    shape: Shape,
    /// Over what it writes and reads, where not all arrives.
    wires: (Option<Wire>, Option<Wire>),
}

impl Transfer {
    /// Whether it never ends.
    pub(crate) fn stalls(&self) -> bool {
        let stalls = |wire: &Option<Wire>| wire.is_some_and(|wire| wire.stalls());
        !self.shape.is_empty() && (stalls(&self.wires.0) || stalls(&self.wires.1))
    }

    /// Does it. The driver's lock must not be held.
    pub(crate) fn run(self) -> Answer {
        if self.shape.is_empty() {
            return Ok(());
        }
        self.to.0.check()?;
        if let Source::Memory(place, _) = &self.from {
            place.check()?;
        }
        for z in 0..self.shape.depth {
            for y in 0..self.shape.height {
                let row = |place: &Place, side: &Side| place.at(z * side.slice + y * side.pitch);
                let to = row(&self.to.0, &self.to.1);
                match &self.from {
                    Source::Memory(place, side) if self.wires != (None, None) => {
                        self.send_row(&to, &row(place, side))?;
                    }
                    Source::Memory(place, side) => move_row(&to, &row(place, side), self.shape.width)?,
                    Source::Pattern(pattern) => fill_row(&to, *pattern, &self.shape)?,
                }
            }
        }
        Ok(())
    }
}

impl Transfer {
    /// Moves a row over links of which one does not deliver.
    fn send_row(&self, to: &Place, from: &Place) -> Answer {
        let mut buffer = vec![0; CHUNK.min(self.shape.width as usize)];
        in_chunks(self.shape.width, |done, length| {
            let bytes = &mut buffer[..length];
            let (to, from) = (to.at(done), from.at(done));
            wires::read(self.wires.1, &from, bytes)?;
            wires::write(self.wires.0, &to, bytes)
        })
    }
}

fn move_row(to: &Place, from: &Place, width: u64) -> Answer {
    match (to, from) {
        (Place::File(file, offset), Place::Host(address)) => return file.write(*offset, *address, width),
        (Place::Host(address), Place::File(file, offset)) => {
            // SAFETY: that the caller of the driver means these bytes to be written is his promise.
            return unsafe { file.read(*offset, *address, width) };
        }
        _ => {}
    }
    let mut buffer = vec![0; CHUNK.min(width as usize)];
    in_chunks(width, |done, length| {
        let bytes = &mut buffer[..length];
        from.at(done).read(bytes)?;
        to.at(done).write(bytes)
    })
}

fn fill_row(to: &Place, pattern: [u8; 4], shape: &Shape) -> Answer {
    // Pages of zeros need not exist.
    if pattern == [0; 4] && shape.height == 1 && shape.width >= CHUNK as u64 && to.punch(shape.width) {
        return Ok(());
    }
    // A chunk is a multiple of every element.
    let buffer = pattern.repeat(CHUNK.min(shape.width as usize).div_ceil(4));
    in_chunks(shape.width, |done, length| to.at(done).write(&buffer[..length]))
}

/// Goes through a row: how much is done, and how long the next chunk is.
fn in_chunks(width: u64, mut step: impl FnMut(u64, usize) -> Answer) -> Answer {
    for done in (0..width).step_by(CHUNK) {
        if width >= limits::LARGE && done % limits::LARGE == 0 {
            limits::check_room()?;
        }
        step(done, (width - done).min(CHUNK as u64) as usize)?;
    }
    Ok(())
}

/// What the driver says about a range that is wrong.
pub(crate) struct Words {
    unknown: &'static str,
    too_long: &'static str,
    /// The same of a pool's memory.
    too_long_in_pool: &'static str,
    /// Of a range that begins in a mapping and goes on where nothing is mapped.
    pub torn: &'static str,
    /// Of one that goes on in a mapping to which the context has no access.
    pub crossed: &'static str,
    /// Of one that begins there, where the driver does not name the address.
    pub inaccessible: Option<&'static str>,
    /// Of a mapping that is written and must not be; `None` where it is read.
    pub read_only: Option<&'static str>,
}

const SOURCE: Words = Words {
    unknown: "Allocation not found",
    too_long: "Copy is larger than memobj size, for source operand",
    too_long_in_pool: "Copy exceeds allocation size",
    torn: "Copy range not fully allocated",
    crossed: "Copy range not fully allocated",
    inaccessible: None,
    read_only: None,
};
const DESTINATION: Words = Words {
    too_long: "Copy is larger than memobj size, for destination operand",
    read_only: Some("Requested write on read-only memory, for destination operand"),
    ..SOURCE
};
const FILLED: Words = Words {
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

impl Driver {
    /// Whether a transfer is done when its call returns, whatever stream it is in: host memory that the driver
    /// does not know is read and written by it, not by a device.
    pub(crate) fn is_synchronous(&self, transfer: &Transfer) -> bool {
        let unknown = |place: &Place| matches!(place, Place::Host(address) if self.memory.containing(*address).is_none());
        unknown(&transfer.to.0) || matches!(&transfer.from, Source::Memory(place, _) if unknown(place))
    }

    /// Where bytes lie that the current context is to reach.
    pub(crate) fn place_of(&self, address: u64, length: u64) -> Answer<Place> {
        self.place(&Side::flat(address, Role::Device), &Shape::flat(length), &DESTINATION)
    }

    fn place(&self, side: &Side, shape: &Shape, words: &Words) -> Answer<Place> {
        if let Role::Array(handle) = side.role {
            let Stored { backing, offset } = &self.arrays.get(handle)?.stored;
            return Ok(Place::File(backing.clone(), offset + side.address));
        }
        let extent = shape.extent(side).ok_or(Code::INVALID_VALUE)?;
        let Some((base, allocation)) = self.memory.containing(side.address) else {
            if side.address == 0 {
                return refuse(Code::INVALID_VALUE, "Null address specified");
            }
            if side.role == Role::Device {
                return refuse(Code::INVALID_VALUE, words.unknown);
            }
            if side.address.checked_add(extent).is_none() {
                return fail(Code::INVALID_VALUE);
            }
            return Ok(Place::Host(side.address));
        };
        let context = || if side.context == 0 { self.current() } else { Ok(side.context) };
        if let Kind::Mapped(_) = allocation.kind {
            return self.mapped_place(side.address, extent, context()?, words);
        }
        let within = side.address - base;
        if extent > allocation.size - within {
            // Registered memory is the program's own, and may go on beyond what is registered.
            if allocation.is_host() && side.role == Role::Any {
                return Ok(Place::Host(side.address));
            }
            let in_pool = matches!(allocation.kind, Kind::Pool { .. });
            let text = if in_pool { words.too_long_in_pool } else { words.too_long };
            return refuse(Code::INVALID_VALUE, text);
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

    /// Looks a copy up.
    pub(crate) fn copy(&self, to: Side, from: Side, shape: Shape) -> Answer<Transfer> {
        if shape.is_empty() {
            let from = Source::Memory(Place::Host(0), from);
            return Ok(Transfer { to: (Place::Host(0), to), from, shape, wires: (None, None) });
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
        let wire = |side: &Side| match side.role {
            Role::Array(_) => None,
            _ => self.wire(device?, side.address, Carrier::Copies),
        };
        let wires = (wire(&to), wire(&from));
        Ok(Transfer { to: (to_place, to), from: Source::Memory(from_place, from), shape, wires })
    }

    /// Writes what memory holds at first. The driver's lock is held: it is little, and nobody else has it yet.
    pub(crate) fn initialize(&self, address: u64, bytes: &[u8]) -> Answer {
        match self.memory.containing(address) {
            Some((_, Allocation { stored: Some(Stored { backing, offset }), size, .. })) => {
                backing.punch(*offset, *size);
                backing.write(*offset, bytes.as_ptr() as u64, bytes.len() as u64)
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// Looks a memset up: elements of 1, 2 or 4 bytes, of which a row has `width`.
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
            let text = format!("Device pointer must be {element}-byte aligned to match elementSize");
            return refuse(Code::INVALID_VALUE, text);
        }
        if height > 1 && pitch < width {
            return refuse(Code::INVALID_VALUE, "Pitch must be greater than width (in bytes) of fill");
        }
        if height > 1 && !pitch.is_multiple_of(element) {
            return fail(Code::INVALID_VALUE);
        }
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
            wires: (None, None),
        })
    }
}

/// Reads memory of this process that may not exist.
fn read_host(address: u64, bytes: &mut [u8]) -> Answer {
    let (local, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
    // SAFETY: the local side is a slice of ours; the kernel checks the other.
    let done = across(local, address, length, |ours, other| unsafe {
        libc::process_vm_readv(libc::getpid(), ours, 1, other, 1, 0)
    })?;
    if done { Ok(()) } else { through_file(address, local, length) }
}

/// Writes memory of this process that may not exist.
fn write_host(address: u64, bytes: &[u8]) -> Answer {
    let (local, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
    // SAFETY: the local side is a slice of ours, which is only read; the kernel checks the other.
    let done = across(local, address, length, |ours, other| unsafe {
        libc::process_vm_writev(libc::getpid(), ours, 1, other, 1, 0)
    })?;
    if done { Ok(()) } else { through_file(local, address, length) }
}

/// Moves bytes by a call that takes both sides; `false` where a sandbox forbids it.
fn across(
    local: u64,
    other: u64,
    length: u64,
    call: impl Fn(*const libc::iovec, *const libc::iovec) -> isize,
) -> Answer<bool> {
    let vector = |address: u64| libc::iovec { iov_base: address as *mut _, iov_len: length as usize };
    match call(&vector(local), &vector(other)) {
        done if done == length as isize => Ok(true),
        done if done < 0 && is_forbidden() => Ok(false),
        _ => fail(Code::INVALID_VALUE),
    }
}

/// Moves bytes by way of a file, which no sandbox forbids.
fn through_file(from: u64, to: u64, length: u64) -> Answer {
    let file = Backing::create(c"cupeer-sim copy", length).ok_or(Code::OUT_OF_MEMORY)?;
    file.write(0, from, length)?;
    // SAFETY: that the caller of the driver means these bytes to be written is his promise.
    unsafe { file.read(0, to, length) }
}

/// Whether a sandbox forbids the calls above.
fn is_forbidden() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
