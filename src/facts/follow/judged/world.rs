//! The facts that a recording has about the state around a call: its answers to the questions of [`cupeer_rules::decide`].
//!
//! [`CallWorld`] has the facts that are known while the events of a process are read: its own calls. Facts that only
//! the driver
//! could have supplied at the time of the call are unknown.

use super::JudgedCall;
use crate::follow::ledger::follow::HandleFollower;
use crate::follow::ledger::process_history::ProcessHistory;
use crate::follow::ledger::{self, HandleTable};
use crate::follow::memory::ProcessMemory;
use cupeer_model::{ObjectFamily, View};
use cupeer_record::{Library, Process};
use cupeer_rules::Confidence;
use cupeer_rules::decide::{ClosedBy, ClosedHandle, HadContext, Opening, World};
use cupeer_rules::reason::Ago;
use cupeer_spec::effect::Object;
use cupeer_spec::record::slot::finding::LIBRARY;
use cupeer_spec::record::{meta, mode};
use cupeer_spec::results::Result;
use cupeer_spec::runtime::is_runtime_library;

/// Time in nanoseconds that a process is assumed to live after its last event: a process that waits makes no calls.
pub const ASSUMED_LIFETIME: u64 = 2_000_000_000;

/// Returns the ordinal of a device in a process; -1 if the process does not see the device.
pub fn ordinal_of_uuid(process: &Process, uuid: [u8; 16]) -> i32 {
    process.devices.iter().find(|device| device.uuid == uuid).map_or(-1, |device| device.ordinal)
}

/// Returns the UUID of a device ordinal in a process; zeros if unknown.
pub fn uuid_of_ordinal(process: &Process, ordinal: i32) -> [u8; 16] {
    process.device(ordinal).map_or([0; 16], |device| device.uuid)
}

/// Returns true if a recording has all calls of its process.
fn has_all_calls(process: &Process) -> bool {
    process.header.mode == mode::FULL && !process.has_losses()
}

/// Returns the number of devices that a process sees, as far as it is known.
pub fn device_count(process: &Process) -> Option<i32> {
    process.devices.iter().map(|device| device.ordinal + 1).max()
}

/// The state of a process when one of its calls is read.
#[derive(Clone, Copy)]
pub struct ProcessFacts<'a> {
    pub follower: &'a HandleFollower,
    pub history: &'a ProcessHistory,
    pub memory: &'a ProcessMemory,
    pub ledger: &'a HandleTable,
}

/// The facts around a call whose process is being read.
pub struct CallWorld<'a, 'b> {
    pub made: &'a JudgedCall<'b>,
    pub facts: ProcessFacts<'a>,
}

impl CallWorld<'_, '_> {
    fn opening_of(&self, address: u64, held: &ledger::follow::OwnHandle) -> Opening<()> {
        Opening {
            fingerprint: self.facts.ledger.handles()[held.handle as usize].fingerprint,
            address,
            context: held.context.unwrap_or(0),
            device: held.device.unwrap_or(-1),
            object: (),
        }
    }

    /// Returns the time from an earlier call to this call.
    fn time_since(&self, at: u64) -> Option<Ago> {
        Some(Ago(self.made.at.saturating_sub(at)))
    }
}

impl World for CallWorld<'_, '_> {
    type Object = ();

