//! Room in the live table, before it grows: what is only remembered, and what processes have left behind that ended.
//!
//! What belongs here: which entries may be given up for others, and in which order. What findings rest on goes last:
//! that an exporter has ended is known from its entries.

use super::live::Place;
use super::{ledger, live};
use crate::sys::life::{self, Life};
use core::cell::Cell;
use cupeer_spec::record::Header;
use cupeer_spec::record::live::kind;

/// What may be given up, from the cheapest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Nothing: where somebody has left a place, it is free.
    Free,
    /// What ended and nobody has open, which only explains why it can be opened no more.
    Memories,
    /// What processes had open or switched on that are certainly gone.
    Openings,
    /// What they had exported, and nobody has open.
    Exports,
    /// All that again, with a closer look at who has ended, and at who of those who had it open.
    Looked,
}

impl Room {
    /// What else may be given up; `None` where nothing is left.
    pub fn more(self) -> Option<Room> {
        match self {
            Room::Free => Some(Room::Memories),
            Room::Memories => Some(Room::Openings),
            Room::Openings => Some(Room::Exports),
            Room::Exports => Some(Room::Looked),
            Room::Looked => None,
        }
    }

    /// Gives a place up where it may be.
    pub fn make(self, place: &Place, own_pid_ns: u64) {
        if self == Room::Free || place.is_own() && self != Room::Memories {
            return;
        }
        let Some(word) = place.live_word() else { return };
        let is_export = kind::exported_object(place.kind()).is_some();
        let (pid, pid_ns) = place.process();
        let is_gone = || pid_ns == own_pid_ns && own_pid_ns != 0 && !life::exists(pid);
        let may = match self {
            Room::Free => false,
            Room::Memories => place.is_memory(),
            Room::Openings => !is_export && is_gone(),
            Room::Exports => is_export && !place.is_open() && is_gone(),
            Room::Looked => {
                let entry = place.read();
                let is_open = is_export && place.is_open() && has_importer(place, own_pid_ns);
                !is_open && life::of(&entry, own_pid_ns) == Life::Gone
            }
        };
        if may {
            give_up(place, word);
        }
    }
}

/// Gives a place up, if it is still what it was.
fn give_up(place: &Place, word: u64) {
    let entry = place.read();
    if place.free_if(word)
        && let Some(export) = kind::export_of(entry.kind)
    {
        ledger::let_go(export, entry.fingerprint);
    }
}

/// Whether anybody who may run has an export open.
fn has_importer(export: &Place, own_pid_ns: u64) -> bool {
    let (export_kind, fingerprint) = (export.kind(), export.origin().0);
    let found = Cell::new(false);
    live::each(|place| {
        let is_opening = kind::export_of(place.kind()) == Some(export_kind);
        if !found.get() && is_opening && place.origin().0 == fingerprint {
            let entry = place.read();
            let is_of_it =
                kind::export_of(entry.kind) == Some(export_kind) && entry.fingerprint == fingerprint;
            found.set(is_of_it && life::of(&entry, own_pid_ns) != Life::Gone);
        }
    });
    found.get()
}

/// Gives up what programs had open that this process executed before this one. That they had exported something stays.
pub fn forget_earlier_images(header: &Header) {
    if header.image == 0 {
        return;
    }
    live::each(|place| {
        let Some(word) = place.live_word() else { return };
        if place.process() != (header.pid, header.pid_ns) {
            return;
        }
        let entry = place.read();
        let is_export = kind::exported_object(entry.kind).is_some();
        if entry.started == header.started && entry.image < header.image && !is_export {
            give_up(&place, word);
        }
    });
}
