//! The channel of a process: a memory file that lists its exports.
//!
//! Another process with a handle opens the channel, holds the byte of the slot, and then reads the slot. The owner that
//! withdraws an export writes the slot first, and then checks if another process holds the byte. So either the importer finds
//! the export withdrawn, or the owner finds it in use and keeps its memory. A hold ends with its process.

use super::answer::Answer;
use super::backing::Backing;
use super::records;
use std::ffi::CStr;

/// Name of a channel's memory file, which /proc shows.
const CHANNEL_NAME: &CStr = c"cupeer-sim channel";
/// Name of the memory file with a device's memory, which /proc shows.
pub(crate) const MEMORY_NAME: &CStr = c"cupeer-sim memory";
/// Number in the header of the file by which a process recognizes a channel.
const MAGIC: u64 = 0x6e61_6863_7570_7563;
/// Words of a slot in the file. The header, which precedes the slots, has as many.
type Words = [u64; 8];
/// Number of bytes of a slot in the file.
const SLOT_BYTES: u64 = size_of::<Words>() as u64;
/// Number of slots: the most exports that a process can have at a time.
pub(crate) const MOST_EXPORTS: u32 = 1 << 16;
/// Offset of the bytes that importing processes lock, one byte for each slot. The offset is beyond the end of
/// the file.
const HOLDS_OFFSET: u64 = 1 << 40;

/// An export, as a slot of the channel describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Export {
    pub state: SlotState,
    /// Number that the handle of this export contains, and that other handles do not.
    pub token: u32,
    /// The number of the memory file's descriptor in the exporting process.
    pub descriptor: u32,
    /// Inode of the memory's file.
    pub inode: u64,
    /// Offset of the allocation in the memory's file, in bytes.
    pub offset: u64,
    /// Size of the allocation in bytes.
    pub size: u64,
    /// UUID of the device with the memory.
    pub uuid: [u8; 16],
}

/// State of a slot, or kind of the export in the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum SlotState {
    /// The slot is not in use.
    Free = 0,
    /// The slot describes an allocation.
    Memory = 1,
    /// The slot describes an event.
    Event = 2,
    /// The slot described an allocation that was freed because its context was destroyed.
    Ended = 3,
}

/// The channel of this process, or the opened channel of another process.
#[derive(Debug)]
pub(crate) struct Channel(Backing);

impl Channel {
    /// Creates the channel of this process. `nonce` distinguishes the process from earlier processes with the
    /// same pid.
    pub(crate) fn create(nonce: u16) -> Option<Channel> {
        let channel = Channel(Backing::create(CHANNEL_NAME, SLOT_BYTES * u64::from(MOST_EXPORTS + 1))?);
        channel.write_words(0, header_words(nonce)).ok()?;
        Some(channel)
    }

    /// Opens the channel of another process. Returns `None` if the channel has another nonce.
    pub(crate) fn open(pid: u32, descriptor: u16, nonce: u16) -> Option<Channel> {
        let channel = Channel(Backing::open(pid, u32::from(descriptor), CHANNEL_NAME)?);
        (channel.read_words(0).ok()? == header_words(nonce)).then_some(channel)
    }

    /// Returns the file descriptor of the channel; `None` if the number does not fit in the 16 bits of a
    /// handle.
    pub(crate) fn descriptor(&self) -> Option<u16> {
        u16::try_from(self.0.descriptor_number()).ok()
    }

    /// Returns the inode of the channel's file.
    pub(crate) fn inode(&self) -> u64 {
        self.0.inode()
    }

    /// Writes an export to a slot.
    pub(crate) fn write_slot(&self, slot: u16, content: &Export) -> Answer {
        let uuid = u128::from_le_bytes(content.uuid);
        self.write_words(
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

    /// Reads the export in a slot.
    pub(crate) fn read_slot(&self, slot: u16) -> Answer<Export> {
        let [first, descriptor, inode, offset, size, low, high, _] = self.read_words(1 + u64::from(slot))?;
        let state = match first as u32 {
            1 => SlotState::Memory,
            2 => SlotState::Event,
            3 => SlotState::Ended,
            _ => SlotState::Free,
        };
        let (token, descriptor) = ((first >> 32) as u32, descriptor as u32);
        let uuid = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        Ok(Export { state, token, descriptor, inode, offset, size, uuid })
    }

    /// Locks the byte of a slot of another process, so that its owner sees the slot as in use. Returns false
    /// on failure.
    pub(crate) fn hold_slot(&self, slot: u16) -> bool {
        self.0.lock_shared(HOLDS_OFFSET + u64::from(slot))
    }

    /// Unlocks the byte of a slot that [`Channel::hold_slot`] locked.
    pub(crate) fn release_slot(&self, slot: u16) {
        self.0.unlock(HOLDS_OFFSET + u64::from(slot));
    }

    /// Returns true if another process holds a slot of this process.
    pub(crate) fn is_held(&self, slot: u16) -> bool {
        self.0.is_locked_elsewhere(HOLDS_OFFSET + u64::from(slot))
    }

    /// Opens the file of the channel once more. Returns the file, and the offset in the file of the page for
    /// the event of a slot.
    pub(crate) fn open_event_page(&self, slot: u16) -> Option<(Backing, u64)> {
        let after = (SLOT_BYTES * u64::from(MOST_EXPORTS + 1)).next_multiple_of(records::BYTES);
        Some((self.0.reopen()?, after + records::BYTES * u64::from(slot)))
    }

    fn write_words(&self, index: u64, words: Words) -> Answer {
        self.0.check_still_open()?;
        self.0.write_words(index * SLOT_BYTES, &words)
    }

    fn read_words(&self, index: u64) -> Answer<Words> {
        self.0.check_still_open()?;
        self.0.read_words(index * SLOT_BYTES)
    }
}

fn header_words(nonce: u16) -> Words {
    [MAGIC, nonce.into(), 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_opening_reads_and_holds_slots() {
        let mine = Channel::create(77).unwrap();
        let slot = Export {
            state: SlotState::Memory,
            token: 1,
            descriptor: 2,
            inode: 3,
            offset: 1 << 40,
            size: 5,
            uuid: [6; 16],
        };
        mine.write_slot(9, &slot).unwrap();
        let pid = std::process::id();
        let theirs = Channel::open(pid, mine.descriptor().unwrap(), 77).unwrap();
        assert_eq!(theirs.read_slot(9), Ok(slot));
        assert_eq!(theirs.read_slot(10).unwrap().state, SlotState::Free);
        assert!(theirs.hold_slot(9) && mine.is_held(9) && !mine.is_held(10));
        drop(theirs);
        assert!(!mine.is_held(9));
        assert!(Channel::open(pid, mine.descriptor().unwrap(), 78).is_none());
    }
}
