//! The history of one host: the uses of shared memory, and the calls that order them.
//!
//! Processes, streams, contexts, events, and memories are numbers here. Times are those of one clock: before a call was
//! forwarded, and after it returned.

use crate::follow::order::{Kind, Orders, Work};
use std::collections::BTreeMap;

/// A range of bytes of one shared allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes {
    pub memory: usize,
    pub from: u64,
    pub to: u64,
    /// True if the first and the last byte are used, and perhaps not all bytes between them.
    pub has_gaps: bool,
}

/// The kind of a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum How {
    Reads,
    Writes,
    /// The bytes are freed, for all processes.
    Frees,
    /// The bytes are unmapped in this process.
    Unmaps,
}

/// A use of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uses {
    pub bytes: Bytes,
    pub how: How,
    /// The value that a memset writes.
    pub value: Option<u64>,
    /// The address of the first byte of the memory in the process.
    pub base: u64,
    /// The number of the stream; `None` for a call that does no work in a stream.
    pub stream: Option<usize>,
    /// True if the work is certainly done when the call returns; `None` if it may be done.
    pub waits: Option<bool>,
    /// Index of the call in the list of the module `history`, which has more facts about it.
    pub origin: usize,
}

/// The effect of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    Uses(Uses),
    Orders(Orders),
}

/// A call in the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub process: usize,
    pub before: u64,
    pub after: u64,
    pub does: Does,
}

/// A stream of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    pub process: usize,
    pub kind: Kind,
}

/// Numbers of calls, in the order in which the calls returned.
#[derive(Default)]
pub struct Line {
    steps: Vec<usize>,
    /// The duration of the longest call.
    pub longest: u64,
}

/// All calls of a host, indexed.
#[derive(Default)]
pub struct Book {
    pub steps: Vec<Step>,
    pub streams: Vec<Stream>,
    /// Times at which calls of processes may be missing.
    pub gaps: Vec<(u64, u64)>,
    /// The processes that launch kernels. Kernels may wait for each other by values in memory, and later work of the stream
    /// waits, too.
    pub with_kernels: Vec<usize>,
    /// True if graphs are launched. They may wait for events, and contain kernels.
    pub has_graphs: bool,
    of_streams: Vec<Line>,
    of_processes: Vec<Line>,
    /// The calls that wait for each event.
    of_events: Vec<Line>,
    /// The records of each event, in the order in which they began.
    pub records: Vec<Vec<usize>>,
    /// The reads of few bytes of each memory.
    pub polls: BTreeMap<usize, Line>,
}

/// Largest size in bytes of a flag, which a thread reads to learn if work is done.
pub const FLAG: u64 = 64;

impl Bytes {
    pub fn overlaps(&self, other: &Bytes) -> bool {
        self.memory == other.memory && self.from < other.to && other.from < self.to
    }

    /// Returns true if a byte is certainly used.
    fn surely_has(&self, byte: u64) -> bool {
        let is_end = byte == self.from || byte + 1 == self.to;
        is_end || !self.has_gaps && (self.from..self.to).contains(&byte)
    }

    /// Returns true if both ranges certainly use a common byte: the first or last byte of one is certainly used by the other.
    pub fn surely_overlaps(&self, other: &Bytes) -> bool {
        let ends_in =
            |one: &Bytes, other: &Bytes| [one.from, one.to - 1].iter().any(|end| other.surely_has(*end));
        self.overlaps(other) && (ends_in(self, other) || ends_in(other, self))
    }

    pub fn has(&self, other: &Bytes) -> bool {
        !self.has_gaps && self.memory == other.memory && self.from <= other.from && other.to <= self.to
    }

    pub fn len(&self) -> u64 {
        self.to - self.from
    }
}

impl Step {
    pub fn uses(&self) -> Option<&Uses> {
        match &self.does {
            Does::Uses(uses) => Some(uses),
            _ => None,
        }
    }
}

impl Line {
    /// Returns the calls that returned after `from` and began before `until`.
    pub fn between<'a>(&'a self, steps: &'a [Step], from: u64, until: u64) -> impl Iterator<Item = &'a Step> {
        let first = self.steps.partition_point(|step| steps[*step].after <= from);
        let all = self.steps[first..].iter().map(|step| &steps[*step]);
        let last = until.saturating_add(self.longest);
        all.take_while(move |step| step.after <= last).filter(move |step| step.before < until)
    }
}

/// Adds a step to the line with a number. Creates the line if it does not exist.
fn add_to_line(lines: &mut Vec<Line>, number: usize, step: usize) {
    lines.resize_with(lines.len().max(number + 1), Line::default);
    lines[number].steps.push(step);
}

impl Book {
    pub fn new(mut steps: Vec<Step>, streams: Vec<Stream>) -> Book {
        steps.sort_by_key(|step| (step.before, step.after));
        let mut book = Book { steps, streams, ..Book::default() };
        (0..book.steps.len()).for_each(|step| book.index(step));
        let Book { steps, of_streams, of_processes, of_events, polls, .. } = &mut book;
        let lines = of_streams.iter_mut().chain(of_processes).chain(of_events);
        for line in lines.chain(polls.values_mut()) {
            line.steps.sort_by_key(|step| steps[*step].after);
            line.longest =
                line.steps.iter().map(|step| steps[*step].after - steps[*step].before).max().unwrap_or(0);
        }
        book
    }

    fn index(&mut self, step: usize) {
        match self.steps[step].does {
            Does::Uses(uses) => {
                uses.stream.into_iter().for_each(|stream| add_to_line(&mut self.of_streams, stream, step));
                if uses.how == How::Reads && uses.bytes.len() <= FLAG {
                    self.polls.entry(uses.bytes.memory).or_default().steps.push(step);
                }
            }
            Does::Orders(Orders::Tells { stream, .. }) => add_to_line(&mut self.of_streams, stream, step),
            Does::Orders(Orders::Follows { event, .. }) => add_to_line(&mut self.of_events, event, step),
            Does::Orders(Orders::Records { stream, event }) => {
                add_to_line(&mut self.of_streams, stream, step);
                self.records.resize_with(self.records.len().max(event + 1), Vec::new);
                self.records[event].push(step);
            }
            Does::Orders(Orders::Completes { work, .. }) => match work {
                Work::Stream(stream) => add_to_line(&mut self.of_streams, stream, step),
                Work::Event(event) => add_to_line(&mut self.of_events, event, step),
                Work::Process(process) => add_to_line(&mut self.of_processes, process, step),
            },
        }
    }

    /// Returns the calls that wait for all work of the stream's process, and the calls in or about the stream.
    pub fn of_stream(&self, stream: usize) -> impl Iterator<Item = &Line> {
        let process = self.streams[stream].process;
        [self.of_processes.get(process), self.of_streams.get(stream)].into_iter().flatten()
    }

    /// Returns the calls that wait for an event.
    pub fn of_event(&self, event: usize, from: u64, until: u64) -> impl Iterator<Item = &Step> {
        self.of_events.get(event).into_iter().flat_map(move |line| line.between(&self.steps, from, until))
    }

    /// Returns the other streams of the same process that synchronize with the legacy default stream, and that stream itself;
    /// none if the given stream does not synchronize with it.
    pub fn beside(&self, stream: usize) -> impl Iterator<Item = (usize, Kind)> {
        let Stream { process, kind } = self.streams[stream];
        let all = self.streams.iter().enumerate().filter(move |(other, it)| {
            let is_apart = it.kind == Kind::NonBlocking || kind == Kind::NonBlocking;
            *other != stream && it.process == process && !is_apart
        });
        all.map(|(other, it)| (other, it.kind))
    }
}
