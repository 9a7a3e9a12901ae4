//! Finds out if the processes of live table entries are running, exited, or were killed.

use super::live;
use super::process::pid_namespace;
use crate::sys::life;
use cupeer_rules::Cache;
use cupeer_rules::decide::{Importers, ProcessLife};
use cupeer_rules::reason::Process;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::live::{Entry, kind, library_name, opened, owner_in};
use cupeer_spec::record::slot::finding::Confidence;

/// Returns the process that an entry belongs to.
pub fn process_of(entry: &Entry) -> Process {
    Process { pid: entry.pid, rank: (entry.rank != u32::MAX).then_some(entry.rank) }
}

/// Returns true if an entry belongs to this process.
pub fn is_own(entry: &Entry) -> bool {
    owner_in(entry.word) == live::own_owner_number()
}

/// Returns whether the process of an entry is running, as far as is known.
pub fn life_of(entry: &Entry) -> ProcessLife {
    if is_own(entry) { ProcessLife::Runs } else { life::of_entry(entry, pid_namespace()) }
}

/// Returns how certain it is that the process of an entry was killed or crashed; `None` if it is running or exited normally.
pub fn confidence_in_crash(entry: &Entry) -> Option<Confidence> {
    if life_of(entry) != ProcessLife::Gone || life::has_executed_another(entry) {
        return None;
    }
    match live::read_end_of_process(entry)? {
        RecordedEnd::Signal(_) => Some(Confidence::Certain),
        // The process may have executed another program, which exited normally.
        RecordedEnd::Unseen => Some(Confidence::Inferred),
        _ => None,
    }
}

/// Returns the other processes that have the export with this fingerprint open; `None` if none has. Searches the whole table, so
/// callers first check if any process can have it open.
pub fn importers(export_kind: u32, fingerprint: u64) -> Option<Importers<Entry>> {
    let wanted = kind::exported_object(export_kind).map(kind::opened_kind)?;
    let (mut running, mut unknown) = (0, 0);
    // The importer that findings name, and its rank: the entry of a library without a cache comes first, then that of a running
    // process.
    let mut first: Option<((bool, bool), Entry)> = None;
    live::each(|place| {
        if place.kind() != wanted || place.is_own() {
            return;
        }
        let Some(entry) = place.read() else { return };
        // An object with a count of 0 is being closed, and counts as closed.
        if entry.fingerprint != fingerprint || entry.count == 0 {
            return;
        }
        let runs = match life_of(&entry) {
            ProcessLife::Runs => true,
            ProcessLife::Unknown => false,
            ProcessLife::Gone | ProcessLife::Vanished => return,
        };
        *if runs { &mut running } else { &mut unknown } += 1;
        let rank = (cache_of(&entry).is_none(), runs);
        if first.is_none_or(|(known, _)| known < rank) {
            first = Some((rank, entry));
        }
    });
    first.map(|(_, first)| {
        let (opened, open) = (first.inside, u64::from(first.count));
        let uses = if opened < open { (0, 0) } else { (opened, opened - open) };
        let cache = cache_of(&first);
        Importers { running, unknown, first: (process_of(&first), first), opens_and_closes: uses, cache }
    })
}

/// Returns the cache of the library that opened an entry's object; `None` if a library without a cache opened the object as well.
fn cache_of(entry: &Entry) -> Option<Cache> {
    Cache::of(library_name(&entry.library)).filter(|_| entry.ended & opened::BY_OTHERS == 0)
}
