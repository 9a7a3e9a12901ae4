//! The history of one host: the uses of shared memory, and the calls that order them.
//!
//! Processes, streams, contexts, events, and memories are numbers here. Times are those of one clock: before a call was
//! forwarded, and after it returned.

use crate::follow::order::{AwaitedWork, OrderEffect, StreamKind};
use std::collections::BTreeMap;

/// A range of bytes of one shared allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    pub memory: usize,
    pub from: u64,
    pub to: u64,
    /// True if the first and the last byte of the range are used, and perhaps not all bytes between them.
    pub has_gaps: bool,
}

/// The kind of a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UseKind {
    Reads,
    Writes,
    /// The bytes are freed, for all processes.
    Frees,
    /// The bytes are unmapped in the calling process.
    Unmaps,
}

/// A use of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseStep {
    pub bytes: ByteRange,
    pub how: UseKind,
    /// The value that a memset writes.
    pub value: Option<u64>,
    /// The address of the first byte of the memory in the process.
    pub base: u64,
    /// The number of the stream; `None` for a call that does no work in a stream.
    pub stream: Option<usize>,
    /// `Some(true)`: the work is certainly done when the call returns; `Some(false)`: nothing guarantees it; `None`:
    /// it may be.
    pub is_done_on_return: Option<bool>,
    /// Index of the call in the list of the module `history`, which has more facts about it.
    pub origin: usize,
}

/// The effect of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepEffect {
    Uses(UseStep),
    Orders(OrderEffect),
}

/// A call in the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub process: usize,
    pub before: u64,
    pub after: u64,
    pub does: StepEffect,
}

/// A stream of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    pub process: usize,
    pub kind: StreamKind,
}

/// Numbers of calls, in the order in which the calls returned.
#[derive(Default)]
pub struct StepIndex {
    steps: Vec<usize>,
    /// The duration of the longest call.
    pub longest: u64,
}

/// All calls of a host, indexed.
#[derive(Default)]
pub struct IndexedSteps {
    pub steps: Vec<Step>,
    pub streams: Vec<Stream>,
    /// Times at which calls of processes may be missing.
    pub gaps: Vec<(u64, u64)>,
    /// The processes that launch kernels. Kernels may wait for each other by values in memory, and later work of the stream
    /// waits, too.
    pub with_kernels: Vec<usize>,
    /// True if processes launch graphs, which may wait for events, and contain kernels.
    pub has_graphs: bool,
    of_streams: Vec<StepIndex>,
    of_processes: Vec<StepIndex>,
    /// The calls that wait for each event.
    of_events: Vec<StepIndex>,
    /// The calls of cuEventRecord for each event, in the order in which they began.
    pub event_records: Vec<Vec<usize>>,
    /// The reads of few bytes of each memory.
    pub polls: BTreeMap<usize, StepIndex>,
}

/// Uses of at most this many bytes may be those of a flag, by which a thread learns that work is done.
pub const MOST_FLAG_BYTES: u64 = 64;

impl ByteRange {
    pub fn overlaps(&self, other: &ByteRange) -> bool {
        self.memory == other.memory && self.from < other.to && other.from < self.to
    }

    /// Returns true if a byte is certainly used.
    fn surely_contains(&self, byte: u64) -> bool {
        let is_end = byte == self.from || byte + 1 == self.to;
        is_end || !self.has_gaps && (self.from..self.to).contains(&byte)
    }

    /// Returns true if both ranges certainly use a common byte: the first or last byte of one is certainly used by the other.
    pub fn surely_overlaps(&self, other: &ByteRange) -> bool {
        let ends_in =
            |one: &ByteRange, other: &ByteRange| [one.from, one.to - 1].iter().any(|end| other.surely_contains(*end));
        self.overlaps(other) && (ends_in(self, other) || ends_in(other, self))
    }

    pub fn contains(&self, other: &ByteRange) -> bool {
        !self.has_gaps && self.memory == other.memory && self.from <= other.from && other.to <= self.to
    }

    pub fn len(&self) -> u64 {
        self.to - self.from
    }
}

impl Step {
    pub fn memory_use(&self) -> Option<&UseStep> {
        match &self.does {
            StepEffect::Uses(uses) => Some(uses),
            _ => None,
        }
    }
}

