//! The history of one realm, from what was collected of its processes.

use super::book::{Book, Bytes, Does, How, Step, Stream, Uses};
use crate::follow::allocator::has_kernels_that_wait;
use crate::follow::ledger::{Ended, Entry, Realm, Site};
use crate::follow::order::{Name, Orders, Streams, Unmapped, Work};
use crate::follow::uses::Use;
use crate::infer::context::Context;
use crate::infer::touched;
use cupeer_spec::function::{FnId, Group};
use std::collections::{BTreeMap, BTreeSet};

/// A use, with what sentences need of it.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub process: usize,
    pub function: FnId,
    pub site: Site,
    pub at: u64,
    pub entry: &'a Entry,
    pub bytes: Bytes,
    /// The stream, by its number in the process.
    pub stream: Option<usize>,
    pub how: How,
    pub value: Option<u64>,
    base: u64,
}

pub struct History<'a> {
    pub book: Book,
    pub origins: Vec<Origin<'a>>,
    /// The uses of each memory that have to do with each other, in the order of time.
    pub memories: Vec<Vec<usize>>,
}

/// What is put together of all processes.
struct Making<'a, 'c> {
    context: &'c Context<'a>,
    steps: Vec<Step>,
    streams: Vec<Stream>,
    /// The first stream of each process.
    firsts: BTreeMap<usize, usize>,
    origins: Vec<Origin<'a>>,
    memories: BTreeMap<(Realm, u64), usize>,
    /// Memory of which nothing is said.
    silent: BTreeSet<usize>,
    /// Each event, and the same one in another process.
    events: Vec<usize>,
    handles: BTreeMap<(Realm, u64), usize>,
}

impl<'a> History<'a> {
    /// Returns the history of a realm. `None` if nothing in it can be out of order, or calls are missing.
    pub fn of(context: &Context<'a>, realm: Realm) -> Option<History<'a>> {
        let all = context.all;
        let processes: Vec<usize> = (0..all.tallies.len()).filter(|it| all.realms[*it] == realm).collect();
        let is_known = |process: &usize| !all.fates[*process].has_gaps && all.fates[*process].is_full;
        if !all.knows_all(realm) || !processes.iter().all(is_known) {
            return None;
        }
        let mut making = Making {
            context,
            steps: Vec::new(),
            streams: Vec::new(),
            firsts: BTreeMap::new(),
            origins: Vec::new(),
            memories: BTreeMap::new(),
            silent: BTreeSet::new(),
            events: Vec::new(),
            handles: BTreeMap::new(),
        };
        processes.iter().for_each(|process| making.add(*process, realm));
        making.add_frees(realm);
        making.join_events();
        let Making { steps, streams, origins, silent, memories, .. } = making;
        let mut book = Book::new(steps, streams);
        book.with_kernels =
            processes.iter().copied().filter(|process| has_kernels(context, *process)).collect();
        let replays = |function: FnId| function.spec().replays().is_some();
        book.has_graphs = processes.iter().any(|process| calls(context, *process, replays));
        book.gaps = processes.iter().flat_map(|process| &all.tallies[*process].order.gaps).copied().collect();
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); memories.len()];
        for (number, step) in book.steps.iter().enumerate() {
            if let Does::Uses(used) = step.does {
                uses[used.bytes.memory].push(number);
            }
        }
        let memories = uses.into_iter().enumerate().filter(|(memory, _)| !silent.contains(memory));
        let memories = memories.map(|(_, uses)| uses).collect();
        Some(History { book, origins, memories })
    }
}

impl<'a> History<'a> {
    /// The use of a step.
    pub fn origin(&self, step: usize) -> &Origin<'a> {
        let number = self.book.steps[step].uses().map_or(0, |uses| uses.origin);
        &self.origins[number]
    }
}

/// Whether a process calls any function of a kind.
fn calls(context: &Context, process: usize, is_it: fn(FnId) -> bool) -> bool {
    context.job.processes[process].called().any(is_it)
}

