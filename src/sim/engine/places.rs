//! Places of bytes, with reads and writes.

use super::answer::{Answer, Failure, fail};
use super::backing::Backing;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// A part of a range that is in one memory file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Offset of the part from the start of the range.
    pub from: u64,
    pub length: u64,
    pub backing: Arc<Backing>,
    /// Offset of the part in the file.
    pub offset: u64,
}

/// The parts of a range that spans several mappings, in their order.
#[derive(Debug)]
pub(crate) struct Pieces(pub Vec<Piece>);

impl Pieces {
    /// Fails if the program closed a descriptor of the driver.
    pub(crate) fn check(&self) -> Answer {
        self.0.iter().try_for_each(|piece| piece.backing.check())
    }

    /// Calls a function for each piece of a range, with its file, its offset in the file, and the indices of
    /// its bytes in the range.
    pub(crate) fn each(
        &self,
        at: u64,
        length: u64,
        mut body: impl FnMut(&Backing, u64, std::ops::Range<usize>) -> Answer,
    ) -> Answer {
        for piece in &self.0 {
            let (from, to) = (at.max(piece.from), (at + length).min(piece.from + piece.length));
            if from < to {
                let bytes = (from - at) as usize..(to - at) as usize;
                body(&piece.backing, piece.offset + (from - piece.from), bytes)?;
            }
        }
        Ok(())
    }
}

/// The place of bytes that a transfer reads or writes.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// An address of this process.
    Host(u64),
    /// A memory file, and an offset in it.
    File(Arc<Backing>, u64),
    /// A range in several files, and an offset in the range.
    Pieces(Arc<Pieces>, u64),
    /// Several ranges for the memory of a multicast object, and an offset in each. A write goes to all
    /// ranges; reads are not possible.
    Copies(Arc<Vec<Pieces>>, u64),
}

impl Place {
    pub(crate) fn check(&self) -> Answer {
        match self {
            Place::File(file, _) => file.check(),
            Place::Pieces(pieces, _) => pieces.check(),
            Place::Copies(copies, _) => copies.iter().try_for_each(Pieces::check),
            Place::Host(_) => Ok(()),
        }
    }

    /// Returns the place that is `distance` bytes later.
    pub(crate) fn at(&self, distance: u64) -> Place {
        match self {
            Place::Host(address) => Place::Host(address + distance),
            Place::File(file, offset) => Place::File(file.clone(), offset + distance),
            Place::Pieces(pieces, start) => Place::Pieces(pieces.clone(), start + distance),
            Place::Copies(copies, start) => Place::Copies(copies.clone(), start + distance),
        }
    }

    /// Returns a text that names this place: equal places have equal texts.
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
            Place::File(file, offset) => file.put(*offset, bytes),
            Place::Pieces(pieces, start) => write_pieces(pieces, *start, bytes),
            Place::Copies(copies, start) => {
                copies.iter().try_for_each(|pieces| write_pieces(pieces, *start, bytes))
            }
        }
    }

    /// Returns the file with the first byte, and its offset in the file; `None` for an address of this
    /// process.
    pub(crate) fn file(&self) -> Option<(Arc<Backing>, u64)> {
        match self {
            Place::File(file, offset) => Some((Arc::clone(file), *offset)),
            Place::Pieces(pieces, start) => {
                let piece = pieces.0.iter().rfind(|piece| piece.from <= *start)?;
                Some((Arc::clone(&piece.backing), piece.offset + (start - piece.from)))
            }
            Place::Host(_) | Place::Copies(..) => None,
        }
    }

    /// Makes bytes zero by releasing their pages instead of writing. Returns false if that is not possible.
    pub(crate) fn punch(&self, length: u64) -> bool {
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
    pieces.each(start, bytes.len() as u64, |file, offset, part| file.put(offset, &bytes[part]))
}

impl From<Piece> for Place {
    fn from(piece: Piece) -> Place {
        Place::File(piece.backing, piece.offset)
    }
}

/// The driver's messages about a range that a call cannot use.
pub(crate) struct Messages {
    pub unknown: &'static str,
    pub too_long: &'static str,
    /// Message for a range beyond an allocation of a pool.
    pub too_long_in_pool: &'static str,
    /// Message for a range that begins in a mapping and continues into addresses without one.
    pub torn: &'static str,
    /// Message for a range that continues into a mapping without access for the context.
    pub crossed: &'static str,
    /// Message for a range that begins in a mapping without access, if it does not contain the address.
    pub inaccessible: Option<&'static str>,
    /// Message for a write to a read-only mapping; `None` for reads.
    pub read_only: Option<&'static str>,
}

/// Returns the failure for an address to which a context has no access.
pub(crate) fn inaccessible(address: u64, context: u64, words: &Messages) -> Failure {
    let text = || format!("Unable to access operand({address:#x}) in the specified context (id {context})");
    let said = words.inaccessible.map_or_else(text, str::to_owned);
    Failure { code: Code::INVALID_VALUE, messages: vec![said.into()] }
}

/// Reads memory of this process at an address that may be invalid.
fn read_host(address: u64, bytes: &mut [u8]) -> Answer {
    let (local, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
    // SAFETY: the local side is a slice of ours; the kernel checks the other.
    let done = move_directly(local, address, length, |ours, other| unsafe {
        libc::process_vm_readv(libc::getpid(), ours, 1, other, 1, 0)
    })?;
    if done { Ok(()) } else { through_file(address, local, length) }
}

/// Writes memory of this process at an address that may be invalid.
fn write_host(address: u64, bytes: &[u8]) -> Answer {
    let (local, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
    // SAFETY: the local side is a slice of ours, which is only read; the kernel checks the other.
    let done = move_directly(local, address, length, |ours, other| unsafe {
        libc::process_vm_writev(libc::getpid(), ours, 1, other, 1, 0)
    })?;
    if done { Ok(()) } else { through_file(local, address, length) }
}

/// Moves bytes by a system call that takes the addresses of both sides. Returns false if a sandbox forbids
/// the call.
fn move_directly(
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

/// Moves bytes through a memory file, by system calls that no sandbox forbids.
fn through_file(from: u64, to: u64, length: u64) -> Answer {
    let file = Backing::create(c"cupeer-sim copy", length).ok_or(Code::OUT_OF_MEMORY)?;
    file.write(0, from, length)?;
    // SAFETY: that the caller of the driver means these bytes to be written is his promise.
    unsafe { file.read(0, to, length) }
}

/// Returns true if a sandbox forbade the last system call.
fn is_forbidden() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}
