//! One stream: builds events from the slots of its blocks.
//!
//! It decides which slots count, and which slots belong to which call. A call is held back until [`READ_AHEAD`] more
//! events of the stream were read, because its details, and its end if a signal handler made calls in between, may
//! follow later. The call of a run that is in progress is returned at the time of its start, because the run may have
//! begun long before.

use crate::detail;
use crate::event::{Call, CallDetails, Event, Outcome, with_late_end};
use crate::reader::{ReadingState, SlotReader};
use crate::repeats::{self, StacksByKind};
use cupeer_spec::record::slot::{self, Slot};
use std::collections::VecDeque;

/// Number of events that are read ahead before an event is returned.
pub(crate) const READ_AHEAD: usize = 8;
/// Number of calls without an end that are remembered, in case their end is recorded later: the last ones. A
/// thread has a few such calls.
const MOST_UNFINISHED: usize = 256;

pub(crate) struct EventStream {
    reader: SlotReader,
    held: VecDeque<WaitingEvent>,
    /// Calls of runs that have not returned, until it is their turn by their start.
    runs_in_flight: Vec<WaitingEvent>,
    stacks: StacksByKind,
    /// Numbers of the calls that were returned as pending.
    unfinished: VecDeque<u64>,
    /// Time of the event that was returned last.
    time: u64,
}

/// Event that was read and not returned yet.
struct WaitingEvent {
    kind: WaitingKind,
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
        if self.kind == WaitingKind::LateEnd { self.slot.end } else { self.slot.start }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitingKind {
    Call,
    Mark,
    LateEnd,
    Use,
}

impl EventStream {
    pub(crate) fn new(reader: SlotReader) -> EventStream {
        EventStream {
            reader,
            held: VecDeque::with_capacity(READ_AHEAD + 2),
            runs_in_flight: Vec::new(),
            stacks: StacksByKind::default(),
            unfinished: VecDeque::new(),
            time: 0,
        }
    }

    /// Returns the time of the next event. The events of a stream keep the order of their slots, even if a
    /// signal handler took a slot after the time was read and before the call.
    pub(crate) fn time(&self) -> Option<u64> {
        let flying = self.first_in_flight().map(|(_, start)| start);
        let time = self.held.front().map(WaitingEvent::time).into_iter().chain(flying).min()?;
        Some(time.max(self.time))
    }

    /// Returns the index and the start of the earliest call of a run that has not returned.
    fn first_in_flight(&self) -> Option<(usize, u64)> {
        let starts = self.runs_in_flight.iter().map(WaitingEvent::time).enumerate();
        starts.min_by_key(|(_, start)| *start)
    }

    /// Reads until the next event is complete. Call this before the first event is requested.
    pub(crate) fn read_ahead(&mut self, shared: &mut ReadingState) {
        while self.held.len() <= READ_AHEAD {
            let Some((number, slot)) = self.reader.next_slot(shared) else { break };
            self.take_slot(shared, number, slot);
        }
    }

    pub(crate) fn next_event(&mut self, shared: &mut ReadingState) -> Option<Event> {
        self.time = self.time()?;
        let next = self.held.front().map(WaitingEvent::time);
        let flying = self.first_in_flight().filter(|(_, start)| next.is_none_or(|next| start < &next));
        let held = match flying {
            Some((place, _)) => self.runs_in_flight.swap_remove(place),
            None => self.held.pop_front()?,
        };
        let event = self.build_event(shared, held);
        self.read_ahead(shared);
        Some(event)
    }

