//! One stream: builds events from the slots of its blocks.
//!
//! It decides which slots count, and which slots belong to which call. A call is held back until [`HELD`] more events
//! of the stream were read, because its details, and its end if a signal handler made calls in between, may follow
//! later. The call of a run that is in progress is returned at the time of its start, because the run may have begun
//! long before.

use crate::detail;
use crate::event::{Call, CallDetails, Event, Outcome, finished};
use crate::reader::{Reader, Shared};
use crate::repeats::{self, Stacks};
use cupeer_spec::record::slot::{self, Slot};
use std::collections::VecDeque;

/// Number of events that are read ahead before an event is returned.
pub(crate) const HELD: usize = 8;
/// Largest number of calls without an end that are remembered, in case their end is recorded later. A thread
/// has a few such calls.
const MOST_UNFINISHED: usize = 256;

pub(crate) struct Stream {
    reader: Reader,
    held: VecDeque<WaitingEvent>,
    /// Calls of runs that have not returned, until it is their turn by their start.
    flying: Vec<WaitingEvent>,
    stacks: Stacks,
    /// Numbers of the calls that were returned as pending.
    unfinished: VecDeque<u64>,
    /// Time of the event that was returned last.
    time: u64,
}

/// Event that was read and not returned yet.
struct WaitingEvent {
    kind: Kind,
    tid: u32,
    /// Number of the event's slot.
    seq: u64,
    slot: Slot,
    /// Details of the call; empty for most calls.
    details: CallDetails,
}

impl WaitingEvent {
    /// Returns the time of the event.
    fn time(&self) -> u64 {
        if self.kind == Kind::LateEnd { self.slot.end } else { self.slot.start }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Mark,
    LateEnd,
    Use,
}

impl Stream {
    pub(crate) fn new(reader: Reader) -> Stream {
        Stream {
            reader,
            held: VecDeque::with_capacity(HELD + 2),
            flying: Vec::new(),
            stacks: Stacks::default(),
            unfinished: VecDeque::new(),
            time: 0,
        }
    }

    /// Returns the time of the next event. The events of a stream keep the order of their slots, even if a
    /// signal handler took a slot after the time was read and before the call.
    pub(crate) fn time(&self) -> Option<u64> {
        let flying = self.first_flying().map(|(_, start)| start);
        let time = self.held.front().map(WaitingEvent::time).into_iter().chain(flying).min()?;
        Some(time.max(self.time))
    }

    /// Returns the index and the start of the earliest call of a run that has not returned.
    fn first_flying(&self) -> Option<(usize, u64)> {
        let starts = self.flying.iter().map(WaitingEvent::time).enumerate();
        starts.min_by_key(|(_, start)| *start)
    }

    /// Reads until the next event is complete. Call this before the first event is requested.
    pub(crate) fn fill(&mut self, shared: &mut Shared) {
        while self.held.len() <= HELD {
            let Some((number, slot)) = self.reader.next(shared) else { break };
            self.take(shared, number, slot);
        }
    }

    pub(crate) fn next(&mut self, shared: &mut Shared) -> Option<Event> {
        self.time = self.time()?;
        let next = self.held.front().map(WaitingEvent::time);
        let flying = self.first_flying().filter(|(_, start)| next.is_none_or(|next| start < &next));
        let held = match flying {
            Some((place, _)) => self.flying.swap_remove(place),
            None => self.held.pop_front()?,
        };
        let event = self.event(shared, held);
        self.fill(shared);
        Some(event)
    }

