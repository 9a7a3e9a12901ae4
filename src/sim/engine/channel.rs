//! The channel of a process: a memory file that lists its exports.
//!
//! Another process with a handle opens the channel, holds the byte of the slot, and then reads the slot. The owner that
//! withdraws an export writes the slot first, and then checks if another process holds the byte. So either the importer finds
//! the export withdrawn, or the owner finds it in use and keeps its memory. A hold ends with its process.

use super::answer::Answer;
use super::backing::Backing;
use super::records;
use std::ffi::CStr;

/// Name in /proc.
const NAME: &CStr = c"cupeer-sim channel";
/// Name of a device's memory in /proc.
pub(crate) const MEMORY_NAME: &CStr = c"cupeer-sim memory";
/// The first bytes.
const MAGIC: u64 = 0x6e61_6863_7570_7563;
/// Words of a slot in the file. The header before the slots has the same size.
type Words = [u64; 8];
const SLOT: u64 = size_of::<Words>() as u64;
/// The most exports at a time.
pub(crate) const SLOTS: u32 = 1 << 16;
/// Offset of the bytes that processes hold, one per slot, beyond the end of the file.
const HOLDS: u64 = 1 << 40;

/// An export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub state: State,
    /// Token that a valid handle carries.
    pub token: u32,
    /// The descriptor of the memory in the exporting process.
    pub descriptor: u32,
    /// Inode of the memory's file.
    pub inode: u64,
    /// Offset and size of the allocation in the file.
    pub offset: u64,
    pub size: u64,
    /// UUID of the device with the memory.
    pub uuid: [u8; 16],
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum State {
    /// Not in use.
    Free = 0,
    /// An allocation.
    Memory = 1,
    /// An event.
    Event = 2,
    /// An allocation that ended with its context.
    Ended = 3,
}

/// A channel, of this process or of another one.
#[derive(Debug)]
pub(crate) struct Channel(Backing);

impl Channel {
    /// Creates the channel of this process. `nonce` differs from that of earlier processes with the same pid.
    pub(crate) fn create(nonce: u16) -> Option<Channel> {
        let channel = Channel(Backing::create(NAME, SLOT * u64::from(SLOTS + 1))?);
        channel.put(0, header(nonce)).ok()?;
        Some(channel)
    }

    /// Opens the channel of another process.
    pub(crate) fn open(pid: u32, descriptor: u16, nonce: u16) -> Option<Channel> {
        let channel = Channel(Backing::open(pid, u32::from(descriptor), NAME)?);
        (channel.get(0).ok()? == header(nonce)).then_some(channel)
    }

    /// Returns the descriptor, if it fits in a handle.
    pub(crate) fn descriptor(&self) -> Option<u16> {
        u16::try_from(self.0.number()).ok()
    }

    /// Returns the inode of the channel's file.
    pub(crate) fn inode(&self) -> u64 {
        self.0.inode()
    }

    /// Writes a slot.
    pub(crate) fn write(&self, slot: u16, content: &Slot) -> Answer {
        let uuid = u128::from_le_bytes(content.uuid);
        self.put(
            1 + u64::from(slot),
            [
                content.state as u64 | u64::from(content.token) << 32,
                content.descriptor.into(),
                content.inode,
                content.offset,
                content.size,
                uuid as u64,
                (uuid >> 64) as u64,
                0,
            ],
        )
    }

    /// Reads a slot.
    pub(crate) fn read(&self, slot: u16) -> Answer<Slot> {
        let [first, descriptor, inode, offset, size, low, high, _] = self.get(1 + u64::from(slot))?;
        let state = match first as u32 {
            1 => State::Memory,
            2 => State::Event,
            3 => State::Ended,
            _ => State::Free,
        };
        let (token, descriptor) = ((first >> 32) as u32, descriptor as u32);
        let uuid = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        Ok(Slot { state, token, descriptor, inode, offset, size, uuid })
    }

    /// Holds a slot of another process.
    pub(crate) fn hold(&self, slot: u16) -> bool {
        self.0.hold(HOLDS + u64::from(slot))
    }

    /// Lets go of it.
    pub(crate) fn let_go(&self, slot: u16) {
        self.0.let_go(HOLDS + u64::from(slot));
    }

    /// Returns true if another process holds a slot of this process.
    pub(crate) fn is_held(&self, slot: u16) -> bool {
        self.0.is_held(HOLDS + u64::from(slot))
    }

    /// Opens the file anew. Returns it with the offset of the page of a slot's event.
    pub(crate) fn page(&self, slot: u16) -> Option<(Backing, u64)> {
        let after = (SLOT * u64::from(SLOTS + 1)).next_multiple_of(records::BYTES);
        Some((self.0.reopen()?, after + records::BYTES * u64::from(slot)))
    }

    fn put(&self, place: u64, words: Words) -> Answer {
        self.0.check()?;
        self.0.put_words(place * SLOT, &words)
    }

    fn get(&self, place: u64) -> Answer<Words> {
        self.0.check()?;
        self.0.words(place * SLOT)
    }
}

fn header(nonce: u16) -> Words {
    [MAGIC, nonce.into(), 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_opening_reads_and_holds_slots() {
        let mine = Channel::create(77).unwrap();
        let slot = Slot {
            state: State::Memory,
            token: 1,
            descriptor: 2,
            inode: 3,
            offset: 1 << 40,
            size: 5,
            uuid: [6; 16],
        };
        mine.write(9, &slot).unwrap();
        let pid = std::process::id();
        let theirs = Channel::open(pid, mine.descriptor().unwrap(), 77).unwrap();
        assert_eq!(theirs.read(9), Ok(slot));
        assert_eq!(theirs.read(10).unwrap().state, State::Free);
        assert!(theirs.hold(9) && mine.is_held(9) && !mine.is_held(10));
        drop(theirs);
        assert!(!mine.is_held(9));
        assert!(Channel::open(pid, mine.descriptor().unwrap(), 78).is_none());
    }
}
