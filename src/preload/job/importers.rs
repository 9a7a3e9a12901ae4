//! What entries of the live table say of the processes that made them.

use super::live;
use super::process::pid_namespace;
use crate::sys::life;
use cupeer_rules::decide::{Importers, Life};
use cupeer_rules::reason::Process;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::{Entry, kind, owner};
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
        End::Returned(_) | End::ReturnedSomething | End::Untold => None,
    }
}

/// Who beside this process has something open that was exported; `None` where nobody has. Goes through the whole table:
/// for when somebody may have.
pub fn importers(export_kind: u32, fingerprint: u64) -> Option<Importers<Entry>> {
    let wanted = kind::exported_object(export_kind).map(kind::opened)?;
    let (mut running, mut unknown, mut first) = (0, 0, None);
    live::each(|place| {
        if place.kind() != wanted || place.is_own() {
            return;
        }
        let Some(entry) = place.read() else { return };
        // What is being closed at this moment is open no more: whoever closes it says so when it is done.
        if entry.fingerprint != fingerprint || entry.count == 0 {
            return;
        }
        match life_of(&entry) {
            Life::Runs => {
                if running == 0 {
                    first = Some(entry);
                }
                running += 1;
            }
            Life::Unknown => {
                first = first.or(Some(entry));
                unknown += 1;
            }
            Life::Gone | Life::Silent => {}
        }
    });
    first.map(|first| {
        let (opened, open) = (first.inside, u64::from(first.count));
        let uses = if opened < open { (0, 0) } else { (opened, opened - open) };
        Importers { running, unknown, first: (process_of(&first), first), uses }
    })
}