    fn take(&mut self, shared: &mut Shared, number: u64, slot: Slot) {
        let hold = |kind, seq, tid| WaitingEvent { kind, tid, seq, slot, details: CallDetails::default() };
        match slot.state() {
            slot::PENDING | slot::RETURNED | slot::UNWOUND => {
                self.held.push_back(hold(Kind::Call, number, self.reader.tid));
            }
            slot::DETAIL => {
                let (held, flying) = (self.held.iter_mut().rev(), self.flying.iter_mut());
                let mut known = held.chain(flying);
                let about = known.find(|held| held.seq == slot.start && held.kind != Kind::Mark);
                let Some(held) = about else { return };
                if let Some(bytes) = self.reader.bytes(shared, slot.slots()) {
                    held.details.read(bytes);
                }
            }
            slot::LATE_END => {
                let late = hold(Kind::LateEnd, slot.start, self.reader.tid);
                let (held, flying) = (self.held.iter_mut().rev(), self.flying.iter_mut());
                let mut known = held.chain(flying);
                let call = known.find(|held| held.seq == slot.start && held.kind == Kind::Call);
                if let Some(call) = call {
                    if call.slot.state() == slot::PENDING {
                        call.slot = finished(&call.slot, &slot);
                    }
                } else if let Some(i) = self.unfinished.iter().rposition(|seq| *seq == slot.start) {
                    self.unfinished.remove(i);
                    self.held.push_back(late);
                }
            }
            slot::USED => self.held.push_back(hold(Kind::Use, number, self.reader.tid)),
            slot::RUN => self.run(number, &slot::Run::of(&slot)),
            slot::THREAD => self.reader.tid = slot.end as u32,
            slot::MARK => {
                let text = self.reader.bytes(shared, slot.slots()).map_or_else(Vec::new, detail::mark);
                let mut mark = hold(Kind::Mark, number, self.reader.tid);
                mark.details.texts.push((0, text));
                self.held.push_back(mark);
            }
            _ => {}
        }
    }

    /// Adds the calls of a run, which failed in the same way as the previous call.
    fn run(&mut self, number: u64, run: &slot::Run) {
        let is_example = |held: &&mut WaitingEvent| {
            held.kind == Kind::Call && held.seq == run.call && repeats::is_like(&held.slot, run)
        };
        let tid = self.reader.tid;
        let call =
            |seq, slot| WaitingEvent { kind: Kind::Call, tid, seq, slot, details: CallDetails::default() };
        let mut example = None;
        if let Some(held) = self.held.iter_mut().rev().find(is_example) {
            example = Some(held.slot);
            if let Some(returned) = repeats::returned(run, &held.slot) {
                held.details.run = Some(returned);
            }
        } else if let Some((slot, others)) = repeats::one_of(run) {
            let mut one = call(run.call, slot);
            if others.is_some() {
                one.details.run = others;
            }
            self.held.push_back(one);
        }
        if let Some(since) = run.in_flight() {
            if self.flying.len() == MOST_UNFINISHED {
                self.flying.remove(0);
            }
            self.flying.push(call(number, repeats::in_flight(run, since, example.as_ref())));
        }
    }

    fn event(&mut self, shared: &Shared, held: WaitingEvent) -> Event {
        let WaitingEvent { kind, tid, seq, slot, mut details } = held;
        let (stream, injected) = (self.reader.stream, slot.is_injected());
        match kind {
            Kind::Mark => {
                let text = details.texts.pop().map_or_else(Vec::new, |(_, text)| text);
                Event::Mark { tid, time: slot.start, text }
            }
            Kind::LateEnd => {
                let outcome = Outcome::Returned(slot.result);
                Event::LateEnd { stream, seq, tid, end: slot.end, outcome, injected, slot, details }
            }
            Kind::Call | Kind::Use => {
                let outcome = match slot.state() {
                    slot::RETURNED | slot::USED => Outcome::Returned(slot.result),
                    slot::UNWOUND => Outcome::Unwound,
                    _ => {
                        self.remember(seq);
                        Outcome::Pending
                    }
                };
                let end = if outcome == Outcome::Pending { slot.start } else { slot.end.max(slot.start) };
                let number = slot.function();
                let function = shared.functions.get(usize::from(number)).copied().flatten();
                let (start, caller) = (slot.start, slot.caller());
                let result = if let Outcome::Returned(result) = outcome { result } else { 0 };
                let may_refer = !self.stacks.is_empty()
                    && (result != 0 || function.is_some_and(|function| function.spec().carries_frames()));
                if shared.version > 1 && (!details.frames.is_empty() || may_refer) {
                    self.stacks.meet(function, &slot, seq, result, &mut details);
                }
                let call = Call {
                    stream,
                    seq,
                    tid,
                    function,
                    number,
                    start,
                    end,
                    outcome,
                    injected,
                    caller,
                    slot,
                    details,
                };
                if kind == Kind::Use { Event::Use(call) } else { Event::Call(call) }
            }
        }
    }

    /// Remembers the number of a call that was returned without an end.
    #[cold]
    fn remember(&mut self, seq: u64) {
        if self.unfinished.len() == MOST_UNFINISHED {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(seq);
    }
}