impl StepIndex {
    /// Returns the calls that returned after `from` and began before `until`.
    pub fn steps_between<'a>(&'a self, steps: &'a [Step], from: u64, until: u64) -> impl Iterator<Item = &'a Step> {
        let first = self.steps.partition_point(|step| steps[*step].after <= from);
        let all = self.steps[first..].iter().map(|step| &steps[*step]);
        let last = until.saturating_add(self.longest);
        all.take_while(move |step| step.after <= last).filter(move |step| step.before < until)
    }
}

/// Adds a step to the index of a stream, a process, or an event. Creates the index if it does not exist.
fn add_to_index(lines: &mut Vec<StepIndex>, number: usize, step: usize) {
    lines.resize_with(lines.len().max(number + 1), StepIndex::default);
    lines[number].steps.push(step);
}

impl IndexedSteps {
    pub fn new(mut steps: Vec<Step>, streams: Vec<Stream>) -> IndexedSteps {
        steps.sort_by_key(|step| (step.before, step.after));
        let mut book = IndexedSteps { steps, streams, ..IndexedSteps::default() };
        (0..book.steps.len()).for_each(|step| book.add_to_indexes(step));
        let IndexedSteps { steps, of_streams, of_processes, of_events, polls, .. } = &mut book;
        let lines = of_streams.iter_mut().chain(of_processes).chain(of_events);
        for line in lines.chain(polls.values_mut()) {
            line.steps.sort_by_key(|step| steps[*step].after);
            line.longest = line.steps.iter().map(|step| steps[*step].after - steps[*step].before).max().unwrap_or(0);
        }
        book
    }

    fn add_to_indexes(&mut self, step: usize) {
        match self.steps[step].does {
            StepEffect::Uses(uses) => {
                uses.stream.into_iter().for_each(|stream| add_to_index(&mut self.of_streams, stream, step));
                if uses.how == UseKind::Reads && uses.bytes.len() <= MOST_FLAG_BYTES {
                    self.polls.entry(uses.bytes.memory).or_default().steps.push(step);
                }
            }
            StepEffect::Orders(OrderEffect::Tells { stream, .. }) => add_to_index(&mut self.of_streams, stream, step),
            StepEffect::Orders(OrderEffect::WaitsForEvent { event, .. }) => {
                add_to_index(&mut self.of_events, event, step)
            }
            StepEffect::Orders(OrderEffect::RecordsEvent { stream, event }) => {
                add_to_index(&mut self.of_streams, stream, step);
                self.event_records.resize_with(self.event_records.len().max(event + 1), Vec::new);
                self.event_records[event].push(step);
            }
            StepEffect::Orders(OrderEffect::Completes { work, .. }) => match work {
                AwaitedWork::Stream(stream) => add_to_index(&mut self.of_streams, stream, step),
                AwaitedWork::Event(event) => add_to_index(&mut self.of_events, event, step),
                AwaitedWork::Process(process) => add_to_index(&mut self.of_processes, process, step),
            },
        }
    }

    /// Returns the calls that wait for all work of the stream's process, and the calls in or about the stream.
    pub fn indexes_of_stream(&self, stream: usize) -> impl Iterator<Item = &StepIndex> {
        let process = self.streams[stream].process;
        [self.of_processes.get(process), self.of_streams.get(stream)].into_iter().flatten()
    }

    /// Returns the calls that wait for an event.
    pub fn waits_for_event(&self, event: usize, from: u64, until: u64) -> impl Iterator<Item = &Step> {
        self.of_events.get(event).into_iter().flat_map(move |line| line.steps_between(&self.steps, from, until))
    }

    /// Returns the other streams of the same process that synchronize with the legacy default stream, and that stream itself;
    /// none if the given stream does not synchronize with it.
    pub fn synchronizing_streams(&self, stream: usize) -> impl Iterator<Item = (usize, StreamKind)> {
        let Stream { process, kind } = self.streams[stream];
        let all = self.streams.iter().enumerate().filter(move |(other, it)| {
            let is_apart = it.kind == StreamKind::NonBlocking || kind == StreamKind::NonBlocking;
            *other != stream && it.process == process && !is_apart
        });
        all.map(|(other, it)| (other, it.kind))
    }
}
