//! Events. One is complete as soon as its stream is where it was recorded.

use super::super::answer::{Answer, refuse};
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;
use std::time::Instant;

/// CU_EVENT_INTERPROCESS.
pub(crate) const INTERPROCESS: u32 = 4;

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub context: u64,
    pub flags: u32,
    /// When it was recorded last.
    pub recorded: Option<Instant>,
    /// The task that it waits for since then.
    pub after: u64,
    /// Whether it is another process's.
    pub imported: bool,
    /// The slot in which it is exported.
    pub export: Option<u16>,
}

impl Event {
    /// Whether other processes can open it.
    pub(crate) fn is_interprocess(&self) -> bool {
        self.flags & INTERPROCESS != 0
    }
}

/// The events of a process.
#[derive(Default, Debug)]
pub(crate) struct Events(pub(in crate::engine) HashMap<u64, Event>);

impl Events {
    /// How many of other processes are open.
    pub(crate) fn imported(&self) -> usize {
        self.0.values().filter(|event| event.imported).count()
    }

    /// The event behind a handle.
    pub(crate) fn get(&self, handle: u64) -> Answer<&Event> {
        check_null(handle)?;
        self.0.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, handle: u64) -> Answer<&mut Event> {
        check_null(handle)?;
        self.0.get_mut(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }
}

pub(crate) fn check_null(handle: u64) -> Answer {
    if handle == 0 { refuse(Code::INVALID_HANDLE, "Event handle is NULL") } else { Ok(()) }
}
