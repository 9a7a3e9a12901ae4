//! Adds entries to the live table, and reclaims others before it grows: tombstones, and entries of processes that ended.
//!
//! This module decides which entries may be given up, and in which order. Entries that findings need go last, because
//! only they show that an exporter exited.

use super::live::{self, Place, Position};
use super::process::pid_namespace;
use crate::settings;
use crate::sys::life::{self, Life};
use cupeer_spec::record::Header;
use cupeer_spec::record::live::{Entry, Uses, claimant, handle_key, kind, owner, pid_in};

/// The kinds of entries that may be removed to make room, in the order of the cost of finding them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Effort {
    /// No entry may be removed: only free places are used.
    Free,
    /// Exports that ended and that no process has open may be removed. They only explain why a later open fails.
    Tombstones,
    /// Opened objects and enabled access of processes that have certainly ended may be removed, and so may places that such
    /// processes had claimed.
    Opened,
    /// Exports that no process has open may be removed if their processes have certainly ended.
    Exports,
    /// All of these may be removed, after a closer check if their processes, and those that have the exports open, have ended.
    Checked,
}

impl Effort {
    pub const ALL: [Effort; 5] =
        [Effort::Free, Effort::Tombstones, Effort::Opened, Effort::Exports, Effort::Checked];

    /// Removes the entry in a place if this effort allows it.
    pub fn clear(self, room: Position, own_pid_ns: u64) {
        if self == Effort::Free {
            return;
        }
        let Some(place) = room.entry() else {
            if self >= Effort::Opened {
                reclaim(room, own_pid_ns);
            }
            return;
        };
        let is_export = kind::exported_object(place.kind()).is_some();
        let (pid, pid_ns) = place.process();
        let is_gone = || pid_ns == own_pid_ns && own_pid_ns != 0 && !life::exists(pid);
        let may = match self {
            Effort::Free => false,
            Effort::Tombstones => place.is_tombstone(),
            _ if place.is_own() => false,
            Effort::Opened => !is_export && is_gone(),
            Effort::Exports => is_export && !place.is_open() && is_gone(),
            Effort::Checked => {
                let is_open = is_export && place.is_open() && has_importer(&place, own_pid_ns);
                !is_open && place.read().is_some_and(|entry| life::of_entry(&entry, own_pid_ns) == Life::Gone)
            }
        };
        if may {
            give_up(&place);
        }
    }
}

/// Frees a place that a process was claiming when it died. A process of another pid namespace may be running, so its claims stay.
fn reclaim(room: Position, own_pid_ns: u64) {
    let Some(claimed) = room.0.claimed() else { return };
    let pid = pid_in(claimed);
    if own_pid_ns != 0 && owner(claimed) == claimant(own_pid_ns, pid) && !life::exists(pid) {
        room.reclaim(claimed);
    }
}

/// Removes an entry. If the entry counts as an open of an export, subtracts one from the number of opens of that export.
fn give_up(place: &Place) {
    let Some(entry) = place.read() else { return };
    if place.free()
        && let Some(export) = kind::export_of(entry.kind)
    {
        let_go(export, entry.fingerprint);
    }
}

/// Subtracts one from the number of opens of an export.
pub fn let_go(kind: u32, fingerprint: u64) {
    let Some(export) = live::find(handle_key(kind, fingerprint)) else { return };
    export.change(|uses| Some(Uses { count: uses.count.checked_sub(1)?, ..uses }));
    if export.is_tombstone() && settings::get().check.is_none() {
        export.free();
    }
}

/// Returns true if a process that may still be running has an export open.
fn has_importer(export: &Place, own_pid_ns: u64) -> bool {
    let (export_kind, fingerprint) = (export.kind(), export.fingerprint());
    let mut found = false;
    live::each(|place| {
        let is_opened = kind::export_of(place.kind()) == Some(export_kind);
        if !found && is_opened && place.fingerprint() == fingerprint {
            let entry = place.read().filter(|entry| {
                kind::export_of(entry.kind) == Some(export_kind) && entry.fingerprint == fingerprint
            });
            found = entry.is_some_and(|entry| life::of_entry(&entry, own_pid_ns) != Life::Gone);
        }
    });
    found
}

/// Removes the opened objects of programs that this process executed before the current one, and frees the places that those had
/// claimed. Their exports stay.
pub fn forget_earlier_images(header: &Header) {
    if header.image == 0 {
        return;
    }
    let own = claimant(header.pid_ns, header.pid);
    live::each_position(|room| {
        if let Some(claimed) = room.0.claimed().filter(|claimed| owner(*claimed) == own) {
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

/// Adds an entry to the table, and removes others if there is no room. Returns false if there is still no room.
pub fn insert(entry: Entry) -> bool {
    let own_pid_ns = pid_namespace();
    loop {
        let count = live::segment_count();
        // Useless entries are removed before the table grows.
        for (effort, k) in Effort::ALL.into_iter().flat_map(|effort| (0..count).map(move |k| (effort, k))) {
            let Some(segment) = live::segment(k) else { return false };
            for room in live::positions(segment, k, entry.key) {
                effort.clear(room, own_pid_ns);
                if room.fill(&entry) {
                    return true;
                }
            }
        }
        if !live::grow(count) {
            live::note_refused();
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::live::tests::{be, with_table};
    use super::*;
    use cupeer_spec::record::live::WORDS;

    fn entry(key: u64, pid: u32) -> Entry {
        Entry { key, kind: kind::PEER, pid, pid_ns: 1, count: 1, ..Entry::from_words([0; WORDS]) }
    }

    #[test]
    fn an_entry_is_not_mistaken_for_a_later_one_in_its_place() {
        with_table(|| {
            assert!(insert(entry(7, 1000)));
            let found = live::find(7).expect("the entry");
            assert_eq!(found.read().map(|entry| (entry.pid, entry.count)), Some((1000, 1)));
            // Its process gives it up, and another one takes the place with the same key.
            assert!(found.free() && !found.free());
            be(1001);
            assert!(insert(entry(7, 1001)));
            assert!(
                found.read().is_none()
                    && !found.is_there()
                    && found.is_own() != live::find(7).unwrap().is_own()
            );
            // Through the old place, nothing can be counted or given up.
            let more = |place: &Place| place.change(|uses| Some(Uses { count: uses.count + 1, ..uses }));
            assert!(more(&found).is_none() && !found.free());
            let now = live::find(7).expect("the other one");
            assert_eq!((more(&now).map(|before| before.count), now.uses().count), (Some(1), 2));
            assert_eq!(live::read(7).map(|entry| (entry.pid, entry.count)), Some((1001, 2)));
        });
    }

    #[test]
    fn places_that_dead_processes_claimed_are_reclaimed() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let dead = child.id();
        child.wait().expect("its end");
        // One alive, two of other namespaces, and one dead.
        for (pid_ns, pid, is_room) in
            [(1, std::process::id(), false), (2, dead, false), (0, dead, false), (1, dead, true)]
        {
            with_table(|| {
                let segment = live::segment(0).expect("a segment");
                for room in live::positions(segment, 0, 7) {
                    assert!(room.0.claim(claimant(pid_ns, pid)).is_some());
                }
                assert_eq!(insert(entry(7, 1000)), is_room, "{pid_ns} {pid}");
                assert_eq!(live::find(7).is_some(), is_room);
            });
        }
    }
}
