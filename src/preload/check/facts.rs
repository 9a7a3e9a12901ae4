//! What is known of a call, and of those who share: taken from the call itself, the live table and the system.

use crate::driver::questions;
use crate::driver::questions::About;
use crate::job::live;
use crate::job::process::pid_namespace;
use crate::settings::key;
use crate::sys::clock;
use crate::sys::life::{self, Life};
use core::cell::Cell;
use core::fmt::{self, Write};
use cupeer_rules::reason::{Ago, Device, Handle, Process};
use cupeer_spec::effect::Object;
use cupeer_spec::function::{Direction, FnId, Group};
use cupeer_spec::record::live::{Entry, handle_key, kind};
use cupeer_spec::record::slot::{ARGS, shape};
use cupeer_spec::value::{CHECKED, Format};

/// A call that has returned.
pub struct Call<'a> {
    /// The function.
    pub id: FnId,
    /// Its arguments as the record has them.
    pub args: &'a [u8; ARGS],
    /// What is known of each: [`shape`].
    pub shape: u64,
    /// What it returned.
    pub result: i32,
    /// When it was first asked how long ago something was, in nanoseconds of CLOCK_MONOTONIC; 0 before that.
    pub now: Cell<u64>,
    /// Its return address.
    pub caller: usize,
    /// The number of its slot in the record.
    pub slot: u64,
    /// The fingerprint under which what it frees or destroys was exported.
    pub taken: Option<u64>,
    /// When a call that opens something was forwarded, in nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
    /// The bytes of its handle that the driver does not check.
    pub head: Option<[u8; CHECKED.start]>,
    /// An element of its array argument that is no CUatomicOperation.
    pub operation: Option<i32>,
    /// What the driver says of that which it is about.
    pub about: About,
    /// What the driver said.
    pub words: &'a str,
    /// Prints its arguments.
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
}

impl Call<'_> {
    /// Whether the documentation lists what it returned.
    pub fn is_documented(&self) -> bool {
        self.result == 0 || self.id.spec().results.contains(&self.result)
    }

    /// An argument as a number, by its name; 0 where it is not known.
    pub fn number(&self, name: &str) -> u64 {
        let mut at = 0;
        for arg in self.id.spec().args {
            if arg.name == name {
                let bytes = self.args.get(at..at + arg.stored.min(8)).unwrap_or(&[]);
                return bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            }
            at += arg.stored;
        }
        0
    }

    /// An argument that may be negative.
    pub fn int(&self, name: &str) -> i32 {
        self.number(name) as i32
    }

    /// The first pointer among the arguments that is NULL.
    pub fn null(&self) -> Option<&'static str> {
        let args = self.id.spec().args.iter().enumerate();
        args.filter(|(_, arg)| arg.direction != Direction::In || arg.count.is_some())
            .find(|(i, _)| self.shape >> shape::shift(*i) & 3 == shape::NULL)
            .map(|(_, arg)| arg.name)
    }

    /// The fingerprints of the handle that is opened: of all bytes, and of those that the driver checks.
    pub fn handle(&self) -> (u64, u64) {
        // Behind the output, which is a pointer.
        (questions::word(self.args, 8), questions::word(self.args, 16))
    }

    /// How long before it came back something was; `None` where that is not known.
    pub fn ago(&self, monotonic: u64) -> Option<Ago> {
        if self.now.get() == 0 {
            self.now.set(clock::now());
        }
        (monotonic != 0).then(|| Ago(self.now.get().saturating_sub(monotonic)))
    }

    /// The pid that stands in a handle of memory: its exporter's.
    pub fn named(&self) -> Option<u32> {
        self.head?[8..].first_chunk().map(|pid| u32::from_le_bytes(*pid))
    }

    /// The fingerprint of the bytes of its handle that the driver does not check; 0 where it has none.
    pub fn head(&self) -> u64 {
        self.head.map_or(0, |head| key::fingerprint(&head))
    }

    /// Whether it is about an event.
    pub fn is_event(&self) -> bool {
        self.id.spec().is_in(Group::IpcEvent)
            || self.id.spec().ends().map(|end| end.object) == Some(Object::Event)
    }

    /// The kind of entry that an export has which this call could open, and that of the other kind.
    pub fn kinds(&self) -> (u32, u32) {
        let (memory, event) = (kind::EXPORTED_MEMORY, kind::EXPORTED_EVENT);
        if self.is_event() { (event, memory) } else { (memory, event) }
    }

    /// The export of the handle that is opened, where it is known.
    pub fn export(&self) -> Option<Entry> {
        live::find(handle_key(self.kinds().0, self.handle().0)).map(|place| place.read())
    }
}

/// A device of this process.
pub fn device(ordinal: i32) -> Device {
    Device { ordinal, uuid: questions::uuid(ordinal) }
}

/// The device of an entry, as its process numbers it.
pub fn device_of(entry: &Entry) -> Device {
    Device { ordinal: entry.device, uuid: entry.uuid }
}

/// The device with a UUID, as this process numbers it, if it sees it.
pub fn device_here(uuid: [u8; 16]) -> Device {
    let seen = |ordinal: &i32| uuid != [0; 16] && questions::uuid(*ordinal) == uuid;
    Device { ordinal: (0..questions::MOST_DEVICES).find(seen).unwrap_or(-1), uuid }
}

/// The process of an entry.
pub fn process_of(entry: &Entry) -> Process {
    Process { pid: entry.pid, rank: (entry.rank != u32::MAX).then_some(entry.rank) }
}

/// Whether the process of an entry is this one.
pub fn is_own(entry: &Entry) -> bool {
    entry.word & !0xff == live::own()
}

/// Whether the process of an entry runs.
pub fn life_of(entry: &Entry) -> Life {
    if is_own(entry) { Life::Runs } else { life::of(entry, pid_namespace()) }
}

/// A handle.
pub fn handle(fingerprint: u64) -> Handle {
    Handle(fingerprint)
}

/// Who has something open that was exported, beside this process: how many of them run, and the first; how many
/// cannot be seen, and the first of these.
pub struct Importers {
    /// Those that run.
    pub running: u64,
    /// Those of which the system does not tell.
    pub unknown: u64,
    /// One of them: one that runs, where there is any.
    pub first: Option<Entry>,
}

/// Looks for those who have something open. Goes through the whole table: for when somebody has.
pub fn importers(export_kind: u32, fingerprint: u64) -> Importers {
    let wanted = if export_kind == kind::EXPORTED_MEMORY { kind::OPENED_MEMORY } else { kind::OPENED_EVENT };
    let mut all = Importers { running: 0, unknown: 0, first: None };
    live::each(|place| {
        if place.kind() != wanted || place.is_own() {
            return;
        }
        let entry = place.read();
        // What is being closed at this moment is open no more: whoever closes it says so when it is done.
        if entry.fingerprint != fingerprint || entry.count == 0 {
            return;
        }
        match life_of(&entry) {
            Life::Gone => {}
            Life::Runs => {
                if all.running == 0 {
                    all.first = Some(entry);
                }
                all.running += 1;
            }
            Life::Unknown => {
                all.first = all.first.or(Some(entry));
                all.unknown += 1;
            }
        }
    });
    all
}
