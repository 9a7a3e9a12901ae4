//! The failed calls: a list of the first ones, and the counts of all by function, result, and caller.
//!
//! The memory is constant, however many calls fail.

use crate::follow::faults::{FailureCause, MOST_NAMES};
use crate::follow::functions::{FunctionCounts, Number};
use crate::follow::ledger::Site;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::runtime::RuntimeParents;
use cupeer_record::{Call, Clock};
use cupeer_report::expected::{Expectation, ProbeQuery};
use cupeer_report::model::{Failure, FailureGroup, MOST_PROCS, Place};
use cupeer_report::numbered::NumberedNames;
use cupeer_report::places::{PlaceTable, StackNumber, StackTable};
use cupeer_report::{results, values};
use cupeer_rules::probes::Probe;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct Failures {
    most_single_failures: usize,
    first_failures: BTreeMap<FailureOrder, SingleFailure>,
    count: u64,
    groups: HashMap<Key, GroupTotals, foldhash::fast::RandomState>,
    /// Failures that a later call may turn into expected answers to a probe, by process and question.
    open: HashMap<(usize, ProbeQuery), Open>,
    rules: NumberedNames,
}

/// Key of failures that are counted together: process, function, result, place, cause, and the probe that they answer.
type Key = (usize, Number, i32, StackNumber, FailureCause, Option<&'static Probe>);

/// Failures that may be answers to a probe: the probe, and the groups of the failures.
type Open = (&'static Probe, Vec<(Key, GroupTotals)>);

/// Key of failures that share a row, over all processes: function, result, caller, cause, and why they are expected.
type RowKey = (Number, i32, Place, FailureCause, Option<&'static str>);

/// Sort key of single failures: time of the call, process, stream, and number of the call in the stream.
type FailureOrder = (u64, usize, u32, u64);

struct SingleFailure {
    duration: u64,
    number: Number,
    result: i32,
    stack: StackNumber,
    cause: FailureCause,
    call: Box<Call>,
}

#[derive(Clone, Copy)]
pub struct GroupTotals {
    pub count: u64,
    /// Number of failures whose call stack was recorded.
    pub stacks: u64,
    /// Time of the first failed call.
    pub first: u64,
    /// Time of the last failed call.
    pub last: u64,
    is_usual: bool,
    /// Place of the first failure.
    pub site: Site,
    /// Process of the first failure.
    process: usize,
}

impl GroupTotals {
    fn add(&mut self, other: GroupTotals) {
        if other.first < self.first {
            (self.site, self.process) = (other.site, other.process);
        }
        self.count = self.count.saturating_add(other.count);
        self.stacks = self.stacks.saturating_add(other.stacks);
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
    }
}

impl Failures {
    /// Creates an empty collection that keeps at most `most` single failures.
    pub fn new(most: usize) -> Self {
        Failures { most_single_failures: most, ..Failures::default() }
    }

    /// Counts a call that failed. `follows_fault` is true if it failed because of an earlier fault.
    #[allow(clippy::too_many_arguments)]
    pub fn add_failure(
        &mut self,
        process: usize,
        number: Number,
        result: i32,
        call: &Call,
        follows_fault: bool,
        standing: Expectation,
        clock: &Clock,
        stacks: &mut StackTable,
    ) {
        let at = clock.realtime(call.start);
        let last = if call.call_count() > 1 { clock.realtime(call.last_end()) } else { at };
        let stack = stacks.of(process, call);
        self.count = self.count.saturating_add(call.call_count());
        let usual = results::is_usual(call.function, result);
        let cause = match follows_fault {
            _ if call.injected => {
                FailureCause::Fault(call.injecting_fault().and_then(|name| self.rules.find_or_add(name, MOST_NAMES)))
            }
            true => FailureCause::EarlierFault,
            false => FailureCause::Driver,
        };
        let site = Site::new(call, stack, false);
        let stacks = u64::from(call.has_own_stack());
        let new = GroupTotals { count: call.call_count(), stacks, first: at, last, is_usual: usual, site, process };
        let key = |probe| (process, number, result, stack, cause, probe);
        match standing {
            // A failure that follows a fault shows nothing about the program.
            Expectation::Undecided(probe, question) if cause == FailureCause::Driver => {
                let (_, open) = self.open.entry((process, question)).or_insert((probe, Vec::new()));
                match open.iter_mut().find(|(known, _)| *known == key(None)) {
                    Some((_, group)) => group.add(new),
                    None => open.push((key(None), new)),
                }
            }
            Expectation::Expected(probe) if cause == FailureCause::Driver => {
                self.add_to_group(key(Some(probe)), new);
            }
            _ => self.add_to_group(key(None), new),
        }
        if self.first_failures.len() >= self.most_single_failures {
            if self.first_failures.last_key_value().is_none_or(|((latest, ..), _)| *latest <= at) {
                return;
            }
            self.first_failures.pop_last();
        }
        let duration = clock.between(call.start, call.end);
        let call = Box::new(call.clone());
        let order = (at, process, call.stream, call.seq);
        self.first_failures.insert(order, SingleFailure { duration, number, result, stack, cause, call });
    }

    fn add_to_group(&mut self, key: Key, new: GroupTotals) {
        self.groups.entry(key).and_modify(|group| group.add(new)).or_insert(new);
    }

    /// Counts failures of earlier calls of a process as expected, because the calls were a probe. Returns for each
    /// group of them the function, the result, and the number of failures.
    pub fn mark_as_expected(&mut self, process: usize, question: ProbeQuery) -> Vec<(Number, i32, u64)> {
        let Some((probe, groups)) = self.open.remove(&(process, question)) else { return Vec::new() };
        let answered = groups.into_iter().map(|((process, number, result, stack, cause, _), group)| {
            self.add_to_group((process, number, result, stack, cause, Some(probe)), group);
            (number, result, group.count)
        });
        answered.collect()
    }

    /// Turns the failures that were not confirmed as a probe into ordinary failures.
    pub fn settle_open_probes(&mut self) {
        for (key, group) in std::mem::take(&mut self.open).into_values().flat_map(|(_, groups)| groups) {
            self.add_to_group(key, group);
        }
    }

    /// Returns the rows of the first failures in the order of time, and the number of further failures.
    pub fn rows(
        &mut self,
        functions: &FunctionCounts,
        fates: &[ProcessEnd],
        stacks: &StackTable,
        made_by: &RuntimeParents,
        places: &mut PlaceTable,
    ) -> (Vec<Failure>, u64) {
        let first = std::mem::take(&mut self.first_failures);
        let listed = first.values().map(|single| single.call.call_count()).fold(0, u64::saturating_add);
        let more = self.count.saturating_sub(listed);
        let rows = first.into_iter().map(|((at, process, ..), failure)| {
            let (caller, stack) = places.place_and_stack(stacks, failure.stack);
            let message = failure.call.details.message.as_deref();
            Failure {
                time_ns: at,
                proc: fates[process].proc.clone(),
                tid: failure.call.tid,
                seq: failure.call.seq,
                function: functions.name(failure.number),
                result: results::result_name(failure.call.function, failure.result),
                args: values::args(&failure.call),
                duration_ns: failure.duration,
                calls: failure.call.call_count(),
                injected: failure.call.injected,
                injected_by: failure.call.injecting_fault().map(str::to_owned),
                follows_fault: failure.cause == FailureCause::EarlierFault,
                driver_message: message.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
                runtime: made_by.parent_of(process, failure.call.tid, failure.call.seq),
                caller,
                stack,
            }
        });
        (rows.collect(), more)
    }

    /// Returns the unexpected failures of a function, with process and result. Failures because of fault plans are left out.
    pub fn unexpected_of_function(&self, number: Number) -> impl Iterator<Item = (usize, i32, &GroupTotals)> {
        self.groups.iter().filter_map(move |((process, known, result, _, cause, probe), group)| {
            let is_one = *known == number && *cause == FailureCause::Driver && !group.is_usual && probe.is_none();
            is_one.then_some((*process, *result, group))
        })
    }

    /// Returns all failures by function, result and caller: problems first, then the most frequent.
    pub fn group_rows(
        &self,
        functions: &FunctionCounts,
        fates: &[ProcessEnd],
        stacks: &StackTable,
        made_by: &RuntimeParents,
        places: &mut PlaceTable,
    ) -> Vec<FailureGroup> {
        let mut joined: BTreeMap<RowKey, (GroupTotals, Vec<usize>)> = BTreeMap::new();
        for ((process, number, result, stack, cause, probe), group) in &self.groups {
            let (caller, _) = places.place_and_stack(stacks, *stack);
            let key = (*number, *result, caller, *cause, probe.map(|probe| probe.why));
            match joined.get_mut(&key) {
                Some((sum, processes)) => {
                    sum.add(*group);
                    processes.push(*process);
                }
                None => drop(joined.insert(key, (*group, vec![*process]))),
            }
        }
        let row =
            |((number, result, caller, cause, expected), (sum, mut processes)): (RowKey, (GroupTotals, Vec<usize>))| {
                let runtime = made_by.parent_of(sum.process, sum.site.tid, sum.site.seq);
                processes.sort_unstable();
                processes.dedup();
                let injected_by = if let FailureCause::Fault(rule) = cause { rule } else { None };
                FailureGroup {
                    function: functions.name(number),
                    result: results::result_name(FunctionCounts::id(number), result),
                    count: sum.count,
                    stacks: sum.stacks,
                    injected: matches!(cause, FailureCause::Fault(_)),
                    injected_by: injected_by.map(|rule| self.rules.name(rule)),
                    follows_fault: cause == FailureCause::EarlierFault,
                    first_ns: sum.first,
                    last_ns: sum.last,
                    procs: processes.iter().take(MOST_PROCS).map(|p| fates[*p].proc.clone()).collect(),
                    procs_more: processes.len().saturating_sub(MOST_PROCS) as u64,
                    runtime,
                    caller,
                    usual: sum.is_usual || expected.is_some(),
                    expected,
                }
            };
        let mut rows: Vec<FailureGroup> = joined.into_iter().map(row).collect();
        rows.sort_by_key(FailureGroup::sort_key);
        rows
    }
}
