//! Reclaims entries of the live table before it grows: tombstones, and entries of processes that ended.
//!
//! This module decides which entries may be given up, and in which order. Entries that findings need go last: only
//! they show that an exporter exited.

use super::live::{Place, Room};
use super::{ledger, live};
use crate::sys::life::{self, Life};
use cupeer_spec::record::Header;
use cupeer_spec::record::live::{claimant, kind, owner, pid_in};

/// What may be given up, from the cheapest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Nothing: where somebody has left a place, it is free.
    Free,
    /// What ended and nobody has open, which only explains why it can be opened no more.
    Tombstones,
    /// What processes had open or switched on that are certainly gone, and what they were filling or giving up when they
    /// died.
    Openings,
    /// What they had exported, and nobody has open.
    Exports,
    /// All that again, with a closer look at who has ended, and at who of those who had it open.
    Looked,
}

impl Effort {
    /// All of these.
    pub const ALL: [Effort; 5] =
        [Effort::Free, Effort::Tombstones, Effort::Openings, Effort::Exports, Effort::Looked];

    /// Gives up what is in a place, if that may be.
    pub fn make(self, room: Room, own_pid_ns: u64) {
        if self == Effort::Free {
            return;
        }
        let Some(place) = room.entry() else {
            if self != Effort::Tombstones {
                reclaim(room, own_pid_ns);
            }
            return;
        };
        if place.is_own() && self != Effort::Tombstones {
            return;
        }
        let is_export = kind::exported_object(place.kind()).is_some();
        let (pid, pid_ns) = place.process();
        let is_gone = || pid_ns == own_pid_ns && own_pid_ns != 0 && !life::exists(pid);
        let may = match self {
            Effort::Free => false,
            Effort::Tombstones => place.is_tombstone(),
            Effort::Openings => !is_export && is_gone(),
            Effort::Exports => is_export && !place.is_open() && is_gone(),
            Effort::Looked => {
                let is_open = is_export && place.is_open() && has_importer(&place, own_pid_ns);
                !is_open && place.read().is_some_and(|entry| life::of(&entry, own_pid_ns) == Life::Gone)
            }
        };
        if may {
            give_up(&place);
        }
    }
}

/// Gives up what a process was filling or giving up when it died. One of another pid namespace may be alive.
fn reclaim(room: Room, own_pid_ns: u64) {
    let Some(claimed) = room.claimed() else { return };
    let pid = pid_in(claimed);
    if own_pid_ns != 0 && owner(claimed) == claimant(own_pid_ns, pid) && !life::exists(pid) {
        room.reclaim(claimed);
    }
}

/// Gives an entry up.
fn give_up(place: &Place) {
    let Some(entry) = place.read() else { return };
    if place.free()
        && let Some(export) = kind::export_of(entry.kind)
    {
        ledger::let_go(export, entry.fingerprint);
    }
}

/// Whether anybody who may run has an export open.
fn has_importer(export: &Place, own_pid_ns: u64) -> bool {
    let (export_kind, fingerprint) = (export.kind(), export.origin().0);
    let mut found = false;
    live::each(|place| {
        let is_opening = kind::export_of(place.kind()) == Some(export_kind);
        if !found && is_opening && place.origin().0 == fingerprint {
            let entry = place.read().filter(|entry| {
                kind::export_of(entry.kind) == Some(export_kind) && entry.fingerprint == fingerprint
            });
            found = entry.is_some_and(|entry| life::of(&entry, own_pid_ns) != Life::Gone);
        }
    });
    found
}

/// Gives up what programs had open that this process executed before this one, and what they were filling or giving up
/// when they came to their end. That they had exported something stays.
pub fn forget_earlier_images(header: &Header) {
    if header.image == 0 {
        return;
    }
    let own = claimant(header.pid_ns, header.pid);
    live::each_room(|room| {
        if let Some(claimed) = room.claimed().filter(|claimed| owner(*claimed) == own) {
            room.reclaim(claimed);
        }
    });
    live::each(|place| {
        if place.process() != (header.pid, header.pid_ns) {
            return;
        }
        let Some(entry) = place.read() else { return };
        let is_export = kind::exported_object(entry.kind).is_some();
        if entry.started == header.started && entry.image < header.image && !is_export {
            give_up(&place);
        }
    });
}
