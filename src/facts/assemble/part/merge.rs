//! Merges two parts of a job.
//!
//! The processes of the second part follow those of the first, as if they had been read together. Nothing is decided
//! here: rows about one process stay unchanged, and sums are added.

use super::JobPart;
use crate::follow::functions::FunctionSum;
use crate::follow::{callers, marks, pools, virtual_memory};
use crate::infer::leaks;
use anyhow::{Result, bail};
use cupeer_report::model::{Allocations, FailureGroup, Fault, MOST_HITS, MOST_PROCS, Proc, Record, Unnamed};
use std::collections::{BTreeSet, HashMap, HashSet};

impl JobPart {
    /// Adds another part. Of single failures, `most_failures` are kept. Fails where a process is in both.
    pub fn add(&mut self, mut other: JobPart, most_failures: usize) -> Result<()> {
        self.refuse_twice(&other)?;
        let processes = self.processes.len();
        let ended = self.record.ended_ns.max(other.record.ended_ns);
        self.age(ended);
        other.age(ended);
        let mut problems = self.apart(&other);
        // Named one by one, so that no field of a later version is forgotten.
        let JobPart {
            record,
            mut keys,
            processes: mut other_processes,
            mut devices,
            functions,
            mut callers,
            callers_more,
            found,
            faults,
            mut handles,
            handles_more,
            handles_more_bytes,
            allocations,
            mut pools,
            mut leaks,
            mut peers,
            mut failures,
            failures_more,
            failure_groups,
            mut marks,
            marks_more,
            mut escaped,
            unnamed,
        } = other;
        join_records(&mut self.record, record);
        self.record.problems.append(&mut problems);
        self.keys.append(&mut keys);
        self.processes.append(&mut other_processes);
        self.devices.append(&mut devices);
        add_functions(&mut self.functions, functions, processes);
        self.callers.append(&mut callers);
        self.callers = callers::joined(std::mem::take(&mut self.callers));
        self.callers_more = self.callers_more.saturating_add(callers_more);
        self.found.add(found, processes);
        add_faults(&mut self.faults, faults);
        self.handles.append(&mut handles);
        self.handles_more = self.handles_more.saturating_add(handles_more);
        self.handles_more_bytes = self.handles_more_bytes.saturating_add(handles_more_bytes);
        self.handles.sort_by_key(|handle| handle.order());
        join_allocations(&mut self.allocations, allocations);
        self.pools.append(&mut pools);
        pools::order(&mut self.pools);
        self.leaks.append(&mut leaks);
        self.leaks = leaks::joined(std::mem::take(&mut self.leaks));
        self.peers.append(&mut peers);
        self.failures.append(&mut failures);
        self.failures.sort_by_key(|failure| failure.time_ns);
        self.failures_more = self.failures_more.saturating_add(failures_more);
        cut(&mut self.failures, most_failures, &mut self.failures_more);
        add_groups(&mut self.failure_groups, failure_groups);
        self.marks.append(&mut marks);
        self.marks.sort_by_key(|mark| mark.time_ns);
        self.marks_more = self.marks_more.saturating_add(marks_more);
        cut(&mut self.marks, marks::MOST, &mut self.marks_more);
        self.escaped.append(&mut escaped);
        add_unnamed(&mut self.unnamed, unnamed);
        Ok(())
    }

    fn refuse_twice(&self, other: &JobPart) -> Result<()> {
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

    /// What keeps the two apart: nothing can be followed from one to the other that would have been in one record.
    fn apart(&self, other: &JobPart) -> Vec<String> {
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

    /// Makes what has lasted until now last until the end of the whole.
    fn age(&mut self, ended: u64) {
        let more = ended - self.record.ended_ns;
        if more == 0 {
            return;
        }
        let older = |age: &mut u64| *age = age.saturating_add(more);
        self.processes
            .iter_mut()
            .flat_map(|process| &mut process.pending)
            .for_each(|call| older(&mut call.age_ns));
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
        // The whole has a path of its own, its hosts follow from its processes, and no part is filtered.
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
        started,
        forked,
        quiet,
        hangs,
        problems,
    } = other;
    // One of nothing but quiet processes has no begin.
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
    all.started.extend(started);
    all.forked = all.forked.saturating_add(forked);
    all.add_quiet(quiet);
    // Its file is not reduced, so it may be read twice.
    all.hangs.extend(hangs);
    all.hangs.sort_by(|a, b| (a.time_ns, &a.file).cmp(&(b.time_ns, &b.file)));
    all.hangs.dedup();
    let known: HashSet<String> = all.problems.iter().cloned().collect();
    all.problems.extend(problems.into_iter().filter(|problem| !known.contains(problem)));
}

fn add_functions(all: &mut Vec<FunctionSum>, others: Vec<FunctionSum>, processes: usize) {
    let mut places: HashMap<_, usize> =
        all.iter().enumerate().map(|(place, sum)| (sum.function.clone(), place)).collect();
    for sum in others {
        let place = *places.entry(sum.function.clone()).or_insert_with(|| {
            all.push(FunctionSum::none(sum.function.clone()));
            all.len() - 1
        });
        all[place].add(sum, processes);
    }
}

/// The rules of files come first, those that only calls name last.
fn add_faults(all: &mut Vec<Fault>, others: Vec<Fault>) {
    for fault in others {
        let key = |fault: &Fault| (fault.plan.clone(), fault.name.clone(), fault.rule.clone());
        match all.iter_mut().find(|known| key(known) == key(&fault)) {
            Some(known) => {
                known.matched = known.matched.map(|sum| sum.saturating_add(fault.matched.unwrap_or(0)));
                known.fired = known.fired.saturating_add(fault.fired);
                known.processes = known.processes.saturating_add(fault.processes);
                known.dry_run |= fault.dry_run;
                known.hits.extend(fault.hits);
                known.hits.sort_by_key(|hit| hit.time_ns);
                known.hits_more = known.hits_more.saturating_add(fault.hits_more);
                cut(&mut known.hits, MOST_HITS, &mut known.hits_more);
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
    virtual_memory::order(all);
}

fn add_groups(all: &mut Vec<FailureGroup>, others: Vec<FailureGroup>) {
    let key = |group: &FailureGroup| {
        let FailureGroup { function, result, caller, injected, injected_by, follows_fault, .. } = group;
        let whose = (*injected, injected_by.clone(), *follows_fault, group.expected);
        (function.clone(), result.clone(), caller.clone(), whose)
    };
    let mut places: HashMap<_, usize> =
        all.iter().enumerate().map(|(place, group)| (key(group), place)).collect();
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
        cut(&mut known.procs, MOST_PROCS, &mut known.procs_more);
    }
    all.sort_by_key(FailureGroup::order);
}

fn add_unnamed(all: &mut Vec<Unnamed>, others: Vec<Unnamed>) {
    for unnamed in others {
        let is_same =
            |known: &Unnamed| (&known.library, &known.reason) == (&unnamed.library, &unnamed.reason);
        if !all.iter().any(is_same) {
            all.push(unnamed);
        }
    }
}

/// Keeps so many, and counts the others.
fn cut<T>(all: &mut Vec<T>, most: usize, more: &mut u64) {
    *more = more.saturating_add(all.len().saturating_sub(most) as u64);
    all.truncate(most);
}
