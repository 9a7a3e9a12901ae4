//! The history of one domain, from what was collected of its processes.

use super::book::{ByteRange, IndexedSteps, Step, StepEffect, Stream, UseKind, UseStep};
use crate::follow::allocator::has_kernels_that_wait;
use crate::follow::ledger::{CallSite, HandleDomain, HandleEntry, ObjectEnd};
use crate::follow::order::{AwaitedWork, OrderEffect, StreamKey, Streams, UnmappingCall};
use crate::follow::uses::MemoryUse;
use crate::infer::context::Context;
use crate::infer::touched;
use cupeer_spec::function::{FnId, Group};
use std::collections::{BTreeMap, BTreeSet};

/// A use, with the facts that sentences need.
#[derive(Clone, Copy)]
pub struct UseOrigin<'a> {
    pub process: usize,
    pub call: CallSite,
    pub entry: &'a HandleEntry,
    pub bytes: ByteRange,
    /// The stream, by its number in the process.
    pub stream: Option<usize>,
    pub how: UseKind,
    pub value: Option<u64>,
    base: u64,
}

pub struct DomainHistory<'a> {
    pub book: IndexedSteps,
    pub origins: Vec<UseOrigin<'a>>,
    /// The related uses of each memory, in the order of time.
    pub memories: Vec<Vec<usize>>,
}

/// The history while processes are added to it.
struct HistoryBuilder<'a, 'c> {
    context: &'c Context<'a>,
    steps: Vec<Step>,
    streams: Vec<Stream>,
    /// The number of the first stream of each process.
    firsts: BTreeMap<usize, usize>,
    origins: Vec<UseOrigin<'a>>,
    memories: BTreeMap<(HandleDomain, u64), usize>,
    /// The numbers of memories for which there are no findings.
    silent: BTreeSet<usize>,
    /// For each number of an event, the number of the same event in another process.
    events: Vec<usize>,
    handles: BTreeMap<(HandleDomain, u64), usize>,
}

impl<'a> DomainHistory<'a> {
    /// Returns the history of a domain. `None` if nothing in it can be out of order, or calls are missing.
    pub fn new(context: &Context<'a>, domain: HandleDomain) -> Option<DomainHistory<'a>> {
        let all = context.all;
        let processes: Vec<usize> = (0..all.stats.len()).filter(|it| all.domains[*it] == domain).collect();
        let is_known = |process: &usize| !all.fates[*process].has_gaps && all.fates[*process].is_full;
        if !all.has_all_calls_of(domain) || !processes.iter().all(is_known) {
            return None;
        }
        let mut making = HistoryBuilder {
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
        processes.iter().for_each(|process| making.add_process(*process, domain));
        making.add_frees(domain);
        making.join_events();
        let HistoryBuilder { steps, streams, origins, silent, memories, .. } = making;
        let mut book = IndexedSteps::new(steps, streams);
        book.with_kernels = processes.iter().copied().filter(|process| launches_kernels(context, *process)).collect();
        let replays = |function: FnId| function.spec().replays().is_some();
        book.has_graphs = processes.iter().any(|process| calls_any(context, *process, replays));
        book.gaps = processes.iter().flat_map(|process| &all.stats[*process].order.gaps).copied().collect();
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); memories.len()];
        for (number, step) in book.steps.iter().enumerate() {
            if let StepEffect::Uses(used) = step.does {
                uses[used.bytes.memory].push(number);
            }
        }
        let memories = uses.into_iter().enumerate().filter(|(memory, _)| !silent.contains(memory));
        let memories = memories.map(|(_, uses)| uses).collect();
        Some(DomainHistory { book, origins, memories })
    }
}

impl<'a> DomainHistory<'a> {
    /// Returns the use that a step is about.
    pub fn origin_of_step(&self, step: usize) -> &UseOrigin<'a> {
        let number = self.book.steps[step].memory_use().map_or(0, |uses| uses.origin);
        &self.origins[number]
    }
}

/// Returns true if a process calls a function of a kind.
fn calls_any(context: &Context, process: usize, is_it: fn(FnId) -> bool) -> bool {
    context.job.processes[process].called_functions().any(is_it)
}

