//! Creates, records, and queries events.

use super::answer::{Answer, fail, fail_if, refuse_if};
use super::backing::Backing;
use super::driver::{Driver, Event, INTERPROCESS, Remote, Visibility, Work, check_event_not_null, keys_of};
use super::late::locked_work;
use super::records::{RecordPage, RecordStatus};
use super::space::HandleKind;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;
/// All flags that `cuEventCreate` accepts.
const KNOWN: u32 = 7;
/// The most events with CU_EVENT_INTERPROCESS that a process can have at a time, as recorded. Imported events
/// do not count.
const MOST_INTERPROCESS: usize = 4096;

/// The work that must be done before an event is complete.
enum AwaitedWork {
    Nothing,
    Own(u64),
    Others(Remote),
}

impl Driver {
    /// `cuEventCreate`. An event for other processes must have CU_EVENT_DISABLE_TIMING.
    pub(crate) fn create_event(&mut self, flags: u32) -> Answer<u64> {
        let context = self.current_context_handle()?;
        fail_if(flags & !KNOWN != 0 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS, Code::INVALID_VALUE)?;
        // As recorded, the limit also counts events that were not exported.
        let is_own = |event: &&Event| event.is_interprocess() && !event.imported;
        fail_if(
            flags & INTERPROCESS != 0 && self.events.0.values().filter(is_own).count() >= MOST_INTERPROCESS,
            Code::OUT_OF_MEMORY,
        )?;
        self.add_event(Event { context, flags, recorded: None, after: 0, imported: false, export: None })
    }

    /// Creates the event that `cuIpcOpenEventHandle` returns; each call creates another event.
    pub(crate) fn create_imported_event(&mut self, context: u64) -> Answer<u64> {
        let flags = INTERPROCESS | DISABLE_TIMING;
        self.add_event(Event { context, flags, recorded: None, after: 0, imported: true, export: None })
    }

    fn add_event(&mut self, event: Event) -> Answer<u64> {
        let handle = self.space.new_handle(HandleKind::Event)?;
        self.events.0.insert(handle, event);
        Ok(handle)
    }

    /// `cuEventDestroy`.
    pub(crate) fn destroy_event(&mut self, handle: u64) -> Answer {
        check_event_not_null(handle)?;
        let event = self.events.0.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        if let Some(slot) = event.export {
            self.exports.retire_event_slot(slot);
        }
        self.queue.records.pages.remove(&handle);
        self.graphs.forget_event(handle);
        self.space.recycle_handle(HandleKind::Event, handle);
        Ok(())
    }

    /// Destroys the events of a context.
    pub(crate) fn remove_events_of(&mut self, context: u64) {
        for handle in keys_of(&self.events.0, |event| event.context == context) {
            let _ = self.destroy_event(handle);
        }
    }

    /// `cuEventRecord`: event and stream belong to one context.
    pub(crate) fn record_event(&mut self, handle: u64, stream: u64) -> Answer {
        let stream = self.stream(stream)?;
        let event = self.events.get(handle)?;
        refuse_if(
            event.context != stream.context,
            Code::INVALID_HANDLE,
            "CU_EVENT_RECORD_EXTERNAL flag is not set and event did not come from expected device context",
        )?;
        if self.graphs.note_event_in_capture(handle, &stream) {
            return Ok(());
        }
        let event = self.events.get_mut(handle)?;
        event.recorded = Some(Instant::now());
        event.after = 0;
        let is_pending = !self.pending_of_stream(&stream).is_empty();
        let number = self.queue.next_number();
        self.note_event_record(handle, is_pending.then_some(number));
        if is_pending {
            self.events.get_mut(handle)?.after = number;
            self.do_in_order(&stream, move |driver| {
                if let Ok(event) = driver.events.get_mut(handle)
                    && event.after == number
                {
                    event.recorded = Some(Instant::now());
                }
            });
        }
        Ok(())
    }

    /// Returns the work that must be done before an event is complete.
    fn work_before_event(&mut self, handle: u64) -> Answer<AwaitedWork> {
        self.events.get(handle)?;
        self.graphs.check_event_not_captured(handle)?;
        let event = self.events.get(handle)?;
        self.check_context_not_failed(event.context)?;
        Ok(match self.work_of_last_record(handle) {
            Some(awaited) => awaited,
            None if self.queue.is_pending(event.after) => AwaitedWork::Own(event.after),
            None => AwaitedWork::Nothing,
        })
    }

