//! One stream: from the slots of its blocks to events.
//!
//! What belongs here: which slots count, and what belongs to which call. A call is held back until
//! [`HELD`] more events of the stream were seen, because what is known of it may stand behind it: its details,
//! and its end where a signal handler made calls in between.

use crate::detail;
use crate::event::{Call, CallDetails, Event, Outcome, finished};
use crate::reader::{Reader, Shared};
use cupeer_spec::record::slot::{self, Slot};
use std::collections::VecDeque;

/// How many events are seen before one is handed out.
pub(crate) const HELD: usize = 8;
/// The most calls without an end that are remembered, for ends that come after all. A thread has a few.
const MOST_UNFINISHED: usize = 256;

pub(crate) struct Stream {
    reader: Reader,
    held: VecDeque<WaitingEvent>,
    /// Calls that were handed out as pending.
    unfinished: VecDeque<u64>,
    /// The time of the event that was handed out last.
    time: u64,
}

/// An event that is held back.
struct WaitingEvent {
    kind: Kind,
    tid: u32,
    /// The number of the call's slot.
    seq: u64,
    slot: Slot,
    /// What is known besides, where there is something.
    details: CallDetails,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Mark,
    LateEnd,
}

impl Stream {
    pub(crate) fn new(reader: Reader) -> Stream {
        Stream { reader, held: VecDeque::with_capacity(HELD + 2), unfinished: VecDeque::new(), time: 0 }
    }

    /// When the next event is. Those of a stream stay in the order of its slots, also where a signal handler has
    /// taken a slot between the look at the clock and the call.
    pub(crate) fn time(&self) -> Option<u64> {
        let held = self.held.front()?;
        let time = if held.kind == Kind::LateEnd { held.slot.end } else { held.slot.start };
        Some(time.max(self.time))
    }

    /// Reads on until the next event is complete. To be called before the first one is asked for.
    pub(crate) fn fill(&mut self, shared: &mut Shared) {
        while self.held.len() <= HELD {
            let Some((number, slot)) = self.reader.next(shared) else { break };
            self.take(shared, number, slot);
        }
    }

    /// The next event.
    pub(crate) fn next(&mut self, shared: &mut Shared) -> Option<Event> {
        self.time = self.time()?;
        let held = self.held.pop_front()?;
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
                let about =
                    self.held.iter_mut().rev().find(|held| held.seq == slot.start && held.kind != Kind::Mark);
                let Some(held) = about else { return };
                if let Some(bytes) = self.reader.bytes(shared, slot.slots()) {
                    held.details.read(bytes);
                }
            }
            slot::LATE_END => {
                let late = hold(Kind::LateEnd, slot.start, self.reader.tid);
                let call =
                    self.held.iter_mut().rev().find(|held| held.seq == slot.start && held.kind == Kind::Call);
                if let Some(call) = call {
                    if call.slot.state() == slot::PENDING {
                        call.slot = finished(&call.slot, &slot);
                    }
                } else if let Some(i) = self.unfinished.iter().rposition(|seq| *seq == slot.start) {
                    self.unfinished.remove(i);
                    self.held.push_back(late);
                }
            }
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
            Kind::Call => {
                let outcome = match slot.state() {
                    slot::RETURNED => Outcome::Returned(slot.result),
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
                Event::Call(Call {
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
                })
            }
        }
    }

    /// Remembers a call without an end.
    #[cold]
    fn remember(&mut self, seq: u64) {
        if self.unfinished.len() == MOST_UNFINISHED {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(seq);
    }
}
