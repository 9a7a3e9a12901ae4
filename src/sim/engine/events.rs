//! Making, recording and asking for events.

use super::answer::{Answer, fail, refuse};
use super::driver::{Driver, Event, INTERPROCESS, check_null};
use super::space::HandleOf;
use cupeer_spec::results::Result as Code;
use std::time::Instant;

/// The other flags of `cuEventCreate`, and all of them.
const DISABLE_TIMING: u32 = 2;
const KNOWN: u32 = 7;
/// The most events for other processes that a process has, as recorded.
const MOST_INTERPROCESS: usize = 4096;

impl Driver {
    /// `cuEventCreate`: one for other processes cannot measure time.
    pub(crate) fn create_event(&mut self, flags: u32) -> Answer<u64> {
        let context = self.current()?;
        if flags & !KNOWN != 0 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
            return fail(Code::INVALID_VALUE);
        }
        // As recorded, exported or not.
        let is_own = |event: &&Event| event.is_interprocess() && !event.imported;
        if flags & INTERPROCESS != 0 && self.events.0.values().filter(is_own).count() >= MOST_INTERPROCESS {
            return fail(Code::OUT_OF_MEMORY);
        }
        self.add_event(Event { context, flags, recorded: None, after: 0, imported: false, export: None })
    }

    /// The event that `cuIpcOpenEventHandle` gives out: a new one each time.
    pub(crate) fn create_imported_event(&mut self, context: u64) -> Answer<u64> {
        let flags = INTERPROCESS | DISABLE_TIMING;
        self.add_event(Event { context, flags, recorded: None, after: 0, imported: true, export: None })
    }

    fn add_event(&mut self, event: Event) -> Answer<u64> {
        let handle = self.space.handle(HandleOf::Event)?;
        self.events.0.insert(handle, event);
        Ok(handle)
    }

    /// `cuEventDestroy`.
    pub(crate) fn destroy_event(&mut self, handle: u64) -> Answer {
        check_null(handle)?;
        let event = self.events.0.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        if let Some(slot) = event.export {
            self.exports.retire(slot);
        }
        self.graphs.forget_event(handle);
        self.space.end(HandleOf::Event, handle);
        Ok(())
    }

    /// Ends the events of a context.
    pub(crate) fn remove_events_of(&mut self, context: u64) {
        let of = |(_, event): &(&u64, &Event)| event.context == context;
        let handles: Vec<u64> = self.events.0.iter().filter(of).map(|(handle, _)| *handle).collect();
        for handle in handles {
            let _ = self.destroy_event(handle);
        }
    }

    /// `cuEventRecord`: event and stream belong to one context.
    pub(crate) fn record_event(&mut self, handle: u64, stream: u64) -> Answer {
        let stream = self.stream(stream)?;
        let event = self.events.get(handle)?;
        if event.context != stream.context {
            let text = "CU_EVENT_RECORD_EXTERNAL flag is not set and event did not come from expected device context";
            return refuse(Code::INVALID_HANDLE, text);
        }
        if self.graphs.record(handle, &stream) {
            return Ok(());
        }
        let event = self.events.get_mut(handle)?;
        event.recorded = Some(Instant::now());
        event.after = 0;
        if self.pending(&stream).is_some() {
            let number = self.queue.upcoming();
            self.events.get_mut(handle)?.after = number;
            self.in_order(&stream, move |driver| {
                if let Ok(event) = driver.events.get_mut(handle)
                    && event.after == number
                {
                    event.recorded = Some(Instant::now());
                }
            });
        }
        Ok(())
    }

    /// `cuEventQuery`, but for the answer: the task for which an event waits.
    pub(crate) fn event_pending(&mut self, handle: u64) -> Answer<Option<u64>> {
        self.events.get(handle)?;
        self.graphs.check_event(handle)?;
        let event = self.events.get(handle)?;
        self.check_failed(event.context)?;
        Ok(Some(event.after).filter(|number| self.queue.is_pending(*number)))
    }

    /// `cuEventElapsedTime`, in milliseconds.
    pub(crate) fn elapsed(&self, start: u64, end: u64) -> Answer<f32> {
        let (start, end) = (self.events.get(start)?, self.events.get(end)?);
        let timed = |event: &Event| event.recorded.filter(|_| event.flags & DISABLE_TIMING == 0);
        let (Some(from), Some(to)) = (timed(start), timed(end)) else { return fail(Code::INVALID_HANDLE) };
        if start.context != end.context {
            return fail(Code::INVALID_HANDLE);
        }
        if self.queue.is_pending(start.after.max(end.after)) {
            return fail(Code::NOT_READY);
        }
        let seconds = match to.checked_duration_since(from) {
            Some(duration) => duration.as_secs_f64(),
            None => -from.duration_since(to).as_secs_f64(),
        };
        Ok((seconds * 1e3) as f32)
    }
}
