//! Computes the time from which the work of a call is known to be done, and the streams that wait for the work.
//!
//! Work is known to be done from the first time at which a thread of any process can have seen that. A call that began before
//! that time cannot be ordered after the work by any message between processes. Calls that overlap in time count as ordered.

use super::book::{Book, Does, FLAG, How, Step};
use crate::follow::order::{Kind, Orders, Work};

/// The certainty of an order between two uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// A call makes the order, or the program has a means to signal it: a host function, or a flag that the host reads.
    Made,
    /// The order is only possible.
    Possible,
}

impl Level {
    /// Returns true if a fact counts at this level; `None` is a fact that is only possible.
    fn holds(self, is_so: Option<bool>) -> bool {
        is_so.unwrap_or(self == Level::Possible)
    }
}

/// Largest number of calls that one search visits.
const MOST_VISITED: usize = 1024;

/// The work that is ordered after a call.
pub struct Reach {
    /// Time from which the work of the call is known to be done; `u64::MAX` if it never is.
    pub known: u64,
    /// The streams whose work waits for the call's work, each with the time from which it waits.
    pub streams: Vec<(usize, u64)>,
    /// True if an event was recorded after the call.
    pub is_recorded: bool,
}

impl Reach {
    /// Returns true if a later call is ordered after the call.
    pub fn is_before(&self, later: &Step) -> bool {
        if self.known <= later.before {
            return true;
        }
        let stream = later.uses().and_then(|uses| uses.stream);
        self.streams.iter().any(|(reached, since)| stream == Some(*reached) && *since < later.after)
    }
}

struct Search<'a> {
    book: &'a Book,
    level: Level,
    reach: Reach,
    /// Streams that are still to be searched.
    due: Vec<usize>,
    looked: usize,
}

/// Returns the work that is ordered after a use of memory.
pub fn reach(book: &Book, first: &Step, level: Level) -> Reach {
    let known = match first.uses() {
        Some(uses) if level.holds(uses.waits) || uses.stream.is_none() => first.after,
        _ => u64::MAX,
    };
    let reach = Reach { known, streams: Vec::new(), is_recorded: false };
    let mut search = Search { book, level, reach, due: Vec::new(), looked: 0 };
    if let Some(stream) = first.uses().and_then(|uses| uses.stream) {
        search.follows(stream, first.before);
    }
    search.told(first);
    while let Some(stream) = search.due.pop() {
        let since = search.since(stream).unwrap_or(u64::MAX);
        search.look(first, stream, since);
    }
    let done = first.after;
    let gaps = book.gaps.iter().filter(|(_, until)| *until > done).map(|(from, _)| done.max(*from));
    search.reach.known = gaps.fold(search.reach.known, u64::min);
    search.reach
}

impl Search<'_> {
    fn since(&self, stream: usize) -> Option<u64> {
        self.reach.streams.iter().find(|(reached, _)| *reached == stream).map(|(_, since)| *since)
    }

    /// Notes that the work of a stream waits, from a time on.
    fn follows(&mut self, stream: usize, since: u64) {
        let known = self.reach.streams.iter_mut().find(|(reached, _)| *reached == stream);
        match known {
            Some((_, known)) if *known <= since => return,
            Some((_, known)) => *known = since,
            None => self.reach.streams.push((stream, since)),
        }
        self.due.push(stream);
    }

    fn known(&mut self, at: u64) {
        self.reach.known = self.reach.known.min(at);
    }

    fn look(&mut self, first: &Step, stream: usize, since: u64) {
        let book = self.book;
        for line in book.of_stream(stream) {
            for step in line.between(&book.steps, since, self.reach.known) {
                if step.after > self.reach.known.saturating_add(line.longest) {
                    break;
                }
                self.looked += 1;
                if self.looked > MOST_VISITED {
                    // The search stops here, so from here on the work counts as known to be done.
                    return self.known(step.before);
                }
                self.pass(first, step);
            }
        }
        for (other, kind) in book.beside(stream) {
            if self.level == Level::Possible || book.streams[stream].kind == Kind::Legacy {
                self.follows(other, since);
            } else if kind == Kind::Legacy {
                self.follows_legacy(other, since);
            }
        }
    }

    /// Notes that the legacy default stream waits, from its next work on.
    fn follows_legacy(&mut self, legacy: usize, since: u64) {
        let book = self.book;
        let all = book.of_stream(legacy).flat_map(|line| line.between(&book.steps, since, self.reach.known));
        let is_work = |step: &&Step| match step.does {
            Does::Uses(_) => true,
            Does::Orders(Orders::Completes { work, .. }) => work == Work::Stream(legacy),
            Does::Orders(orders) => !matches!(orders, Orders::Follows { .. }),
        };
        let next = all.filter(is_work).take(MOST_VISITED).map(|step| step.before).min();
        next.into_iter().for_each(|at| self.follows(legacy, at));
    }

    /// Follows a call in a waiting stream, or a call that waits for such a stream.
    fn pass(&mut self, first: &Step, step: &Step) {
        if step.before >= self.reach.known {
            return;
        }
        match step.does {
            Does::Orders(Orders::Completes { perhaps, .. }) if self.counts(perhaps) => self.known(step.after),
            Does::Orders(Orders::Records { event, .. }) => {
                self.reach.is_recorded = true;
                self.recorded(event, step);
            }
            // A copy to the host is no signal of its own completion.
            Does::Orders(Orders::Tells { is_meant, .. })
                if self.counts(!is_meant) && step.before != first.before =>
            {
                self.known(step.before);
            }
            Does::Uses(uses) if step != first => {
                if self.level.holds(uses.waits) {
                    self.known(step.after);
                } else {
                    self.told(step);
                }
            }
            _ => {}
        }
    }

    /// Returns true if an uncertain order counts at this level.
    fn counts(&self, perhaps: bool) -> bool {
        !perhaps || self.level == Level::Possible
    }

    /// Follows the record of an event: each call that waits for the event before its next record waits for the work.
    fn recorded(&mut self, event: usize, record: &Step) {
        let (book, all) = (self.book, &self.book.records[event]);
        let mut again = u64::MAX;
        let later = all.partition_point(|other| book.steps[*other].before < record.after);
        for other in all[later..].iter().map(|other| &book.steps[*other]) {
            if other.before >= again {
                break;
            }
            again = again.min(other.after);
        }
        for step in book.of_event(event, record.before, self.reach.known.min(again)) {
            match step.does {
                Does::Orders(Orders::Follows { stream, .. }) => {
                    self.follows(stream, step.before.max(record.before))
                }
                Does::Orders(Orders::Completes { perhaps, .. }) if self.counts(perhaps) => {
                    self.known(step.after);
                }
                _ => {}
            }
        }
    }

    /// Follows a write that another process may have seen: then all earlier work is known to be done, too.
    fn told(&mut self, write: &Step) {
        let Some(uses) = write.uses().filter(|uses| uses.how == How::Writes) else { return };
        let has_kernels = !self.book.with_kernels.is_empty() || self.book.has_graphs;
        if self.level == Level::Possible && has_kernels && uses.bytes.len() <= FLAG {
            return self.known(write.before);
        }
        let Some(polls) = self.book.polls.get(&uses.bytes.memory) else { return };
        let reads = polls.between(&self.book.steps, write.before, self.reach.known);
        let sees = |read: &&Step| read.uses().is_some_and(|read| read.bytes.overlaps(&uses.bytes));
        let seen = reads.filter(sees).map(|read| match read.uses() {
            Some(uses) if uses.waits == Some(true) => read.after,
            _ => read.before,
        });
        seen.min().into_iter().for_each(|at| self.known(at));
    }
}