    fn pid_and_namespace(&self) -> (u32, u64) {
        (self.made.process.header.pid, self.made.process.header.pid_ns)
    }
    fn thread_id(&self) -> u32 {
        self.made.call.tid
    }
    fn initializer_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        let text = |name| self.made.process.text(name);
        let known = text(meta::INITIALIZED_BY).map(|pid| (pid, Confidence::Certain));
        let (pid, confidence) = known.or(text(meta::DEVICES_FROM).map(|pid| (pid, Confidence::Inferred)))?;
        let parent: u32 = pid.parse().ok()?;
        Some(((parent != 0).then_some(parent), confidence))
    }
    fn current_context(&self) -> Option<(i32, u64)> {
        match self.made.call.details.context {
            _ if self.made.result() == Some(Result::NOT_INITIALIZED as i32) => {
                Some((Result::NOT_INITIALIZED as i32, 0))
            }
            context => context.map(|context| (0, context)),
        }
    }
    fn current_device(&self) -> i32 {
        self.made.call.details.devices.0.unwrap_or(-1)
    }
    fn is_current_destroyed(&self) -> Option<bool> {
        let spec = self.made.function.spec();
        let peer = spec.enables().or(spec.disables())?;
        let peer = self.made.call.argument_number(peer.by)?;
        let has_ended = |context| self.facts.history.has_context_ended(context);
        let current = has_ended(self.made.call.details.context?);
        (current != has_ended(peer)).then_some(current)
    }
    fn had_context(&self) -> HadContext {
        self.facts.history.last_context_state(self.made.call.tid)
    }
    fn device_count(&self) -> Option<i32> {
        device_count(self.made.process)
    }
    fn uuid(&self, ordinal: i32) -> [u8; 16] {
        uuid_of_ordinal(self.made.process, ordinal)
    }
    fn ordinal(&self, uuid: [u8; 16]) -> i32 {
        ordinal_of_uuid(self.made.process, uuid)
    }
    fn device_of_peer(&self, _context: u64) -> i32 {
        self.made.call.details.devices.1.unwrap_or(-1)
    }
    fn driver_message(&self) -> &str {
        let message = self.made.call.details.message.as_deref().unwrap_or_default();
        message.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(self.made.process.variable(name));
    }

    fn has_all_exports(&self) -> bool {
        // Calls of other processes decide if an open is right.
        has_all_calls(self.made.process) && self.made.function.spec().opens().is_none()
    }
    fn opening_at(&self, object: Object, address: u64) -> Option<Opening<()>> {
        let opened = &self.facts.follower.opened;
        if let Some(held) = opened.holder(object, address) {
            return Some(self.opening_of(address, held));
        }
        let is_inside = |(kind, begin, held): &(Object, u64, &ledger::follow::OwnHandle)| {
            *kind == object && address.wrapping_sub(*begin) < held.bytes
        };
        let (_, begin, held) = opened.iter().find(is_inside)?;
        Some(self.opening_of(begin, held))
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<()>)) {
        for (_, address, held) in self.facts.follower.opened.iter().filter(|(kind, ..)| *kind == object) {
            work(&self.opening_of(address, held));
        }
    }
    fn closed_at(&self, address: u64) -> Option<ClosedHandle> {
        let ledger::process_history::ClosedMapping { fingerprint, with_context, by, .. } =
            self.facts.history.last_closed_at(address)?;
        let (ago, by) = (self.time_since(by.at), Some(closing_library(self.made.process, by)));
        Some(ClosedHandle { fingerprint: *fingerprint, ago, with_context: *with_context, by })
    }
    fn enabled_access(&self, from: u64, to: u64) -> Option<(Option<Ago>, ())> {
        Some((self.time_since(self.facts.history.enabling_call(from, to)?.at), ()))
    }

    fn query_model<T>(&self, ask: impl FnOnce(&dyn View) -> Option<T>) -> Option<T> {
        ask(&self.facts.memory.state)
    }
    fn has_all_calls(&self, family: ObjectFamily) -> bool {
        has_all_calls(self.made.process) && !self.facts.memory.state.has_lost(family)
    }

    fn allocation_of_call(&self) -> Option<(u64, u64)> {
        self.made.call.details.memory
    }
    fn has_closed_handle(&self) -> bool {
        let closes = self.made.function.spec().closes();
        let place = closes.and_then(|one| Some((one.object, self.made.call.argument_number(one.by)?)));
        place.is_none_or(|(object, number)| self.facts.follower.opened.holder(object, number).is_some())
            || !self.has_all_exports()
    }
}

/// Returns the library that closed an object. If the caller is the CUDA runtime, it is the library that called the runtime.
fn closing_library(process: &Process, by: &ledger::process_history::EarlierCall) -> ClosedBy {
    let places = || by.frames.iter().map(|frame| (*frame, process.library_at(*frame, by.ticks)));
    let is_outside = |library: &Library| !is_runtime_library(library.path.as_bytes());
    let outside = places().find(|(_, library)| library.is_none_or(is_outside));
    let (frame, known) = outside.or_else(|| places().next()).unwrap_or((0, None));
    let mut library = [0; LIBRARY];
    if let Some(known) = known {
        let name = known.path.rsplit('/').next().unwrap_or_default();
        library.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    }
    ClosedBy { tid: by.tid, library, offset: frame.wrapping_sub(known.map_or(0, |known| known.base)) }
}