    fn take_slot(&mut self, shared: &mut ReadingState, number: u64, slot: Slot) {
        let hold = |kind, seq, tid| WaitingEvent { kind, tid, seq, slot, details: CallDetails::default() };
        match slot.state() {
            slot::PENDING | slot::RETURNED | slot::UNWOUND => {
                self.held.push_back(hold(WaitingKind::Call, number, self.reader.tid));
            }
            slot::DETAIL => {
                let (held, flying) = (self.held.iter_mut().rev(), self.runs_in_flight.iter_mut());
                let mut known = held.chain(flying);
                let about = known.find(|held| held.seq == slot.start && held.kind != WaitingKind::Mark);
                let Some(held) = about else { return };
                if let Some(bytes) = self.reader.event_bytes(shared, slot.slot_count()) {
                    held.details.add_items(bytes);
                }
            }
            slot::LATE_END => {
                let late = hold(WaitingKind::LateEnd, slot.start, self.reader.tid);
                let (held, flying) = (self.held.iter_mut().rev(), self.runs_in_flight.iter_mut());
                let mut known = held.chain(flying);
                let call = known.find(|held| held.seq == slot.start && held.kind == WaitingKind::Call);
                if let Some(call) = call {
                    if call.slot.state() == slot::PENDING {
                        call.slot = with_late_end(&call.slot, &slot);
                    }
                } else if let Some(i) = self.unfinished.iter().rposition(|seq| *seq == slot.start) {
                    self.unfinished.remove(i);
                    self.held.push_back(late);
                }
            }
            slot::USED => self.held.push_back(hold(WaitingKind::Use, number, self.reader.tid)),
            slot::RUN => self.add_run(number, &slot::RepeatedCalls::from_slot(&slot)),
            slot::THREAD => self.reader.tid = slot.end as u32,
            slot::MARK => {
                let text = self.reader.event_bytes(shared, slot.slot_count()).map_or_else(Vec::new, detail::mark_text);
                let mut mark = hold(WaitingKind::Mark, number, self.reader.tid);
                mark.details.texts.push((0, text));
                self.held.push_back(mark);
            }
            _ => {}
        }
    }

    /// Adds the calls of a run, which failed in the same way as the previous call.
    fn add_run(&mut self, number: u64, run: &slot::RepeatedCalls) {
        let is_example = |held: &&mut WaitingEvent| {
            held.kind == WaitingKind::Call && held.seq == run.call && repeats::is_call_of_run(&held.slot, run)
        };
        let tid = self.reader.tid;
        let call =
            |seq, slot| WaitingEvent { kind: WaitingKind::Call, tid, seq, slot, details: CallDetails::default() };
        let mut example = None;
        if let Some(held) = self.held.iter_mut().rev().find(is_example) {
            example = Some(held.slot);
            if let Some(returned) = repeats::returned_calls(run, &held.slot) {
                held.details.repeats = Some(returned);
            }
        } else if let Some((slot, others)) = repeats::split_first_call(run) {
            let mut one = call(run.call, slot);
            if others.is_some() {
                one.details.repeats = others;
            }
            self.held.push_back(one);
        }
        if let Some(since) = run.in_flight_since() {
            if self.runs_in_flight.len() == MOST_UNFINISHED {
                self.runs_in_flight.remove(0);
            }
            self.runs_in_flight.push(call(number, repeats::call_in_flight(run, since, example.as_ref())));
        }
    }

    fn build_event(&mut self, shared: &ReadingState, held: WaitingEvent) -> Event {
        let WaitingEvent { kind, tid, seq, slot, mut details } = held;
        let (stream, injected) = (self.reader.stream, slot.is_injected());
        match kind {
            WaitingKind::Mark => {
                let text = details.texts.pop().map_or_else(Vec::new, |(_, text)| text);
                Event::Mark { tid, time: slot.start, text }
            }
            WaitingKind::LateEnd => {
                let outcome = Outcome::Returned(slot.result);
                Event::LateEnd { stream, seq, tid, end: slot.end, outcome, injected, slot, details }
            }
            WaitingKind::Call | WaitingKind::Use => {
                let outcome = match slot.state() {
                    slot::RETURNED | slot::USED => Outcome::Returned(slot.result),
                    slot::UNWOUND => Outcome::Unwound,
                    _ => {
                        self.remember_unfinished(seq);
                        Outcome::Pending
                    }
                };
                let end = if outcome == Outcome::Pending { slot.start } else { slot.end.max(slot.start) };
                let number = slot.function();
                let function = shared.functions.get(usize::from(number)).copied().flatten();
                let (start, caller) = (slot.start, slot.caller());
                let result = if let Outcome::Returned(result) = outcome { result } else { 0 };
                let may_refer = !self.stacks.is_empty()
                    && (result != 0 || function.is_some_and(|function| function.spec().records_stack_on_success()));
                if shared.version > 1 && (!details.frames.is_empty() || may_refer) {
                    self.stacks.remember_or_copy(function, &slot, seq, result, &mut details);
                }
                let call =
                    Call { stream, seq, tid, function, number, start, end, outcome, injected, caller, slot, details };
                if kind == WaitingKind::Use { Event::Use(call) } else { Event::Call(call) }
            }
        }
    }

    /// Remembers the number of a call that was returned without an end.
    #[cold]
    fn remember_unfinished(&mut self, seq: u64) {
        if self.unfinished.len() == MOST_UNFINISHED {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(seq);
    }
}
