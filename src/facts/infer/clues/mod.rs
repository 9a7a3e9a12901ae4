//! Clues: unusual facts about a job in which a process failed, and no finding explains the failure.
//!
//! [`mod@copies`] compares the recorded copies of shared memory, and [`mod@handles`] exports, opens, and counts of calls. Each
//! fact is true of some right programs, so the report drops them all if nothing failed, or a finding explains that.

mod copies;
mod handles;

use super::context::Context;
use crate::follow::ledger::{HandleEntry, Site};
use cupeer_report::model::{Clue, Exit, Fingerprint};
use cupeer_report::moments::bytes;
use cupeer_report::places::PlaceTable;

/// The kinds of clues, the most specific first.
const KINDS: [&str; 15] = [
    "result-ignored",
    "exporter-ended",
    "read-of-nobody",
    "read-elsewhere",
    "read-first",
    "overwritten",
    "polled",
    "exported-again",
    "opened-again",
    "not-opened",
    "opened-in-other-order",
    "written-by-importer",
    "read-in-part",
    "unused",
    "differs",
];

/// A clue whose places are numbers, not yet names: its kind, its sentence, the handle, the processes, and the calls.
struct PendingClue<'a>(&'static str, String, Option<&'a HandleEntry>, Vec<usize>, Vec<(u64, Site)>);

/// Returns one clue per kind, the most specific first; none if no process failed.
pub fn find_clues(context: &Context, places: &mut PlaceTable) -> Vec<Clue> {
    let mut started = context.job.started.iter().map(|one| Exit::of(Some(false), one.end, false));
    let has_failed = context.has_failed_process() || started.any(Exit::is_failure);
    if !has_failed {
        return Vec::new();
    }
    let (mut facts, mut clues) = (copies::collect_facts(context), Vec::<Clue>::new());
    facts.extend(handles::collect_facts(context));
    facts.sort_by_key(|PendingClue(kind, ..)| KINDS.iter().position(|known| known == kind));
    for PendingClue(kind, message, entry, processes, calls) in facts {
        if let Some(known) = clues.iter_mut().find(|clue| clue.kind == kind) {
            known.count += 1;
            continue;
        }
        let stack = |(_, site): &(u64, Site)| places.place_and_stack(&context.all.stacks, site.stack).1;
        clues.push(Clue {
            kind,
            message,
            count: 1,
            procs: processes.iter().map(|process| context.all.fates[*process].proc.clone()).collect(),
            fingerprint: entry.map(|entry| Fingerprint(entry.fingerprint)),
            time_ns: calls.first().map_or(0, |(at, _)| *at),
            stacks: calls.iter().map(stack).collect(),
        });
    }
    clues
}

/// Returns the name of a handle with its size: `ipc:2f04c73bc883fc02 (4MiB)`.
fn handle_with_size(entry: &HandleEntry) -> String {
    let size = entry.export.as_ref().and_then(|export| export.bytes);
    format!("{}{}", Fingerprint(entry.fingerprint), size.map_or(String::new(), |size| format!(" ({})", bytes(size))))
}