fn launches_kernels(context: &Context, process: usize) -> bool {
    let launches = |function: FnId| function.spec().is_in(Group::Launch);
    context.all.stats[process].uses.has_kernels || calls_any(context, process, launches)
}

/// Returns the handles of the executable graphs that a process launches in several streams, sorted. Each launch of
/// such a graph waits for the launch before.
fn graphs_in_several_streams(uses: &[MemoryUse]) -> Vec<u64> {
    let mut all: Vec<(u64, usize)> = uses.iter().filter_map(|used| Some((used.graph_exec?, used.stream))).collect();
    all.sort_unstable();
    all.dedup();
    let is_apart = |pair: &[(u64, usize)]| (pair[0].0 == pair[1].0).then_some(pair[0].0);
    let mut apart: Vec<u64> = all.windows(2).filter_map(is_apart).collect();
    apart.dedup();
    apart
}

/// Returns true if streams may wait for values in memory. Their order is unknown.
fn waits_for_values(function: FnId) -> bool {
    function.spec().awaits().is_some() || function.spec().posts().is_some()
}

impl<'a> HistoryBuilder<'a, '_> {
    fn add_process(&mut self, process: usize, domain: HandleDomain) {
        let stats = &self.context.all.stats[process];
        let (streams, events) = (self.streams.len(), self.events.len());
        self.firsts.insert(process, streams);
        self.streams.extend(stats.order.streams.all.iter().map(|(_, kind)| Stream { process, kind: *kind }));
        self.events.extend(events..events + stats.order.events);
        for (handle, event) in &stats.order.event_handles {
            let same = *self.handles.entry((domain, *handle)).or_insert(events + event);
            let (one, other) = (self.first_number(same), self.first_number(events + event));
            self.events[one.max(other)] = one.min(other);
        }
        let is_known = !calls_any(self.context, process, waits_for_values);
        let mut known = Vec::new();
        let apart = graphs_in_several_streams(&stats.uses.all);
        for used in stats.uses.all.iter().filter(|_| is_known) {
            if used.graph_exec.is_some_and(|exec| apart.binary_search(&exec).is_ok()) {
                let orders = OrderEffect::Tells { stream: streams + used.stream, is_meant: true };
                let (before, after) = (used.at, used.until);
                self.steps.push(Step { process, before, after, does: StepEffect::Orders(orders) });
                continue;
            }
            let Some((entry, offset)) =
                touched::find_memory_of_use(self.context.all, self.context.shared_ranges(), process, used)
            else {
                continue;
            };
            let (memory, has_gaps) = (self.memory_number(entry), used.has_gaps);
            let bytes = ByteRange { memory, from: offset, to: offset.saturating_add(used.bytes), has_gaps };
            let how = if used.is_write { UseKind::Writes } else { UseKind::Reads };
            let origin = UseOrigin {
                process,
                call: used.call_site(),
                entry,
                bytes,
                stream: Some(used.stream),
                how,
                value: used.value,
                base: used.address.wrapping_sub(offset),
            };
            known.push((used.address, origin));
            self.add_use(origin, used.until, used.is_done_on_return);
        }
        self.add_unmaps(process, &known);
        for (address, at) in &stats.order.value_addresses {
            let mut ranges = self.context.shared_ranges().get(&process).into_iter().flatten();
            if let Some(range) = ranges.find(|range| range.contains(*address, 1, *at)) {
                let memory = self.memory_number(range.entry);
                self.silent.insert(memory);
            }
        }
        self.add_ordering_calls(process, streams, events);
    }

    fn add_ordering_calls(&mut self, process: usize, streams: usize, events: usize) {
        // The work of a process ends with the process.
        let (stats, fate) = (&self.context.all.stats[process], &self.context.all.fates[process]);
        if fate.alive != Some(true) {
            let orders = OrderEffect::Completes { work: AwaitedWork::Process(process), perhaps: false };
            let (before, after) = (fate.ran_until, fate.ran_until);
            self.steps.push(Step { process, before, after, does: StepEffect::Orders(orders) });
        }
        let all = stats.order.all.iter().map(|it| Step {
            process,
            before: it.before,
            after: it.after,
            does: StepEffect::Orders(it.orders.renumber(|stream| streams + stream, |event| events + event, process)),
        });
        self.steps.extend(all);
    }

    /// Returns the first number of an event, which may have another number in each process.
    fn first_number(&self, event: usize) -> usize {
        if self.events[event] == event { event } else { self.first_number(self.events[event]) }
    }

    /// Replaces the different numbers of each event by its first number.
    fn join_events(&mut self) {
        let roots: Vec<usize> = (0..self.events.len()).map(|event| self.first_number(event)).collect();
        for step in &mut self.steps {
            if let StepEffect::Orders(orders) = step.does {
                step.does = StepEffect::Orders(orders.renumber(|stream| stream, |event| roots[event], step.process));
            }
        }
    }

    fn add_use(&mut self, origin: UseOrigin<'a>, until: u64, waits: Option<bool>) {
        let stream = origin.stream.map(|stream| self.firsts[&origin.process] + stream);
        let number = self.origins.len();
        let UseOrigin { process, bytes, how, value, base, .. } = origin;
        let uses = UseStep { bytes, how, value, base, stream, is_done_on_return: waits, origin: number };
        self.origins.push(origin);
        self.steps.push(Step { process, before: origin.call.at, after: until, does: StepEffect::Uses(uses) });
    }

    fn memory_number(&mut self, entry: &'a HandleEntry) -> usize {
        let next = self.memories.len();
        let memory = *self.memories.entry((entry.domain, entry.fingerprint)).or_insert(next);
        if memory == next && self.context.allocator(entry).is_some_and(has_kernels_that_wait) {
            self.silent.insert(memory);
        }
        memory
    }

    /// Adds the ends of mappings that a process used, by the addresses of its uses.
    fn add_unmaps(&mut self, process: usize, known: &[(u64, UseOrigin<'a>)]) {
        let all = &self.context.all.stats[process].order.unmapped;
        for unmapped in all {
            let ended = unmapped.call.at;
            let is_there = |(address, used): &&(u64, UseOrigin)| unmapped.contains(*address) && used.call.at < ended;
            let Some((address, used)) = known.iter().rfind(is_there) else { continue };
            let is_other =
                |other: &UnmappingCall| other.contains(*address) && (used.call.at..ended).contains(&other.call.at);
            if all.iter().any(is_other) {
                continue;
            }
            let UnmappingCall { address, bytes, call } = *unmapped;
            let from = address.saturating_sub(used.base);
            let to = address.saturating_add(bytes).saturating_sub(used.base);
            let bytes = ByteRange { from, to, has_gaps: false, ..used.bytes };
            let (stream, how, value) = (None, UseKind::Unmaps, None);
            self.add_use(UseOrigin { call, bytes, stream, how, value, ..*used }, ended, Some(false));
        }
    }

    /// Adds the ends of exported memory.
    fn add_frees(&mut self, domain: HandleDomain) {
        for (entry, export) in self.context.all.ledger.undamaged_exports().filter(|(entry, _)| entry.domain == domain) {
            let Some(memory) = self.memories.get(&(domain, entry.fingerprint)).copied() else { continue };
            let (process, bytes) = (export.process, export.bytes.unwrap_or(u64::MAX));
            let order = &self.context.all.stats[process].order;
            for ObjectEnd { at, by, site, .. } in export.ended_before.iter().chain(&export.ended).copied() {
                let (Some(at), Some(function), Some(site)) = (at, by, site) else { continue };
                if function.spec().freed_memory_argument().is_none() {
                    continue;
                }
                let freed = order.freed.iter().find(|freed| freed.at == at && freed.function == function);
                let bytes = ByteRange { memory, from: 0, to: bytes, has_gaps: false };
                let stream = freed.and_then(|freed| freed.stream);
                let (how, value, base) = (UseKind::Frees, None, 0);
                let call = CallSite { function, site, at };
                let origin = UseOrigin { process, call, entry, bytes, stream, how, value, base };
                self.add_use(origin, at, Some(false));
            }
        }
    }
}

/// Returns the name of a stream for sentences.
pub fn stream_name(streams: &Streams, stream: Option<usize>) -> Option<String> {
    Some(match streams.all.get(stream?)? {
        (StreamKey::Handle(handle), _) => format!("{handle:#x}"),
        (StreamKey::Thread(_), _) => "per-thread default".into(),
        (StreamKey::Legacy, _) => "legacy default".into(),
    })
}
