//! Merges two parts of a job.
//!
//! The processes of the second part follow those of the first, as if they had been read together. Nothing is decided
//! here: rows about one process stay unchanged, and sums are added.

use super::JobPart;
use crate::follow::functions::FunctionSum;
use crate::follow::{callers, marks, pools, virtual_memory};
use crate::infer::leaks;
use anyhow::{Result, bail};
use cupeer_report::model::{
    Allocations, FailureGroup, Fault, MOST_HITS, MOST_PROCS, Memory, MemoryOverTime, Proc, Record, Unnamed,
};
use std::collections::{BTreeSet, HashMap, HashSet};

impl JobPart {
    /// Adds another part. Keeps at most `most_failures` single failures. Fails if both parts have the same process.
    pub fn add(&mut self, mut other: JobPart, most_failures: usize) -> Result<()> {
        self.refuse_common_process(&other)?;
        let ended = self.record.ended_ns.max(other.record.ended_ns);
        self.extend_open_rows(ended);
        other.extend_open_rows(ended);
        let mut problems = self.list_incompatibilities(&other);
        self.add_rows(other, most_failures);
        self.record.problems.append(&mut problems);
        Ok(())
    }

    fn add_rows(&mut self, other: JobPart, most_failures: usize) {
        let processes = self.processes.len();
        // All fields are named, so that a field that is added later cannot be forgotten here.
        let JobPart {
            record,
            keys,
            processes: other_processes,
            devices,
            functions,
            callers,
            callers_more,
            found,
            faults,
            handles,
            handles_more,
            handles_more_bytes,
            allocations,
            memory,
            memory_over_time,
            pools,
            leaks,
            peers,
            failures,
            failures_more,
            failure_groups,
            clues,
            marks,
            marks_more,
            escaped,
            unnamed,
        } = other;
        join_records(&mut self.record, record);
        self.keys.extend(keys);
        self.processes.extend(other_processes);
        self.devices.extend(devices);
        self.peers.extend(peers);
        self.escaped.extend(escaped);
        self.clues.extend(clues);
        add_functions(&mut self.functions, functions, processes);
        self.found.add(found, processes);
        add_faults(&mut self.faults, faults);
        join_allocations(&mut self.allocations, allocations);
        add_groups(&mut self.failure_groups, failure_groups);
        add_unnamed(&mut self.unnamed, unnamed);
        self.callers.extend(callers);
        self.callers = callers::merge_equal_callers(std::mem::take(&mut self.callers));
        add_saturating(&mut self.callers_more, callers_more);
        self.handles.extend(handles);
        self.handles.sort_by_key(|handle| handle.sort_key());
        add_saturating(&mut self.handles_more, handles_more);
        add_saturating(&mut self.handles_more_bytes, handles_more_bytes);
        join_memory((&mut self.memory, &mut self.memory_over_time), (memory, memory_over_time));
        self.pools.extend(pools);
        pools::sort_and_truncate(&mut self.pools);
        self.leaks = leaks::merge_rows(std::mem::take(&mut self.leaks).into_iter().chain(leaks).collect());
        let kept = (&mut self.failures, &mut self.failures_more);
        merge_first(kept, (failures, failures_more), most_failures, |failure| failure.time_ns);
        let kept = (&mut self.marks, &mut self.marks_more);
        merge_first(kept, (marks, marks_more), marks::MOST_MARKS, |mark| mark.time_ns);
    }

    fn refuse_common_process(&self, other: &JobPart) -> Result<()> {
        let known: HashSet<&Proc> = self.processes.iter().map(|process| &process.proc).collect();
        if let Some(twice) = other.processes.iter().find(|process| known.contains(&process.proc)) {
            bail!(
                "process {} ({}) is in more than one of them, and its calls would be counted twice: name each part of \
                 a job once",
                twice.pid,
                twice.proc
            );
        }
        Ok(())
    }

