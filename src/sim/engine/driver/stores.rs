//! The memory of devices: of each a file, as far as this process uses it, and which parts of it are taken. An address
//! leads here by way of an allocation (`super::memory`), an array by itself.

use super::super::backing::Backing;
use super::super::holes::Holes;
use super::super::room::Room;
use super::super::space::{GRANULE, LARGE};
use super::super::tickets::Ticket;
use std::sync::Arc;

/// What freed memory is filled with, and how much of it; the rest becomes zeros.
static SPOIL: [u8; 1 << 16] = [0xa5; 1 << 16];
const SPOILED: u64 = 1 << 20;

/// Where bytes of a device's memory are: of this process's, or of one that exported them.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub backing: Arc<Backing>,
    pub offset: u64,
}

impl Stored {
    /// Has so many bytes be others than they were.
    pub(crate) fn spoil(&self, size: u64) {
        let at = |done| self.offset + done;
        for done in (0..size.min(SPOILED)).step_by(SPOIL.len()) {
            let length = (size - done).min(SPOIL.len() as u64);
            let _ = self.backing.write(at(done), SPOIL.as_ptr() as u64, length);
        }
        if size > SPOILED {
            self.backing.punch(at(SPOILED), size - SPOILED);
        }
    }
}

/// A part of a device's memory, this process's or another's: behind handles, or behind the table of a shared pool.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub backing: Arc<Backing>,
    /// Which part, of which device.
    pub ticket: Ticket,
    /// The ordinal of the device whose memory it is, if this process created it.
    pub(in crate::engine) own: Option<usize>,
}

impl Block {
    /// Whether it is this process's own memory.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    pub(crate) fn is(&self, other: &Block) -> bool {
        Arc::ptr_eq(&self.backing, &other.backing) && self.ticket == other.ticket
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(in crate::engine) backing: Arc<Backing>,
    pub(in crate::engine) holes: Holes,
}

/// Device memory that is freed here and open elsewhere.
#[derive(Debug)]
pub(crate) struct Ghost {
    pub device: usize,
    pub offset: u64,
    pub size: u64,
    /// By what others can still open it. Who has it from a descriptor holds its first byte.
    pub name: Option<Name>,
}

/// An entry of a table by which others find what is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// Of an export by handle.
    Handle(u16),
    /// Of a pointer into a pool.
    Pointer { pool: usize, slot: u16 },
}

/// The memory of all devices that this process sees.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(in crate::engine) files: Vec<Option<Store>>,
    /// Bytes in use, by device.
    pub(in crate::engine) used: Vec<u64>,
    pub(in crate::engine) ghosts: Vec<Ghost>,
    /// What the other processes of the job use.
    pub(in crate::engine) room: Option<Room>,
}

impl Stores {
    pub(crate) fn new(devices: usize) -> Stores {
        Stores {
            files: (0..devices).map(|_| None).collect(),
            used: vec![0; devices],
            ghosts: Vec::new(),
            room: Room::join(),
        }
    }

    /// Whether another open file holds a byte of a device's memory.
    pub(crate) fn is_held(&self, device: usize, offset: u64) -> bool {
        self.files[device].as_ref().is_some_and(|store| store.backing.is_held(offset))
    }

    /// Keeps what others have open until they close it.
    pub(crate) fn keep(&mut self, ghost: Ghost) {
        self.ghosts.push(ghost);
    }

    /// Calls a function for the entries that a pool's table has of what is freed: the table goes.
    pub(crate) fn forget_pointers(&mut self, gone: usize, mut withdraw: impl FnMut(u16)) {
        for ghost in &mut self.ghosts {
            if let Some(Name::Pointer { pool, slot }) = ghost.name
                && pool == gone
            {
                withdraw(slot);
                ghost.name = None;
            }
        }
    }
}

/// How much of a device's memory an allocation takes.
pub(crate) fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(if size < LARGE { GRANULE } else { 4096 })
}
