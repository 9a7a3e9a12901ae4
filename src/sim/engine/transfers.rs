//! Copies and memsets after their look-up: moves and sets bytes.

use super::answer::Answer;
use super::damage::{self, DamagedLink};
use super::limits;
use super::places::Storage;

/// Number of bytes that a copy through a buffer, or a memset, moves at a time.
const CHUNK: usize = 1 << 20;

/// Requirement for the address of one side of a copy or a memset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddressRole {
    /// The address is in memory that the driver knows.
    Device,
    /// The address is in memory that the driver knows, or anywhere in the memory of the process.
    Any,
    /// The address is an offset in the array with this handle. The shape of the copy was already checked.
    Array(u64),
}

/// The source or the destination of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferSide {
    /// Address of the first row.
    pub address: u64,
    pub role: AddressRole,
    /// Distance in bytes from one row to the next.
    pub pitch: u64,
    /// Distance in bytes from one slice to the next.
    pub slice: u64,
    /// The context that must have access to the memory; 0 stands for the current context.
    pub context: u64,
}

impl TransferSide {
    /// Returns a side with a single row.
    pub(crate) fn flat(address: u64, role: AddressRole) -> TransferSide {
        TransferSide { address, role, pitch: 0, slice: 0, context: 0 }
    }

    /// Returns the same side, with the access of another context.
    pub(crate) fn with_context(self, context: u64) -> TransferSide {
        TransferSide { context, ..self }
    }

    /// Returns true if the side has an address of the process. A side in an array has an offset instead.
    pub(crate) fn has_address(&self) -> bool {
        !matches!(self.role, AddressRole::Array(_))
    }
}

/// The size of a transfer: bytes per row, rows per slice, and number of slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransferShape {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl TransferShape {
    /// Returns the shape of a single row of `width` bytes.
    pub(crate) fn flat(width: u64) -> TransferShape {
        TransferShape { width, height: 1, depth: 1 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Returns the number of bytes that the transfer moves.
    pub(crate) fn byte_count(&self) -> u64 {
        self.width.saturating_mul(self.height).saturating_mul(self.depth)
    }

    /// Returns the number of bytes from the first byte to the end of the last row on a side, including gaps
    /// between rows. `None` on overflow.
    pub(crate) fn extent(&self, side: &TransferSide) -> Option<u64> {
        let slices = (self.depth - 1).checked_mul(side.slice)?;
        let rows = (self.height - 1).checked_mul(side.pitch)?;
        slices.checked_add(rows)?.checked_add(self.width)
    }
}

/// The source of the bytes that a transfer writes.
#[derive(Debug)]
pub(crate) enum TransferSource {
    Memory(Storage, TransferSide),
    /// An element of a memset, of 1, 2, or 4 bytes, repeated to 4 bytes.
    Pattern([u8; 4]),
}

/// A copy or a memset whose addresses have been looked up.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub to: (Storage, TransferSide),
    pub from: TransferSource,
    pub shape: TransferShape,
    /// The damaged links over which the transfer writes and reads, in this order.
    pub damage: (Option<DamagedLink>, Option<DamagedLink>),
}

impl Transfer {
    /// Returns true if the transfer never ends, because one of its links stalls.
    pub(crate) fn stalls(&self) -> bool {
        let stalls = |damaged: &Option<DamagedLink>| damaged.is_some_and(|damaged| damaged.stalls());
        !self.shape.is_empty() && (stalls(&self.damage.0) || stalls(&self.damage.1))
    }

    /// Returns the memory that a copy reads; `None` for a memset.
    pub(crate) fn source(&self) -> Option<(&Storage, &TransferSide)> {
        match &self.from {
            TransferSource::Memory(place, side) => Some((place, side)),
            TransferSource::Pattern(_) => None,
        }
    }

    /// Returns the destination and the source context that a peer copy names; 0 for a side without a context.
    pub(crate) fn contexts(&self) -> [u64; 2] {
        [self.to.1.context, self.source().map_or(0, |(_, side)| side.context)]
    }

