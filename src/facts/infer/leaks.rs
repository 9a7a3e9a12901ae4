//! Handles that were never closed, by the place that opened them.

use crate::follow::collect::Collected;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::Leak;
use cupeer_report::places::Places;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The groups, those that hold most first. Stacks of different processes are one where they name the same places.
pub fn rows(all: &Collected, job: &Job, places: &mut Places, filter: &Filter, now: u64) -> Vec<Leak> {
    let Collected { ledger, fates, stacks, allocators, .. } = all;
    let mut by_stack: BTreeMap<_, Sum> = BTreeMap::new();
    for (entry, import, time) in ledger.each_open(fates).filter(|(.., time)| filter.is_since(time.opened)) {
        let bytes = entry.export.as_ref().and_then(|export| export.bytes).unwrap_or(0);
        let age = now.saturating_sub(time.opened);
        let (times, processes) = (time.count, BTreeSet::from([import.process]));
        let one = Sum { handles: 1, times, bytes, oldest: age, youngest: age, processes };
        let allocator = allocators.of(entry, &job.processes, stacks);
        by_stack.entry((entry.kind.word(), time.site.stack, allocator)).or_default().add(one);
    }
    let mut by_places: BTreeMap<_, Sum> = BTreeMap::new();
    for ((kind, stack, allocator), sum) in by_stack {
        let (_, frames) = places.stack(stacks, stack);
        by_places.entry((kind, frames, allocator)).or_default().add(sum);
    }
    let row = |((kind, stack, allocator), sum): ((_, _, _), Sum)| Leak {
        kind,
        handles: sum.handles,
        times: sum.times,
        bytes: sum.bytes,
        allocator,
        oldest_ns: sum.oldest,
        youngest_ns: sum.youngest,
        procs: sum.processes.iter().map(|process| fates[*process as usize].proc.clone()).collect(),
        stack,
    };
    let mut rows: Vec<Leak> = by_places.into_iter().map(row).collect();
    order(&mut rows);
    rows
}

fn order(rows: &mut [Leak]) {
    rows.sort_by_key(|leak| std::cmp::Reverse((leak.bytes, leak.handles, leak.oldest_ns)));
}

/// Rows of several parts of a job as one: those from one place are added up.
pub fn joined(rows: Vec<Leak>) -> Vec<Leak> {
    let mut by_places: BTreeMap<_, Leak> = BTreeMap::new();
    for leak in rows {
        match by_places.entry((leak.kind, leak.stack.clone(), leak.allocator)) {
            Entry::Vacant(place) => drop(place.insert(leak)),
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.handles = known.handles.saturating_add(leak.handles);
                known.times = known.times.saturating_add(leak.times);
                known.bytes = known.bytes.saturating_add(leak.bytes);
                known.oldest_ns = known.oldest_ns.max(leak.oldest_ns);
                known.youngest_ns = known.youngest_ns.min(leak.youngest_ns);
                known.procs.extend(leak.procs);
            }
        }
    }
    let mut rows: Vec<Leak> = by_places.into_values().collect();
    order(&mut rows);
    rows
}

struct Sum {
    handles: u64,
    times: u64,
    bytes: u64,
    oldest: u64,
    youngest: u64,
    processes: BTreeSet<u32>,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { handles: 0, times: 0, bytes: 0, oldest: 0, youngest: u64::MAX, processes: BTreeSet::new() }
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.handles += other.handles;
        self.times += other.times;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.oldest = self.oldest.max(other.oldest);
        self.youngest = self.youngest.min(other.youngest);
        self.processes.extend(other.processes);
    }
}
