//! Places of bytes, with reads and writes.

use super::answer::{Answer, Failure, fail};
use super::backing::Backing;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// A part of a range that is in one memory file.
#[derive(Debug)]
pub(crate) struct FilePiece {
    /// Offset of the part from the start of the range.
    pub from: u64,
    pub length: u64,
    pub backing: Arc<Backing>,
    /// Offset of the part in the file.
    pub offset: u64,
}

/// The parts of a range that spans several mappings, in their order.
#[derive(Debug)]
pub(crate) struct FilePieces(pub Vec<FilePiece>);

impl FilePieces {
    /// Fails if the program closed a descriptor of the driver.
    pub(crate) fn check_open(&self) -> Answer {
        self.0.iter().try_for_each(|piece| piece.backing.check_still_open())
    }

    /// Calls a function for each piece of a range, with its file, its offset in the file, and the indices of
    /// its bytes in the range.
    pub(crate) fn for_each_piece(
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
pub(crate) enum Storage {
    /// An address of this process.
    Host(u64),
    /// A memory file, and an offset in it.
    File(Arc<Backing>, u64),
    /// A range in several files, and an offset in the range.
    Pieces(Arc<FilePieces>, u64),
    /// Several ranges for the memory of a multicast object, and an offset in each. A write goes to all
    /// ranges; reads are not possible.
    Copies(Arc<Vec<FilePieces>>, u64),
}

impl Storage {
    pub(crate) fn check_open(&self) -> Answer {
        match self {
            Storage::File(file, _) => file.check_still_open(),
            Storage::Pieces(pieces, _) => pieces.check_open(),
            Storage::Copies(copies, _) => copies.iter().try_for_each(FilePieces::check_open),
            Storage::Host(_) => Ok(()),
        }
    }

    /// Returns the place that is `distance` bytes later.
    pub(crate) fn at_distance(&self, distance: u64) -> Storage {
        match self {
            Storage::Host(address) => Storage::Host(address + distance),
            Storage::File(file, offset) => Storage::File(file.clone(), offset + distance),
            Storage::Pieces(pieces, start) => Storage::Pieces(pieces.clone(), start + distance),
            Storage::Copies(copies, start) => Storage::Copies(copies.clone(), start + distance),
        }
    }

    /// Returns a text that names this place: equal places have equal texts.
    pub(crate) fn identity(&self) -> String {
        match self {
            Storage::Host(address) => format!("{address:#x}"),
            Storage::File(file, offset) => format!("{} {offset:#x}", file.descriptor_number()),
            Storage::Pieces(pieces, start) => format!("{:p} {start:#x}", Arc::as_ptr(pieces)),
            Storage::Copies(copies, start) => format!("{:p} {start:#x}", Arc::as_ptr(copies)),
        }
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) -> Answer {
        match self {
            Storage::Host(address) => read_host(*address, bytes),
            Storage::File(file, offset) => file.read_bytes(*offset, bytes),
            Storage::Pieces(pieces, start) => {
                pieces.for_each_piece(*start, bytes.len() as u64, |file, offset, part| {
                    file.read_bytes(offset, &mut bytes[part])
                })
            }
            Storage::Copies(..) => fail(Code::INVALID_VALUE),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Answer {
        match self {
            Storage::Host(address) => write_host(*address, bytes),
            Storage::File(file, offset) => file.write_bytes(*offset, bytes),
            Storage::Pieces(pieces, start) => write_pieces(pieces, *start, bytes),
            Storage::Copies(copies, start) => copies.iter().try_for_each(|pieces| write_pieces(pieces, *start, bytes)),
        }
    }

    /// Returns the file with the first byte, and its offset in the file; `None` for an address of this
    /// process.
    pub(crate) fn file_position(&self) -> Option<(Arc<Backing>, u64)> {
        match self {
            Storage::File(file, offset) => Some((Arc::clone(file), *offset)),
            Storage::Pieces(pieces, start) => {
                let piece = pieces.0.iter().rfind(|piece| piece.from <= *start)?;
                Some((Arc::clone(&piece.backing), piece.offset + (start - piece.from)))
            }
            Storage::Host(_) | Storage::Copies(..) => None,
        }
    }

    /// Makes bytes zero by releasing their pages instead of writing. Returns false if that is not possible.
    pub(crate) fn zero_by_release(&self, length: u64) -> bool {
        match self {
            Storage::Host(_) | Storage::Copies(..) => false,
            Storage::File(file, offset) => file.release_pages(*offset, length),
            Storage::Pieces(pieces, start) => {
                let mut done = true;
                let each = pieces.for_each_piece(*start, length, |file, offset, part| {
                    done &= file.release_pages(offset, part.len() as u64);
                    Ok(())
                });
                each.is_ok() && done
            }
        }
    }
}

fn write_pieces(pieces: &FilePieces, start: u64, bytes: &[u8]) -> Answer {
    pieces.for_each_piece(start, bytes.len() as u64, |file, offset, part| file.write_bytes(offset, &bytes[part]))
}

impl From<FilePiece> for Storage {
    fn from(piece: FilePiece) -> Storage {
        Storage::File(piece.backing, piece.offset)
    }
}

/// The driver's messages about a range that a call cannot use.
pub(crate) struct RangeMessages {
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
pub(crate) fn inaccessible_failure(address: u64, context: u64, words: &RangeMessages) -> Failure {
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
    if done { Ok(()) } else { move_through_file(address, local, length) }
}

/// Writes memory of this process at an address that may be invalid.
fn write_host(address: u64, bytes: &[u8]) -> Answer {
    let (local, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
    // SAFETY: the local side is a slice of ours, which is only read; the kernel checks the other.
    let done = move_directly(local, address, length, |ours, other| unsafe {
        libc::process_vm_writev(libc::getpid(), ours, 1, other, 1, 0)
    })?;
    if done { Ok(()) } else { move_through_file(local, address, length) }
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
        done if done < 0 && is_forbidden_by_sandbox() => Ok(false),
        _ => fail(Code::INVALID_VALUE),
    }
}

/// Moves bytes through a memory file, by system calls that no sandbox forbids.
fn move_through_file(from: u64, to: u64, length: u64) -> Answer {
    let file = Backing::create(c"cupeer-sim copy", length).ok_or(Code::OUT_OF_MEMORY)?;
    file.write_from_address(0, from, length)?;
    // SAFETY: that the caller of the driver means these bytes to be written is his promise.
    unsafe { file.read_to_address(0, to, length) }
}

/// Returns true if a sandbox forbade the last system call.
fn is_forbidden_by_sandbox() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}
