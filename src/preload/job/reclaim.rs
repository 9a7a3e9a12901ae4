//! Adds entries to the live table, and reclaims others before it grows: tombstones, and entries of processes that ended.
//!
//! This module decides which entries may be given up, and in which order. Entries that findings need go last, because
//! only they show that an exporter exited.

use super::live::{self, EntryRef, TableSlot};
use super::process::pid_namespace;
use crate::settings;
use crate::sys::life::{self, ProcessLife};
use cupeer_spec::record::Header;
use cupeer_spec::record::live::{Entry, Uses, claimant_word, fingerprint_key, kind, owner_in, pid_in};

/// The kinds of entries that may be removed to make room, in the order of the cost of finding them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum ReclaimEffort {
    /// No entry may be removed: only free places are used.
    Free,
    /// Exports that ended and that no process has open may be removed. They only explain why a later open fails.
    Tombstones,
    /// Opened objects and enabled access of processes that have certainly ended may be removed, and so may places that such
    /// processes had claimed.
    Opened,
    /// Exports that no process has open may be removed if their processes have certainly ended.
    Exports,
    /// Entries of all these kinds may be removed, if a closer check shows that their processes have ended, and for
    /// exports also the processes that have them open.
    Checked,
}

impl ReclaimEffort {
    pub const ALL: [ReclaimEffort; 5] = [
        ReclaimEffort::Free,
        ReclaimEffort::Tombstones,
        ReclaimEffort::Opened,
        ReclaimEffort::Exports,
        ReclaimEffort::Checked,
    ];

    /// Removes the entry in a place if this effort allows it.
    pub fn clear_slot(self, room: TableSlot, own_pid_ns: u64) {
        if self == ReclaimEffort::Free {
            return;
        }
        let Some(place) = room.entry() else {
            if self >= ReclaimEffort::Opened {
                reclaim_abandoned_claim(room, own_pid_ns);
            }
            return;
        };
        let is_export = kind::exported_object(place.kind()).is_some();
        let (pid, pid_ns) = place.pid_and_namespace();
        let is_gone = || pid_ns == own_pid_ns && own_pid_ns != 0 && !life::exists(pid);
        let may = match self {
            ReclaimEffort::Free => false,
            ReclaimEffort::Tombstones => place.is_tombstone(),
            _ if place.is_own() => false,
            ReclaimEffort::Opened => !is_export && is_gone(),
            ReclaimEffort::Exports => is_export && !place.is_open() && is_gone(),
            ReclaimEffort::Checked => {
                let is_open = is_export && place.is_open() && has_importer(&place, own_pid_ns);
                !is_open && place.read().is_some_and(|entry| life::of_entry(&entry, own_pid_ns) == ProcessLife::Gone)
            }
        };
        if may {
            remove_entry(&place);
        }
    }
}

/// Frees a place that a process was claiming when it died. A process of another pid namespace may be running, so its claims stay.
fn reclaim_abandoned_claim(room: TableSlot, own_pid_ns: u64) {
    let Some(claimed) = room.0.claim_word() else { return };
    let pid = pid_in(claimed);
    if own_pid_ns != 0 && owner_in(claimed) == claimant_word(own_pid_ns, pid) && !life::exists(pid) {
        room.free_abandoned_claim(claimed);
    }
}

/// Removes an entry. If the entry counts as an open of an export, subtracts one from the number of opens of that export.
fn remove_entry(place: &EntryRef) {
    let Some(entry) = place.read() else { return };
    if place.free()
        && let Some(export) = kind::export_kind_of(entry.kind)
    {
        subtract_open_of_export(export, entry.fingerprint);
    }
}

/// Subtracts one from the number of opens of an export.
pub fn subtract_open_of_export(kind: u32, fingerprint: u64) {
    let Some(export) = live::find(fingerprint_key(kind, fingerprint)) else { return };
    export.change(|uses| Some(Uses { count: uses.count.checked_sub(1)?, ..uses }));
    if export.is_tombstone() && settings::get().check.is_none() {
        export.free();
    }
}

/// Returns true if a process that may still be running has an export open.
fn has_importer(export: &EntryRef, own_pid_ns: u64) -> bool {
    let (export_kind, fingerprint) = (export.kind(), export.fingerprint());
    let mut found = false;
    live::each(|place| {
        let is_opened = kind::export_kind_of(place.kind()) == Some(export_kind);
        if !found && is_opened && place.fingerprint() == fingerprint {
            let entry = place.read().filter(|entry| {
                kind::export_kind_of(entry.kind) == Some(export_kind) && entry.fingerprint == fingerprint
            });
            found = entry.is_some_and(|entry| life::of_entry(&entry, own_pid_ns) != ProcessLife::Gone);
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
    let own = claimant_word(header.pid_ns, header.pid);
    live::each_slot(|room| {
        if let Some(claimed) = room.0.claim_word().filter(|claimed| owner_in(*claimed) == own) {
            room.free_abandoned_claim(claimed);
        }
    });
    live::each(|place| {
        if place.pid_and_namespace() != (header.pid, header.pid_ns) {
            return;
        }
        let Some(entry) = place.read() else { return };
        let is_export = kind::exported_object(entry.kind).is_some();
        if entry.started == header.started && entry.image < header.image && !is_export {
            remove_entry(&place);
        }
    });
}

/// Adds an entry to the table, and removes others if there is no room. Returns false if there is still no room.
pub fn insert(entry: Entry) -> bool {
    let own_pid_ns = pid_namespace();
    loop {
        let count = live::segment_count();
        // Useless entries are removed before the table grows.
        for (effort, k) in ReclaimEffort::ALL.into_iter().flat_map(|effort| (0..count).map(move |k| (effort, k))) {
            let Some(segment) = live::map_segment(k) else { return false };
            for room in live::slots_for_key(segment, k, entry.key) {
                effort.clear_slot(room, own_pid_ns);
                if room.claim_and_fill(&entry) {
                    return true;
                }
            }
        }
        if !live::add_segment(count) {
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
            assert!(found.read().is_none() && !found.is_there() && found.is_own() != live::find(7).unwrap().is_own());
            // Through the old place, nothing can be counted or given up.
            let more = |place: &EntryRef| place.change(|uses| Some(Uses { count: uses.count + 1, ..uses }));
            assert!(more(&found).is_none() && !found.free());
            let now = live::find(7).expect("the other one");
            assert_eq!((more(&now).map(|before| before.count), now.opens_and_end().count), (Some(1), 2));
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
                let segment = live::map_segment(0).expect("a segment");
                for room in live::slots_for_key(segment, 0, 7) {
                    assert!(room.0.claim(claimant_word(pid_ns, pid)).is_some());
                }
                assert_eq!(insert(entry(7, 1000)), is_room, "{pid_ns} {pid}");
                assert_eq!(live::find(7).is_some(), is_room);
            });
        }
    }
}