    /// Returns the numbers of the tasks after which an event is complete.
    pub(crate) fn tasks_before_event(&mut self, handle: u64) -> Answer<Vec<u64>> {
        Ok(match self.work_before_event(handle)? {
            AwaitedWork::Nothing => Vec::new(),
            AwaitedWork::Own(number) => vec![number],
            AwaitedWork::Others(remote) if self.is_late() => {
                let nothing = locked_work(|_| ());
                vec![self.add_late_work_after(None, Vec::new(), Some(remote), Visibility::Nobody, nothing)]
            }
            AwaitedWork::Others((page, sequence)) => {
                self.ensure_thread()?;
                let is_done = move || page.status(sequence) == RecordStatus::Done;
                vec![self.queue.add_task(Vec::new(), Work::Until(Box::new(is_done)))]
            }
        })
    }

    /// `cuEventQuery`: returns true if the event is complete.
    pub(crate) fn is_event_done(&mut self, handle: u64) -> Answer<bool> {
        Ok(match self.work_before_event(handle)? {
            AwaitedWork::Nothing => true,
            AwaitedWork::Own(number) => self.are_tasks_done(&[number]),
            AwaitedWork::Others((page, sequence)) => {
                if page.queries.fetch_add(1, Ordering::Relaxed) > 0 {
                    page.mark_awaited(sequence);
                }
                false
            }
        })
    }

    /// `cuEventElapsedTime`: the milliseconds between the last records of two events.
    pub(crate) fn elapsed_milliseconds(&self, start: u64, end: u64) -> Answer<f32> {
        let (start, end) = (self.events.get(start)?, self.events.get(end)?);
        let timed = |event: &Event| event.recorded.filter(|_| event.flags & DISABLE_TIMING == 0);
        let (Some(from), Some(to)) = (timed(start), timed(end)) else { return fail(Code::INVALID_HANDLE) };
        fail_if(start.context != end.context, Code::INVALID_HANDLE)?;
        fail_if([start, end].iter().any(|event| self.queue.is_pending(event.after)), Code::NOT_READY)?;
        let seconds = match to.checked_duration_since(from) {
            Some(duration) => duration.as_secs_f64(),
            None => -from.duration_since(to).as_secs_f64(),
        };
        Ok((seconds * 1e3) as f32)
    }

    /// Lets an event use the page of event records that it shares with other processes.
    pub(crate) fn share_records(&mut self, handle: u64, of: Option<(Backing, u64)>, is_new: bool) {
        let (records, Some((file, at))) = (&mut self.queue.records, of) else { return };
        let file = records.share_file(file);
        let Some(page) = RecordPage::map_page(file, at).map(Arc::new) else { return };
        if is_new {
            page.clear();
        }
        records.pages.insert(handle, page);
        let pending = self.events.0.get(&handle).map_or(0, |event| event.after);
        if self.queue.is_pending(pending) {
            self.note_event_record(handle, Some(pending));
        }
    }

    /// Notes a `cuEventRecord` in the page that other processes see. `number` is the task of this process that
    /// completes the record; `None` if the record is complete already.
    fn note_event_record(&mut self, handle: u64, number: Option<u64>) {
        let records = &mut self.queue.records;
        let Some(page) = records.pages.get(&handle).cloned() else { return };
        let sequence = page.add_own_record();
        match number {
            Some(number) => records.add_record(page, sequence, number),
            None => page.finish(sequence),
        }
    }

    /// Returns the work that completes the last record of a shared event, whichever process made the record;
    /// `None` for an event that is not shared.
    fn work_of_last_record(&self, handle: u64) -> Option<AwaitedWork> {
        let records = &self.queue.records;
        let page = records.pages.get(&handle)?;
        let sequence = page.last_number();
        Some(match page.status(sequence) {
            RecordStatus::Done => AwaitedWork::Nothing,
            RecordStatus::Own => records.own_task(page, sequence).map_or(AwaitedWork::Nothing, AwaitedWork::Own),
            RecordStatus::Pending => AwaitedWork::Others((page.clone(), sequence)),
        })
    }
}
