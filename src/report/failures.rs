//! The calls that failed: the first ones one by one, and all of them by function, result and caller.
//!
//! What belongs here: as much as is shown. However many calls fail, the memory stays the same.

use super::faults::{Cause, MOST_NAMES};
use super::functions::{Functions, Number};
use super::ledger::Site;
use super::ledger::settle::Fate;
use super::model::{Failure, FailureGroup, MOST_PROCS};
use super::numbered::Numbered;
use super::places::{Places, Stack, Stacks};
use super::runtime::MadeBy;
use super::{results, values};
use cupeer_record::{Call, Clock};
use std::collections::{BTreeMap, HashMap};

pub struct Failures {
    most: usize,
    first: BTreeMap<Order, SingleFailure>,
    count: u64,
    groups: HashMap<Key, Group, foldhash::fast::RandomState>,
    rules: Numbered,
}

/// What failures have in common that are kept as one: process, function, result, place, and whose doing they are.
type Key = (usize, Number, i32, Stack, Cause);

/// The order of single failures: when they began, their process, their stream and their number there.
type Order = (u64, usize, u32, u64);

struct SingleFailure {
    duration: u64,
    number: Number,
    result: i32,
    stack: Stack,
    cause: Cause,
    call: Box<Call>,
}

#[derive(Clone, Copy)]
pub struct Group {
    pub count: u64,
    /// How many of them have stacks of their own.
    pub stacks: u64,
    /// When the first began, and the last.
    pub first: u64,
    pub last: u64,
    usual: bool,
    /// The first.
    pub site: Site,
}

impl Failures {
    /// None yet; of single ones, `most` are kept.
    pub fn new(most: usize) -> Self {
        let (first, groups, rules) = (BTreeMap::new(), HashMap::default(), Numbered::default());
        Failures { most, first, count: 0, groups, rules }
    }

    /// Notes a call that failed, because of what a fault plan had changed where `follows_fault` says so.
    #[allow(clippy::too_many_arguments)]
    pub fn add(
        &mut self,
        process: usize,
        number: Number,
        result: i32,
        call: &Call,
        follows_fault: bool,
        clock: &Clock,
        stacks: &mut Stacks,
    ) {
        let at = clock.realtime(call.start);
        let last = if call.times() > 1 { clock.realtime(call.last_end()) } else { at };
        let stack = stacks.of(process, call);
        self.count = self.count.saturating_add(call.times());
        let usual = results::is_usual(call.function, result);
        let cause = match follows_fault {
            _ if call.injected => {
                Cause::Rule(call.injected_by().and_then(|name| self.rules.number(name, MOST_NAMES)))
            }
            true => Cause::Followed,
            false => Cause::Driver,
        };
        let new =
            Group { count: 0, stacks: 0, first: at, last: at, usual, site: Site::of(call, stack, false) };
        let group = self.groups.entry((process, number, result, stack, cause)).or_insert(new);
        group.count = group.count.saturating_add(call.times());
        group.stacks += u64::from(call.has_own_stack());
        if at < group.first {
            group.site = new.site;
        }
        (group.first, group.last) = (group.first.min(at), group.last.max(last));
        if self.first.len() >= self.most {
            if self.first.last_key_value().is_none_or(|((latest, ..), _)| *latest <= at) {
                return;
            }
            self.first.pop_last();
        }
        let duration = clock.between(call.start, call.end);
        let call = Box::new(call.clone());
        let order = (at, process, call.stream, call.seq);
        self.first.insert(order, SingleFailure { duration, number, result, stack, cause, call });
    }

    /// The first ones in the order of time, and how many more there are.
    pub fn rows(
        &mut self,
        functions: &Functions,
        fates: &[Fate],
        stacks: &Stacks,
        made_by: &MadeBy,
        places: &mut Places,
    ) -> (Vec<Failure>, u64) {
        let first = std::mem::take(&mut self.first);
        let listed = first.values().map(|single| single.call.times()).fold(0, u64::saturating_add);
        let more = self.count.saturating_sub(listed);
        let rows = first.into_iter().map(|((at, process, ..), failure)| {
            let (caller, stack) = places.stack(stacks, failure.stack);
            let message = failure.call.details.message.as_deref();
            Failure {
                time_ns: at,
                proc: fates[process].proc.clone(),
                tid: failure.call.tid,
                seq: failure.call.seq,
                function: functions.name(failure.number),
                result: results::name(failure.call.function, failure.result),
                args: values::args(&failure.call),
                duration_ns: failure.duration,
                calls: failure.call.times(),
                injected: failure.call.injected,
                injected_by: failure.call.injected_by().map(str::to_owned),
                follows_fault: failure.cause == Cause::Followed,
                driver_message: message.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
                runtime: made_by.of(process, failure.call.tid, failure.call.seq),
                caller,
                stack,
            }
        });
        (rows.collect(), more)
    }

    /// The failures of a function that fault plans have nothing to do with, and that are no part of what programs do when
    /// all is well, with process and result.
    pub fn of(&self, number: Number) -> impl Iterator<Item = (usize, i32, &Group)> {
        self.groups.iter().filter_map(move |((process, known, result, _, cause), group)| {
            let is_one = *known == number && *cause == Cause::Driver && !group.usual;
            is_one.then_some((*process, *result, group))
        })
    }

    /// All by function, result and caller: those that tell of something first, then the most frequent.
    pub fn groups(
        &self,
        functions: &Functions,
        fates: &[Fate],
        stacks: &Stacks,
        made_by: &MadeBy,
        places: &mut Places,
    ) -> Vec<FailureGroup> {
        let mut joined: BTreeMap<_, (Group, Vec<usize>)> = BTreeMap::new();
        for ((process, number, result, stack, cause), group) in &self.groups {
            let (caller, _) = places.stack(stacks, *stack);
            match joined.get_mut(&(*number, *result, caller.clone(), *cause)) {
                Some((sum, processes)) => {
                    sum.count = sum.count.saturating_add(group.count);
                    sum.stacks = sum.stacks.saturating_add(group.stacks);
                    (sum.first, sum.last) = (sum.first.min(group.first), sum.last.max(group.last));
                    processes.push(*process);
                }
                None => drop(joined.insert((*number, *result, caller, *cause), (*group, vec![*process]))),
            }
        }
        let row = |((number, result, caller, cause), (sum, mut processes)): (_, (Group, Vec<usize>))| {
            let runtime = made_by.of(processes[0], sum.site.tid, sum.site.seq);
            processes.sort_unstable();
            processes.dedup();
            let injected_by = if let Cause::Rule(rule) = cause { rule } else { None };
            FailureGroup {
                function: functions.name(number),
                result: results::name(Functions::id(number), result),
                count: sum.count,
                stacks: sum.stacks,
                injected: matches!(cause, Cause::Rule(_)),
                injected_by: injected_by.map(|rule| self.rules.name(rule)),
                follows_fault: cause == Cause::Followed,
                first_ns: sum.first,
                last_ns: sum.last,
                procs: processes.iter().take(MOST_PROCS).map(|p| fates[*p].proc.clone()).collect(),
                procs_more: processes.len().saturating_sub(MOST_PROCS) as u64,
                runtime,
                caller,
                usual: sum.usual,
            }
        };
        let mut rows: Vec<FailureGroup> = joined.into_iter().map(row).collect();
        rows.sort_by_key(FailureGroup::order);
        rows
    }
}
