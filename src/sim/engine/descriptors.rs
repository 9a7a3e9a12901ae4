//! Descriptors by which processes share device memory.
//!
//! A descriptor is the file of a device's memory, opened anew. Its position tells which part of the memory it stands for: the
//! position belongs to the open file, and so survives `dup`, SCM_RIGHTS, `pidfd_getfd`, and inheritance, while all
//! descriptors look alike, as those of a real driver do. A lock on the first byte of the part also belongs to the open file,
//! and ends with its last descriptor. So the owner of the memory knows when no process can import it any more.

use super::backing::Backing;
use super::channel::MEMORY_NAME;

/// Number of bytes of which the offset and the size of each part are multiples.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// Highest bits of an encoded position. The driver issued no descriptor whose position has other bits there.
const MAGIC: u64 = 0x5c;
/// Number of bits of an offset or a size in an encoded position, in units of [`GRANULARITY`]. All fields
/// together have 63 bits, so a position is not negative.
const PART: u32 = 24;
/// Number of bits of the kind of object in an encoded position.
const KIND: u32 = 2;
/// Number of bits of the index of the device in an encoded position.
const DEVICE: u32 = 6;

/// An object that processes can share by a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShareableKind {
    /// An allocation of `cuMemCreate`.
    Allocation = 1,
    /// A memory pool. Its part of memory holds the table of the pointers that the pool exports.
    Pool = 2,
}

/// The part of device memory for which a descriptor stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryPart {
    pub thing: ShareableKind,
    /// The index of the device in the machine.
    pub device: usize,
    /// Offset of the part in the device's memory, in bytes.
    pub offset: u64,
    pub size: u64,
}

impl MemoryPart {
    /// Encodes the part as a position in the file. Returns `None` if a field has too few bits.
    fn to_position(self) -> Option<i64> {
        let part = |bytes: u64| {
            let parts = bytes / GRANULARITY;
            (bytes.is_multiple_of(GRANULARITY) && parts < 1 << PART).then_some(parts)
        };
        let device = (self.device < 1 << DEVICE).then_some(self.device as u64)?;
        let (offset, size) = (part(self.offset)?, part(self.size)?);
        let head = (MAGIC << DEVICE | device) << KIND | self.thing as u64;
        i64::try_from((head << PART | offset) << PART | size).ok()
    }

    /// Decodes a position in the file; `None` if the driver issued no such position.
    fn from_position(position: i64) -> Option<MemoryPart> {
        let mut rest = u64::try_from(position).ok()?;
        let mut take = |bits: u32| {
            let field = rest & ((1 << bits) - 1);
            rest >>= bits;
            field
        };
        let (size, offset, kind, device) = (take(PART), take(PART), take(KIND), take(DEVICE));
        let thing = [ShareableKind::Allocation, ShareableKind::Pool].into_iter().find(|thing| *thing as u64 == kind)?;
        (rest == MAGIC && size > 0).then_some(MemoryPart {
            thing,
            device: device as usize,
            offset: offset * GRANULARITY,
            size: size * GRANULARITY,
        })
    }
}

/// Creates a descriptor for a part of a file. The program owns the descriptor, and closes it.
pub(crate) fn create_descriptor(memory: &Backing, part: MemoryPart) -> Option<i32> {
    let position = part.to_position()?;
    let opened = memory.reopen()?;
    if !opened.lock_shared(part.offset) || !opened.seek(position) {
        return None;
    }
    let descriptor = opened.into_descriptor();
    if part.thing == ShareableKind::Pool {
        // As recorded, programs that the process starts inherit the descriptor of a pool, but not the
        // descriptor of an allocation. SAFETY: the call takes only numbers, and no other code has the
        // descriptor yet.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
    }
    Some(descriptor)
}

/// Reads a descriptor that the program passed. Returns the part for which it stands, and its file, opened
/// once more.
pub(crate) fn read_descriptor(descriptor: i32) -> Option<(MemoryPart, Backing)> {
    let memory = Backing::open_own(descriptor, MEMORY_NAME)?;
    // SAFETY: the call takes only numbers, and changes nothing.
    let position = unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) };
    Some((MemoryPart::from_position(position)?, memory))
}

/// Closes a descriptor that a test was issued.
#[cfg(test)]
pub(crate) fn close(descriptor: i32) {
    // SAFETY: the call takes only a number, and the descriptor is the test's own.
    unsafe { libc::close(descriptor) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: MemoryPart = MemoryPart { thing: ShareableKind::Allocation, device: 5, offset: 6 << 20, size: 4 << 20 };

    #[test]
    fn a_position_says_all() {
        assert_eq!(MemoryPart::from_position(PART.to_position().unwrap()), Some(PART));
        let most = MemoryPart { thing: ShareableKind::Pool, device: 63, offset: 31 << 40, size: 31 << 40 };
        assert_eq!(MemoryPart::from_position(most.to_position().unwrap()), Some(most));
        for position in [0, -1, 4096, i64::MAX] {
            assert_eq!(MemoryPart::from_position(position), None, "{position}");
        }
        for wrong in [MemoryPart { size: 4096, ..PART }, MemoryPart { offset: 32 << 40, ..PART }] {
            assert_eq!(wrong.to_position(), None);
        }
        assert_eq!(MemoryPart { device: 64, ..PART }.to_position(), None);
    }

    #[test]
    fn a_descriptor_holds_its_memory_as_long_as_it_or_a_copy_of_it_is_open() {
        let memory = Backing::create(MEMORY_NAME, 64 << 20).unwrap();
        let descriptor = create_descriptor(&memory, PART).unwrap();
        // SAFETY: the call takes only a number, and the descriptor is this test's own.
        let copy = unsafe { libc::dup(descriptor) };
        assert_eq!(read_descriptor(copy).unwrap().0, PART);
        assert_eq!(read_descriptor(copy).unwrap().1.inode(), memory.inode());
        assert!(memory.is_locked_elsewhere(PART.offset) && !memory.is_locked_elsewhere(0));
        close(descriptor);
        assert!(memory.is_locked_elsewhere(PART.offset));
        close(copy);
        assert!(!memory.is_locked_elsewhere(PART.offset));
        assert!(read_descriptor(memory.descriptor_number()).is_none(), "the memory's own descriptor is no part");
        assert!(read_descriptor(0).is_none() && read_descriptor(-1).is_none());
    }
}
