//! The descriptors by which processes hand device memory to each other.
//!
//! A descriptor is the file of a device's memory, opened anew, and which part of it is meant is its position:
//! that belongs to the open file, and so stays with it through `dup`, SCM_RIGHTS, `pidfd_getfd` and
//! inheritance, while all descriptors look alike, as those of a real driver do. A lock on the first byte of
//! the part belongs to the open file, too, and ends with the last descriptor of it: by that, the process whose
//! memory it is knows when nobody can import it any more.

use super::backing::Backing;
use super::channel::MEMORY_NAME;

/// Parts are multiples of this.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// What a position begins with, so that a file at any other position is none of ours.
const MAGIC: u64 = 0x5c;
/// How many bits the fields have. With [`MAGIC`], all have 63: a position is not negative.
const PART: u32 = 24;
const KIND: u32 = 2;
const DEVICE: u32 = 6;

/// What has descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Thing {
    /// An allocation of `cuMemCreate`.
    Allocation = 1,
    /// A memory pool: the part holds the table of the pointers that it exports.
    Pool = 2,
}

/// Which memory a descriptor means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub thing: Thing,
    /// The index of the device in the machine.
    pub device: usize,
    /// Where it lies in the file.
    pub offset: u64,
    pub size: u64,
}

impl Ticket {
    /// As a position; `None` for what has no room in one.
    fn position(self) -> Option<i64> {
        let part = |bytes: u64| {
            let parts = bytes / GRANULARITY;
            (bytes.is_multiple_of(GRANULARITY) && parts < 1 << PART).then_some(parts)
        };
        let device = (self.device < 1 << DEVICE).then_some(self.device as u64)?;
        let (offset, size) = (part(self.offset)?, part(self.size)?);
        let head = (MAGIC << DEVICE | device) << KIND | self.thing as u64;
        i64::try_from((head << PART | offset) << PART | size).ok()
    }

    fn of_position(position: i64) -> Option<Ticket> {
        let mut rest = u64::try_from(position).ok()?;
        let mut take = |bits: u32| {
            let field = rest & ((1 << bits) - 1);
            rest >>= bits;
            field
        };
        let (size, offset, kind, device) = (take(PART), take(PART), take(KIND), take(DEVICE));
        let thing = [Thing::Allocation, Thing::Pool].into_iter().find(|thing| *thing as u64 == kind)?;
        (rest == MAGIC && size > 0).then_some(Ticket {
            thing,
            device: device as usize,
            offset: offset * GRANULARITY,
            size: size * GRANULARITY,
        })
    }
}

/// Makes a descriptor for the program, which closes it.
pub(crate) fn issue(memory: &Backing, ticket: Ticket) -> Option<i32> {
    let position = ticket.position()?;
    let opened = memory.reopen()?;
    if !opened.hold(ticket.offset) || !opened.seek(position) {
        return None;
    }
    let descriptor = opened.give_away();
    if ticket.thing == Thing::Pool {
        // As recorded, programs that the process starts inherit it, unlike that of an allocation.
        // SAFETY: the call takes only numbers, and the descriptor is nobody else's yet.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
    }
    Some(descriptor)
}

/// What a descriptor of the program means, and its file, opened anew.
pub(crate) fn read(descriptor: i32) -> Option<(Ticket, Backing)> {
    let memory = Backing::open_own(descriptor, MEMORY_NAME)?;
    // SAFETY: the call takes only numbers, and changes nothing.
    let position = unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) };
    Some((Ticket::of_position(position)?, memory))
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

    const TICKET: Ticket = Ticket { thing: Thing::Allocation, device: 5, offset: 6 << 20, size: 4 << 20 };

    #[test]
    fn a_position_says_all() {
        assert_eq!(Ticket::of_position(TICKET.position().unwrap()), Some(TICKET));
        let most = Ticket { thing: Thing::Pool, device: 63, offset: 31 << 40, size: 31 << 40 };
        assert_eq!(Ticket::of_position(most.position().unwrap()), Some(most));
        for position in [0, -1, 4096, i64::MAX] {
            assert_eq!(Ticket::of_position(position), None, "{position}");
        }
        for wrong in [Ticket { size: 4096, ..TICKET }, Ticket { offset: 32 << 40, ..TICKET }] {
            assert_eq!(wrong.position(), None);
        }
        assert_eq!(Ticket { device: 64, ..TICKET }.position(), None);
    }

    #[test]
    fn a_descriptor_holds_its_memory_as_long_as_it_or_a_copy_of_it_is_open() {
        let memory = Backing::create(MEMORY_NAME, 64 << 20).unwrap();
        let descriptor = issue(&memory, TICKET).unwrap();
        // SAFETY: the call takes only a number, and the descriptor is this test's own.
        let copy = unsafe { libc::dup(descriptor) };
        assert_eq!(read(copy).unwrap().0, TICKET);
        assert_eq!(read(copy).unwrap().1.inode(), memory.inode());
        assert!(memory.is_held(TICKET.offset) && !memory.is_held(0));
        close(descriptor);
        assert!(memory.is_held(TICKET.offset));
        close(copy);
        assert!(!memory.is_held(TICKET.offset));
        assert!(read(memory.number()).is_none(), "the memory's own descriptor is no ticket");
        assert!(read(0).is_none() && read(-1).is_none());
    }
}
