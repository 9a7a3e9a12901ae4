//! Events. An event is complete once its stream did the work before its record.

use super::super::answer::{Answer, refuse};
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;
use std::time::Instant;

/// CU_EVENT_INTERPROCESS.
pub(crate) const INTERPROCESS: u32 = 4;

/// The state of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub context: u64,
    pub flags: u32,
    /// Time of the last record; `None` if the event was never recorded.
    pub recorded: Option<Instant>,
    /// Number of the task after which the last record is complete.
    pub after: u64,
    /// True if the event was imported from another process.
    pub imported: bool,
    /// Slot in the channel, if the event was exported.
    pub export: Option<u16>,
}

impl Event {
    /// Returns true if the event was created with CU_EVENT_INTERPROCESS, so that other processes can open it.
    pub(crate) fn is_interprocess(&self) -> bool {
        self.flags & INTERPROCESS != 0
    }
}

/// The events of a process, by their handles.
#[derive(Default, Debug)]
pub(crate) struct Events(pub(in crate::engine) HashMap<u64, Event>);

impl Events {
    /// Returns the number of imported events that were not destroyed.
    pub(crate) fn count_imported(&self) -> usize {
        self.0.values().filter(|event| event.imported).count()
    }

    /// Returns the event of a handle.
    pub(crate) fn get(&self, handle: u64) -> Answer<&Event> {
        check_event_not_null(handle)?;
        self.0.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// Returns the event of a handle, to change it.
    pub(crate) fn get_mut(&mut self, handle: u64) -> Answer<&mut Event> {
        check_event_not_null(handle)?;
        self.0.get_mut(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }
}

pub(crate) fn check_event_not_null(handle: u64) -> Answer {
    if handle == 0 { refuse(Code::INVALID_HANDLE, "Event handle is NULL") } else { Ok(()) }
}