    /// Fails if the program closed one of the driver's descriptors.
    pub(crate) fn check(&self) -> Answer {
        self.to.0.check_open()?;
        self.source().map_or(Ok(()), |(place, _)| place.check_open())
    }

    /// Reads the source of a transfer into a buffer. Returns a transfer from the buffer, and the buffer,
    /// which must live as long as the transfer.
    pub(crate) fn stage(self) -> Answer<(Transfer, Vec<u8>)> {
        let shape = self.shape;
        let mut bytes = vec![0; shape.byte_count() as usize];
        let (pitch, slice) = (shape.width, shape.width * shape.height);
        let side = TransferSide { pitch, slice, ..TransferSide::flat(bytes.as_mut_ptr() as u64, AddressRole::Any) };
        Transfer { to: (Storage::Host(side.address), side), from: self.from, shape, damage: (None, None) }.run()?;
        Ok((Transfer { from: TransferSource::Memory(Storage::Host(side.address), side), ..self }, bytes))
    }

    /// Moves the bytes. Unless devices are late, the caller must not hold the driver's lock.
    pub(crate) fn run(self) -> Answer {
        if self.shape.is_empty() {
            return Ok(());
        }
        self.check()?;
        for z in 0..self.shape.depth {
            for y in 0..self.shape.height {
                let row = |place: &Storage, side: &TransferSide| place.at_distance(z * side.slice + y * side.pitch);
                let to = row(&self.to.0, &self.to.1);
                match &self.from {
                    TransferSource::Memory(place, side) if self.damage != (None, None) => {
                        self.send_row(&to, &row(place, side))?;
                    }
                    TransferSource::Memory(place, side) => move_row(&to, &row(place, side), self.shape.width)?,
                    TransferSource::Pattern(pattern) => fill_row(&to, *pattern, &self.shape)?,
                }
            }
        }
        Ok(())
    }

    /// Moves a row over the damaged links of the transfer.
    fn send_row(&self, to: &Storage, from: &Storage) -> Answer {
        let mut buffer = vec![0; CHUNK.min(self.shape.width as usize)];
        for_each_chunk(self.shape.width, |done, length| {
            let bytes = &mut buffer[..length];
            let (to, from) = (to.at_distance(done), from.at_distance(done));
            damage::read_over_link(self.damage.1, &from, bytes)?;
            damage::write_over_link(self.damage.0, &to, bytes)
        })
    }
}

fn move_row(to: &Storage, from: &Storage, width: u64) -> Answer {
    match (to, from) {
        (Storage::File(file, offset), Storage::Host(address)) => {
            return file.write_from_address(*offset, *address, width);
        }
        (Storage::Host(address), Storage::File(file, offset)) => {
            // SAFETY: the caller of the driver promises that these bytes may be written.
            return unsafe { file.read_to_address(*offset, *address, width) };
        }
        _ => {}
    }
    let mut buffer = vec![0; CHUNK.min(width as usize)];
    for_each_chunk(width, |done, length| {
        let bytes = &mut buffer[..length];
        from.at_distance(done).read(bytes)?;
        to.at_distance(done).write(bytes)
    })
}

fn fill_row(to: &Storage, pattern: [u8; 4], shape: &TransferShape) -> Answer {
    // For zeros, the pages are released instead of written.
    if pattern == [0; 4] && shape.height == 1 && shape.width >= CHUNK as u64 && to.zero_by_release(shape.width) {
        return Ok(());
    }
    // The length of a chunk is a multiple of the size of every element.
    let buffer = pattern.repeat(CHUNK.min(shape.width as usize).div_ceil(4));
    for_each_chunk(shape.width, |done, length| to.at_distance(done).write(&buffer[..length]))
}

/// Calls a function for each chunk of a row, with its offset and length.
fn for_each_chunk(width: u64, mut step: impl FnMut(u64, usize) -> Answer) -> Answer {
    for done in (0..width).step_by(CHUNK) {
        if width >= limits::LARGE && done % limits::LARGE == 0 {
            limits::check_host_memory()?;
        }
        step(done, (width - done).min(CHUNK as u64) as usize)?;
    }
    Ok(())
}