    /// Returns sentences about properties of the parts because of which their handles cannot be followed from one to the
    /// other.
    fn list_incompatibilities(&self, other: &JobPart) -> Vec<String> {
        let mut problems = Vec::new();
        let boots: BTreeSet<&str> = self.processes.iter().map(|process| process.boot_id.as_str()).collect();
        if let Some(both) = other.processes.iter().find(|process| boots.contains(process.boot_id.as_str())) {
            problems.push(format!(
                "{} and {} are of one host ({}), so handles cannot be followed between them: reduce all records of a host \
                 together",
                self.record.path, other.record.path, both.host
            ));
        }
        let key = self.keys.first();
        if other.keys.iter().any(|other| Some(other) != key) && key.is_some() {
            problems.push(format!("{} is of another job than {}", other.record.path, self.record.path));
        }
        problems
    }

    /// Extends rows that last until the end of this part to the end of the merged data.
    fn extend_open_rows(&mut self, ended: u64) {
        let more = ended - self.record.ended_ns;
        if more == 0 {
            return;
        }
        let older = |age: &mut u64| *age = age.saturating_add(more);
        self.processes.iter_mut().flat_map(|process| &mut process.pending).for_each(|call| older(&mut call.age_ns));
        for leak in &mut self.leaks {
            older(&mut leak.oldest_ns);
            older(&mut leak.youngest_ns);
        }
        let kept = self.allocations.kept.iter_mut().filter(|kept| kept.until_ns.is_none());
        kept.for_each(|kept| older(&mut kept.longest_ns));
    }
}

fn join_records(all: &mut Record, other: Record) {
    let Record {
        // These fields are not merged: the job has its own path, its hosts follow from the processes, and parts are not filtered.
        path: _,
        hosts: _,
        matching: _,
        filters: _,
        in_part: _,
        began_ns,
        ended_ns,
        running,
        mode,
        dropped,
        events,
        repeated,
        lost,
        commands,
        started,
        forked,
        quiet,
        hangs,
        problems,
    } = other;
    // A part without recorded processes has no begin: 0.
    all.began_ns = [all.began_ns, began_ns].into_iter().filter(|began| *began > 0).min().unwrap_or(0);
    all.ended_ns = all.ended_ns.max(ended_ns);
    all.running |= running;
    if all.mode != mode {
        all.mode = "mixed";
    }
    all.dropped |= dropped;
    all.events = all.events.saturating_add(events);
    all.repeated = all.repeated.saturating_add(repeated);
    all.lost = all.lost.saturating_add(lost);
    all.commands.extend(commands);
    all.commands.dedup();
    all.started.extend(started);
    all.forked = all.forked.saturating_add(forked);
    all.add_quiet(quiet);
    // Hang files are not removed by a reduction, so both parts may contain the same hang.
    all.hangs.extend(hangs);
    all.hangs.sort_by(|a, b| (a.time_ns, &a.file).cmp(&(b.time_ns, &b.file)));
    all.hangs.dedup_by(|a, b| (a.time_ns, &a.file) == (b.time_ns, &b.file));
    let known: HashSet<String> = all.problems.iter().cloned().collect();
    all.problems.extend(problems.into_iter().filter(|problem| !known.contains(problem)));
}

fn add_functions(all: &mut Vec<FunctionSum>, others: Vec<FunctionSum>, processes: usize) {
    let mut places: HashMap<_, usize> =
        all.iter().enumerate().map(|(place, sum)| (sum.function.clone(), place)).collect();
    for sum in others {
        let place = *places.entry(sum.function.clone()).or_insert_with(|| {
            all.push(FunctionSum { function: sum.function.clone(), ..FunctionSum::default() });
            all.len() - 1
        });
        all[place].add(sum, processes);
    }
}