fn has_kernels(context: &Context, process: usize) -> bool {
    let launches = |function: FnId| function.spec().is_in(Group::Launch);
    context.all.tallies[process].uses.has_kernels || calls(context, process, launches)
}

/// The executable graphs that a process launches in several streams, of which each waits for the launch before: their handles, sorted.
fn graphs_apart(uses: &[Use]) -> Vec<u64> {
    let mut all: Vec<(u64, usize)> = uses.iter().filter_map(|used| Some((used.exec?, used.stream))).collect();
    all.sort_unstable();
    all.dedup();
    let is_apart = |pair: &[(u64, usize)]| (pair[0].0 == pair[1].0).then_some(pair[0].0);
    let mut apart: Vec<u64> = all.windows(2).filter_map(is_apart).collect();
    apart.dedup();
    apart
}

/// Whether its streams may wait for values in memory: no order is known then.
fn waits_otherwise(function: FnId) -> bool {
    function.spec().awaits().is_some() || function.spec().posts().is_some()
}

impl<'a> Making<'a, '_> {
    fn add(&mut self, process: usize, realm: Realm) {
        let tally = &self.context.all.tallies[process];
        let (streams, events) = (self.streams.len(), self.events.len());
        self.firsts.insert(process, streams);
        self.streams.extend(tally.order.streams.all.iter().map(|(_, kind)| Stream { process, kind: *kind }));
        self.events.extend(events..events + tally.order.events);
        for (handle, event) in &tally.order.handles {
            let same = *self.handles.entry((realm, *handle)).or_insert(events + event);
            let (one, other) = (self.root(same), self.root(events + event));
            self.events[one.max(other)] = one.min(other);
        }
        let is_known = !calls(self.context, process, waits_otherwise);
        let mut known = Vec::new();
        let apart = graphs_apart(&tally.uses.all);
        for used in tally.uses.all.iter().filter(|_| is_known) {
            if used.exec.is_some_and(|exec| apart.binary_search(&exec).is_ok()) {
                let orders = Orders::Tells { stream: streams + used.stream, is_meant: true };
                let (before, after) = (used.at, used.until);
                self.steps.push(Step { process, before, after, does: Does::Orders(orders) });
                continue;
            }
            let Some((entry, offset)) =
                touched::there(self.context.all, self.context.ranges(), process, used)
            else {
                continue;
            };
            let (memory, has_gaps) = (self.memory(entry), used.has_gaps);
            let bytes = Bytes { memory, from: offset, to: offset.saturating_add(used.bytes), has_gaps };
            let how = if used.is_write { How::Writes } else { How::Reads };
            let origin = Origin {
                process,
                function: used.function,
                site: used.site,
                at: used.at,
                entry,
                bytes,
                stream: Some(used.stream),
                how,
                value: used.value,
                base: used.address.wrapping_sub(offset),
            };
            known.push((used.address, origin));
            self.uses(origin, used.until, used.waits);
        }
        self.add_unmaps(process, &known);
        for (address, at) in &tally.order.values {
            let mut ranges = self.context.ranges().get(&process).into_iter().flatten();
            if let Some(range) = ranges.find(|range| range.has(*address, 1, *at)) {
                let memory = self.memory(range.entry);
                self.silent.insert(memory);
            }
        }
        self.add_order(process, streams, events);
    }

    fn add_order(&mut self, process: usize, streams: usize, events: usize) {
        // Its work ended with it.
        let (tally, fate) = (&self.context.all.tallies[process], &self.context.all.fates[process]);
        if fate.alive != Some(true) {
            let orders = Orders::Completes { work: Work::Process(process), perhaps: false };
            let (before, after) = (fate.ran_until, fate.ran_until);
            self.steps.push(Step { process, before, after, does: Does::Orders(orders) });
        }
        let all = tally.order.all.iter().map(|it| Step {
            process,
            before: it.before,
            after: it.after,
            does: Does::Orders(it.orders.numbered(
                |stream| streams + stream,
                |event| events + event,
                process,
            )),
        });
        self.steps.extend(all);
    }

    /// The one event that stands for all that are the same.
    fn root(&self, event: usize) -> usize {
        if self.events[event] == event { event } else { self.root(self.events[event]) }
    }

    /// Gives each event the number of the one that stands for it.
    fn join_events(&mut self) {
        let roots: Vec<usize> = (0..self.events.len()).map(|event| self.root(event)).collect();
        for step in &mut self.steps {
            if let Does::Orders(orders) = step.does {
                step.does =
                    Does::Orders(orders.numbered(|stream| stream, |event| roots[event], step.process));
            }
        }
    }

    fn uses(&mut self, origin: Origin<'a>, until: u64, waits: Option<bool>) {
        let stream = origin.stream.map(|stream| self.firsts[&origin.process] + stream);
        let number = self.origins.len();
        let Origin { process, at, bytes, how, value, base, .. } = origin;
        let uses = Uses { bytes, how, value, base, stream, waits, origin: number };
        self.origins.push(origin);
        self.steps.push(Step { process, before: at, after: until, does: Does::Uses(uses) });
    }

    fn memory(&mut self, entry: &'a Entry) -> usize {
        let next = self.memories.len();
        let memory = *self.memories.entry((entry.realm, entry.fingerprint)).or_insert(next);
        let Context { job, all, .. } = self.context;
        let allocator = all.allocators.of(entry, &job.processes, &all.stacks);
        if memory == next && allocator.is_some_and(has_kernels_that_wait) {
            self.silent.insert(memory);
        }
        memory
    }

    /// Adds the ends of mappings that a process used, by the addresses of its uses.
    fn add_unmaps(&mut self, process: usize, known: &[(u64, Origin<'a>)]) {
        let all = &self.context.all.tallies[process].order.unmapped;
        for unmapped in all {
            let is_there = |(address, used): &&(u64, Origin)| unmapped.has(*address) && used.at < unmapped.at;
            let Some((address, used)) = known.iter().rfind(is_there) else { continue };
            let is_other =
                |other: &Unmapped| other.has(*address) && (used.at..unmapped.at).contains(&other.at);
            if all.iter().any(is_other) {
                continue;
            }
            let Unmapped { address, bytes, at, function, site } = *unmapped;
            let from = address.saturating_sub(used.base);
            let to = address.saturating_add(bytes).saturating_sub(used.base);
            let bytes = Bytes { from, to, has_gaps: false, ..used.bytes };
            let (stream, how, value) = (None, How::Unmaps, None);
            self.uses(Origin { function, site, at, bytes, stream, how, value, ..*used }, at, Some(false));
        }
    }

    /// Adds the ends of exported memory.
    fn add_frees(&mut self, realm: Realm) {
        for (entry, export) in self.context.all.ledger.exports().filter(|(entry, _)| entry.realm == realm) {
            let Some(memory) = self.memories.get(&(realm, entry.fingerprint)).copied() else { continue };
            let (process, bytes) = (export.process as usize, export.bytes.unwrap_or(u64::MAX));
            let order = &self.context.all.tallies[process].order;
            for Ended { at, by, site, .. } in export.ended_before.iter().chain(&export.ended).copied() {
                let (Some(at), Some(function), Some(site)) = (at, by, site) else { continue };
                if function.spec().frees().is_none() {
                    continue;
                }
                let freed = order.freed.iter().find(|freed| freed.at == at && freed.function == function);
                let bytes = Bytes { memory, from: 0, to: bytes, has_gaps: false };
                let stream = freed.and_then(|freed| freed.stream);
                let (how, value, base) = (How::Frees, None, 0);
                let origin = Origin { process, function, site, at, entry, bytes, stream, how, value, base };
                self.uses(origin, at, Some(false));
            }
        }
    }
}

/// A stream of a process, as sentences name it.
pub fn name(streams: &Streams, stream: Option<usize>) -> Option<String> {
    Some(match streams.all.get(stream?)? {
        (Name::Handle(handle), _) => format!("{handle:#x}"),
        (Name::Thread(_), _) => "per-thread default".into(),
        (Name::Legacy, _) => "legacy default".into(),
    })
}
