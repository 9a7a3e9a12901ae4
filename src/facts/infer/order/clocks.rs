//! Computes the time from which the work of a call is known to be done, and the streams that wait for the work.
//!
//! Work is known to be done from the first time at which a thread of any process can have seen that. A call that began before
//! that time cannot be ordered after the work by any message between processes. Calls that overlap in time count as ordered.

use super::book::{IndexedSteps, MOST_FLAG_BYTES, Step, StepEffect, UseKind};
use crate::follow::order::{AwaitedWork, OrderEffect, StreamKind};

/// The certainty of an order between two uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderLevel {
    /// A call makes the order, or the program has a means to signal it: a host function, or a flag that the host reads.
    Made,
    /// The order is only possible.
    Possible,
}

impl OrderLevel {
    /// Returns true if a fact counts at this level; `None` is a fact that is only possible.
    fn accepts(self, is_so: Option<bool>) -> bool {
        is_so.unwrap_or(self == OrderLevel::Possible)
    }
}

/// Number of calls after which a search stops: from there on, the work counts as known to be done, so findings are
/// missed.
const MOST_VISITED: usize = 1024;

/// The work that is ordered after a call.
pub struct OrderedWork {
    /// Time from which the work of the call is known to be done; `u64::MAX` if it never is.
    pub known_done: u64,
    /// The streams whose work waits for the call's work, each with the time from which it waits.
    pub streams: Vec<(usize, u64)>,
    /// True if an event was recorded after the call.
    pub is_recorded: bool,
}

impl OrderedWork {
    /// Returns true if a later call is ordered after the call.
    pub fn is_before(&self, later: &Step) -> bool {
        if self.known_done <= later.before {
            return true;
        }
        let stream = later.memory_use().and_then(|uses| uses.stream);
        self.streams.iter().any(|(reached, since)| stream == Some(*reached) && *since < later.after)
    }
}

struct OrderSearch<'a> {
    book: &'a IndexedSteps,
    level: OrderLevel,
    reach: OrderedWork,
    /// Streams that are still to be searched.
    due: Vec<usize>,
    visited: usize,
}

/// Returns the work that is ordered after a use of memory.
pub fn find_ordered_work(book: &IndexedSteps, first: &Step, level: OrderLevel) -> OrderedWork {
    let known = match first.memory_use() {
        Some(uses) if level.accepts(uses.is_done_on_return) || uses.stream.is_none() => first.after,
        _ => u64::MAX,
    };
    let reach = OrderedWork { known_done: known, streams: Vec::new(), is_recorded: false };
    let mut search = OrderSearch { book, level, reach, due: Vec::new(), visited: 0 };
    if let Some(stream) = first.memory_use().and_then(|uses| uses.stream) {
        search.add_waiting_stream(stream, first.before);
    }
    search.follow_write(first);
    while let Some(stream) = search.due.pop() {
        let since = search.waits_since(stream).unwrap_or(u64::MAX);
        search.search_stream(first, stream, since);
    }
    let done = first.after;
    let gaps = book.gaps.iter().filter(|(_, until)| *until > done).map(|(from, _)| done.max(*from));
    search.reach.known_done = gaps.fold(search.reach.known_done, u64::min);
    search.reach
}

