//! Handles that were never closed, by the place that opened them.

use crate::follow::collect::Collected;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::Leak;
use cupeer_report::places::PlaceTable;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Returns one row per place that left handles open, the place with the most memory first. Stacks of different processes share
/// a row if they have the same names.
pub fn rows(all: &Collected, job: &Job, places: &mut PlaceTable, filter: &Filter, now: u64) -> Vec<Leak> {
    let Collected { ledger, fates, stacks, allocators, .. } = all;
    // Stack numbers differ from process to process.
    let mut by_stack: BTreeMap<_, (usize, Leak)> = BTreeMap::new();
    for (entry, import, time) in ledger.unclosed_opens(fates).filter(|(.., time)| filter.is_after_start(time.opened)) {
        let age = now.saturating_sub(time.opened);
        let (kind, allocator) = (entry.kind.word(), allocators.allocator_of(entry, &job.processes, stacks));
        let leak = Leak {
            kind,
            handles: 1,
            times: time.count,
            bytes: entry.export.as_ref().and_then(|export| export.bytes).unwrap_or(0),
            allocator,
            oldest_ns: age,
            youngest_ns: age,
            procs: vec![fates[import.process].proc.clone()],
            stack: Vec::new(),
        };
        match by_stack.entry((kind, time.site.stack, allocator)) {
            Entry::Vacant(place) => drop(place.insert((import.process, leak))),
            Entry::Occupied(mut known) => add_leak(&mut known.get_mut().1, leak),
        }
    }
    let named =
        |((_, stack, _), (process, leak))| (process, Leak { stack: places.place_and_stack(stacks, stack).1, ..leak });
    let mut rows: Vec<(usize, Leak)> = by_stack.into_iter().map(named).collect();
    rows.sort_by_key(|(process, _)| *process);
    merge_rows(rows.into_iter().map(|(_, leak)| leak).collect())
}

/// Adds up the rows that have the same place, of one part of a job or of several.
pub fn merge_rows(rows: Vec<Leak>) -> Vec<Leak> {
    let mut by_places: BTreeMap<_, Leak> = BTreeMap::new();
    for leak in rows {
        match by_places.entry((leak.kind, leak.stack.clone(), leak.allocator)) {
            Entry::Vacant(place) => drop(place.insert(leak)),
            Entry::Occupied(mut known) => add_leak(known.get_mut(), leak),
        }
    }
    let mut rows: Vec<Leak> = by_places.into_values().collect();
    rows.sort_by_key(|leak| std::cmp::Reverse((leak.bytes, leak.handles, leak.oldest_ns)));
    rows
}

fn add_leak(all: &mut Leak, other: Leak) {
    all.handles = all.handles.saturating_add(other.handles);
    all.times = all.times.saturating_add(other.times);
    all.bytes = all.bytes.saturating_add(other.bytes);
    all.oldest_ns = all.oldest_ns.max(other.oldest_ns);
    all.youngest_ns = all.youngest_ns.min(other.youngest_ns);
    if all.procs.last() != other.procs.first() {
        all.procs.extend(other.procs);
    }
}
