//! Reads from entries of the live table whether their processes run, exited, or were killed.

use super::live;
use super::process::pid_namespace;
use crate::sys::life;
use cupeer_rules::Cache;
use cupeer_rules::decide::{Importers, Life};
use cupeer_rules::reason::Process;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::{Entry, kind, library_name, opened, owner};
use cupeer_spec::record::slot::finding::Confidence;

/// The process of an entry.
pub fn process_of(entry: &Entry) -> Process {
    Process { pid: entry.pid, rank: (entry.rank != u32::MAX).then_some(entry.rank) }
}

/// Whether the process of an entry is this one.
pub fn is_own(entry: &Entry) -> bool {
    owner(entry.word) == live::own()
}

/// Whether the process of an entry runs.
pub fn life_of(entry: &Entry) -> Life {
    if is_own(entry) { Life::Runs } else { life::of(entry, pid_namespace()) }
}

/// How sure it is that the process of an entry was killed, or ended otherwise without returning; `None` where it did not.
pub fn has_died(entry: &Entry) -> Option<Confidence> {
    if life_of(entry) != Life::Gone || life::is_another_program(entry) {
        return None;
    }
    match live::end_of(entry)? {
        End::Signal(_) => Some(Confidence::Certain),
        // It may have become another program, which has ended well since.
        End::Unseen => Some(Confidence::Inferred),
        End::ExecutedSignal(_)
        | End::ExecutedReturned(_)
        | End::Executed
        | End::Returned(_)
        | End::Left(_)
        | End::ReturnedSomething
        | End::Untold => None,
    }
}

/// Who beside this process has something open that was exported; `None` where nobody has. Goes through the whole table:
/// for when somebody may have.
pub fn importers(export_kind: u32, fingerprint: u64) -> Option<Importers<Entry>> {
    let wanted = kind::exported_object(export_kind).map(kind::opened)?;
    let (mut running, mut unknown) = (0, 0);
    // With how much it is worth being told of: who is no cache, and who runs, comes first.
    let mut first: Option<((bool, bool), Entry)> = None;
    live::each(|place| {
        if place.kind() != wanted || place.is_own() {
            return;
        }
        let Some(entry) = place.read() else { return };
        // What is being closed at this moment is open no more: whoever closes it says so when it is done.
        if entry.fingerprint != fingerprint || entry.count == 0 {
            return;
        }
        let runs = match life_of(&entry) {
            Life::Runs => true,
            Life::Unknown => false,
            Life::Gone | Life::Silent => return,
        };
        *if runs { &mut running } else { &mut unknown } += 1;
        let worth = (cache_of(&entry).is_none(), runs);
        if first.is_none_or(|(known, _)| known < worth) {
            first = Some((worth, entry));
        }
    });
    first.map(|(_, first)| {
        let (opened, open) = (first.inside, u64::from(first.count));
        let uses = if opened < open { (0, 0) } else { (opened, opened - open) };
        let cache = cache_of(&first);
        Importers { running, unknown, first: (process_of(&first), first), uses, cache }
    })
}

/// The cache for which a process has something open; `None` where a library that has none has opened it, too.
fn cache_of(entry: &Entry) -> Option<Cache> {
    Cache::of(library_name(&entry.library)).filter(|_| entry.ended & opened::BY_OTHERS == 0)
}