impl OrderSearch<'_> {
    fn waits_since(&self, stream: usize) -> Option<u64> {
        self.reach.streams.iter().find(|(reached, _)| *reached == stream).map(|(_, since)| *since)
    }

    /// Adds a stream whose work waits, from a time on.
    fn add_waiting_stream(&mut self, stream: usize, since: u64) {
        let known = self.reach.streams.iter_mut().find(|(reached, _)| *reached == stream);
        match known {
            Some((_, known)) if *known <= since => return,
            Some((_, known)) => *known = since,
            None => self.reach.streams.push((stream, since)),
        }
        self.due.push(stream);
    }

    fn lower_known(&mut self, at: u64) {
        self.reach.known_done = self.reach.known_done.min(at);
    }

    fn search_stream(&mut self, first: &Step, stream: usize, since: u64) {
        let book = self.book;
        for line in book.indexes_of_stream(stream) {
            for step in line.steps_between(&book.steps, since, self.reach.known_done) {
                if step.after > self.reach.known_done.saturating_add(line.longest) {
                    break;
                }
                self.visited += 1;
                if self.visited > MOST_VISITED {
                    // The search stops here, so from here on the work counts as known to be done.
                    return self.lower_known(step.before);
                }
                self.follow_step(first, step);
            }
        }
        for (other, kind) in book.synchronizing_streams(stream) {
            if self.level == OrderLevel::Possible || book.streams[stream].kind == StreamKind::Legacy {
                self.add_waiting_stream(other, since);
            } else if kind == StreamKind::Legacy {
                self.add_waiting_legacy_stream(other, since);
            }
        }
    }

    /// Adds the legacy default stream, which waits from its next work on.
    fn add_waiting_legacy_stream(&mut self, legacy: usize, since: u64) {
        let book = self.book;
        let all = book
            .indexes_of_stream(legacy)
            .flat_map(|line| line.steps_between(&book.steps, since, self.reach.known_done));
        let is_work = |step: &&Step| match step.does {
            StepEffect::Uses(_) => true,
            StepEffect::Orders(OrderEffect::Completes { work, .. }) => work == AwaitedWork::Stream(legacy),
            StepEffect::Orders(orders) => !matches!(orders, OrderEffect::WaitsForEvent { .. }),
        };
        let next = all.filter(is_work).take(MOST_VISITED).map(|step| step.before).min();
        next.into_iter().for_each(|at| self.add_waiting_stream(legacy, at));
    }

    /// Follows a call in a waiting stream, or a call that waits for such a stream.
    fn follow_step(&mut self, first: &Step, step: &Step) {
        if step.before >= self.reach.known_done {
            return;
        }
        match step.does {
            StepEffect::Orders(OrderEffect::Completes { perhaps, .. }) if self.counts_at_level(perhaps) => {
                self.lower_known(step.after)
            }
            StepEffect::Orders(OrderEffect::RecordsEvent { event, .. }) => {
                self.reach.is_recorded = true;
                self.follow_record(event, step);
            }
            // A copy to the host is no signal of its own completion.
            StepEffect::Orders(OrderEffect::Tells { is_meant, .. })
                if self.counts_at_level(!is_meant) && step.before != first.before =>
            {
                self.lower_known(step.before);
            }
            StepEffect::Uses(uses) if step != first => {
                if self.level.accepts(uses.is_done_on_return) {
                    self.lower_known(step.after);
                } else {
                    self.follow_write(step);
                }
            }
            _ => {}
        }
    }

    /// Returns true if an uncertain order counts at this level.
    fn counts_at_level(&self, perhaps: bool) -> bool {
        !perhaps || self.level == OrderLevel::Possible
    }

    /// Follows the record of an event: each call that waits for the event before its next record waits for the work.
    fn follow_record(&mut self, event: usize, record: &Step) {
        let (book, all) = (self.book, &self.book.event_records[event]);
        let mut again = u64::MAX;
        let later = all.partition_point(|other| book.steps[*other].before < record.after);
        for other in all[later..].iter().map(|other| &book.steps[*other]) {
            if other.before >= again {
                break;
            }
            again = again.min(other.after);
        }
        for step in book.waits_for_event(event, record.before, self.reach.known_done.min(again)) {
            match step.does {
                StepEffect::Orders(OrderEffect::WaitsForEvent { stream, .. }) => {
                    self.add_waiting_stream(stream, step.before.max(record.before))
                }
                StepEffect::Orders(OrderEffect::Completes { perhaps, .. }) if self.counts_at_level(perhaps) => {
                    self.lower_known(step.after);
                }
                _ => {}
            }
        }
    }

    /// Follows a write that another process may have seen: then all earlier work is known to be done, too.
    fn follow_write(&mut self, write: &Step) {
        let Some(uses) = write.memory_use().filter(|uses| uses.how == UseKind::Writes) else { return };
        let has_kernels = !self.book.with_kernels.is_empty() || self.book.has_graphs;
        if self.level == OrderLevel::Possible && has_kernels && uses.bytes.len() <= MOST_FLAG_BYTES {
            return self.lower_known(write.before);
        }
        let Some(polls) = self.book.polls.get(&uses.bytes.memory) else { return };
        let reads = polls.steps_between(&self.book.steps, write.before, self.reach.known_done);
        let sees = |read: &&Step| read.memory_use().is_some_and(|read| read.bytes.overlaps(&uses.bytes));
        let seen = reads.filter(sees).map(|read| match read.memory_use() {
            Some(uses) if uses.is_done_on_return == Some(true) => read.after,
            _ => read.before,
        });
        seen.min().into_iter().for_each(|at| self.lower_known(at));
    }
}
