//! What was never closed, by the place that opened it.

use super::ledger::Ledger;
use super::ledger::settle::Fate;
use super::model::{Leak, Proc};
use super::places::{Places, Stacks};
use std::collections::BTreeMap;

/// The groups, those that hold most first. Stacks of different processes are one where they name the same places.
pub fn rows(ledger: &Ledger, fates: &[Fate], stacks: &Stacks, places: &mut Places, now: u64) -> Vec<Leak> {
    let mut by_stack = BTreeMap::new();
    for open in ledger.each_open(fates) {
        let sum: &mut Sum = by_stack.entry((open.kind.word(), open.stack)).or_default();
        sum.add(open.bytes, open.times, now.saturating_sub(open.opened));
        if sum.processes.last() != Some(&open.process) && !sum.processes.contains(&open.process) {
            sum.processes.push(open.process);
        }
    }
    let mut by_places: BTreeMap<_, Sum> = BTreeMap::new();
    for ((kind, stack), sum) in by_stack {
        let (_, frames) = places.stack(stacks, stack);
        by_places.entry((kind, frames)).or_default().merge(sum);
    }
    let mut rows: Vec<Leak> = by_places
        .into_iter()
        .map(|((kind, stack), sum)| {
            let mut procs: Vec<Proc> =
                sum.processes.iter().map(|process| fates[*process].proc.clone()).collect();
            procs.dedup();
            Leak {
                kind,
                handles: sum.handles,
                times: sum.times,
                bytes: sum.bytes,
                oldest_ns: sum.oldest,
                youngest_ns: sum.youngest,
                procs,
                stack,
            }
        })
        .collect();
    rows.sort_by_key(|leak| std::cmp::Reverse((leak.bytes, leak.handles, leak.oldest_ns)));
    rows
}

struct Sum {
    handles: u64,
    times: u64,
    bytes: u64,
    oldest: u64,
    youngest: u64,
    processes: Vec<usize>,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { handles: 0, times: 0, bytes: 0, oldest: 0, youngest: u64::MAX, processes: Vec::new() }
    }
}

impl Sum {
    fn add(&mut self, bytes: Option<u64>, times: u64, age: u64) {
        self.handles += 1;
        self.times += times;
        self.bytes = self.bytes.saturating_add(bytes.unwrap_or(0));
        self.oldest = self.oldest.max(age);
        self.youngest = self.youngest.min(age);
    }

    fn merge(&mut self, other: Sum) {
        self.handles += other.handles;
        self.times += other.times;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.oldest = self.oldest.max(other.oldest);
        self.youngest = self.youngest.min(other.youngest);
        self.processes.extend(other.processes);
        self.processes.sort_unstable();
        self.processes.dedup();
    }
}