/// Adds faults. Faults from files of plans come first, and faults that only calls name last.
fn add_faults(all: &mut Vec<Fault>, others: Vec<Fault>) {
    for fault in others {
        let key = |fault: &Fault| (fault.plan.clone(), fault.name.clone(), fault.rule.clone());
        match all.iter_mut().find(|known| key(known) == key(&fault)) {
            Some(known) => {
                known.matched = known.matched.map(|sum| sum.saturating_add(fault.matched.unwrap_or(0)));
                known.fired = known.fired.saturating_add(fault.fired);
                known.processes = known.processes.saturating_add(fault.processes);
                known.dry_run |= fault.dry_run;
                let hits = (&mut known.hits, &mut known.hits_more);
                merge_first(hits, (fault.hits, fault.hits_more), MOST_HITS, |hit| hit.time_ns);
            }
            None => all.push(fault),
        }
    }
    all.sort_by_key(|fault| fault.rule.is_none().then(|| fault.name.clone()));
}

fn join_allocations(all: &mut Allocations, other: Allocations) {
    let Allocations { mut devices, mut spaces, mut kept, mut multicast, mut largest, largest_more } = other;
    all.devices.append(&mut devices);
    all.spaces.append(&mut spaces);
    all.kept.append(&mut kept);
    all.multicast.append(&mut multicast);
    all.largest.append(&mut largest);
    all.largest_more = all.largest_more.saturating_add(largest_more);
    virtual_memory::sort_and_truncate(all);
}

/// Adds memory rows. Each part has all processes of its hosts, and so all rows of their devices.
fn join_memory(
    (all, all_over_time): (&mut Vec<Memory>, &mut Vec<MemoryOverTime>),
    (other, other_over_time): (Vec<Memory>, Vec<MemoryOverTime>),
) {
    all.extend(other);
    all.sort_by_key(|memory| memory.at_ns.unwrap_or(u64::MAX));
    all_over_time.extend(other_over_time);
}

fn add_groups(all: &mut Vec<FailureGroup>, others: Vec<FailureGroup>) {
    let key = |group: &FailureGroup| {
        let FailureGroup { function, result, caller, injected, injected_by, follows_fault, .. } = group;
        let whose = (*injected, injected_by.clone(), *follows_fault, group.expected);
        (function.clone(), result.clone(), caller.clone(), whose)
    };
    let mut places: HashMap<_, usize> = all.iter().enumerate().map(|(place, group)| (key(group), place)).collect();
    for group in others {
        let place = *places.entry(key(&group)).or_insert(all.len());
        let Some(known) = all.get_mut(place) else {
            all.push(group);
            continue;
        };
        known.count = known.count.saturating_add(group.count);
        known.stacks = known.stacks.saturating_add(group.stacks);
        known.first_ns = known.first_ns.min(group.first_ns);
        known.last_ns = known.last_ns.max(group.last_ns);
        known.procs.extend(group.procs);
        known.procs_more = known.procs_more.saturating_add(group.procs_more);
        truncate_and_count(&mut known.procs, MOST_PROCS, &mut known.procs_more);
    }
    all.sort_by_key(FailureGroup::sort_key);
}

fn add_unnamed(all: &mut Vec<Unnamed>, others: Vec<Unnamed>) {
    for unnamed in others {
        let is_same = |known: &Unnamed| (&known.library, &known.reason) == (&unnamed.library, &unnamed.reason);
        if !all.iter().any(is_same) {
            all.push(unnamed);
        }
    }
}

fn add_saturating(all: &mut u64, more: u64) {
    *all = all.saturating_add(more);
}

/// Adds rows. Keeps the first by time, and counts the others.
fn merge_first<T>(
    (all, all_more): (&mut Vec<T>, &mut u64),
    (others, more): (Vec<T>, u64),
    most: usize,
    time: impl Fn(&T) -> u64,
) {
    all.extend(others);
    all.sort_by_key(time);
    add_saturating(all_more, more);
    truncate_and_count(all, most, all_more);
}

/// Keeps the first `most` elements, and adds the number of the others to `more`.
fn truncate_and_count<T>(all: &mut Vec<T>, most: usize, more: &mut u64) {
    *more = more.saturating_add(all.len().saturating_sub(most) as u64);
    all.truncate(most);
}
