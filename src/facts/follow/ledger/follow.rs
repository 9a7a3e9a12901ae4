//! Turns the events of one process into entries of the handle table.
//!
//! This module releases the objects that calls close or end; [`super::take`] adds the objects that calls export or open, when
//! [`crate::follow::returns`] hands them over.

use super::taken::Taken;
use super::{CallSite, Current, Ended, Failing, HandleDomain, Import, Ledger, Site};
use crate::follow::returns::Returns;
use cupeer_model::Names;
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::is_done_all_the_same;
use cupeer_report::model::Uuid;
use cupeer_report::places::Stack;
use cupeer_report::values::{self, Ending};
use cupeer_spec::effect::{Effect, End, Object, Shared};
use cupeer_spec::function::{FnId, Group};

/// The handles that a process has opened and exported, while its events are read.
pub struct Follower {
    pub(super) process: usize,
    pub(super) domain: HandleDomain,
    pub(super) waiting: Returns<Taken>,
    /// Objects that the process opened, by address or event.
    pub opened: Names<OwnHandle, foldhash::fast::RandomState>,
    /// Handles that the process exported, by the start of the allocation, or by event.
    pub(super) exported: Names<Vec<OwnHandle>, foldhash::fast::RandomState>,
    /// Addresses and events that a fault plan invented, or that were really closed although a fault plan reported a failure.
    unreal: Names<()>,
}

/// An object that a process opened or exported.
#[derive(Clone, Copy)]
pub struct OwnHandle {
    pub handle: u32,
    /// The index of the import in the entry of the handle table, if the process opened the object.
    pub import: u32,
    pub context: Option<u64>,
    /// The stack of the call that opened or exported the object.
    pub stack: Stack,
    pub device: Option<i32>,
    /// True if the object certainly belongs to `context`; false if the context was only current at the export.
    pub is_sure: bool,
    /// The size of the memory in bytes; 0 if unknown.
    pub bytes: u64,
}

impl OwnHandle {
    pub(super) fn import(self, ledger: &mut Ledger) -> &mut Import {
        &mut ledger.handles[self.handle as usize].imports[self.import as usize]
    }
}

/// Facts about a call that are not in the call itself.
pub struct CallFacts {
    pub at: u64,
    /// When the last call of a run of repeated calls began.
    pub last: u64,
    /// The duration of the call in nanoseconds.
    pub took: u64,
    /// The device of the call's context or, for an exported allocation, of the allocation.
    pub uuid: Option<Uuid>,
    /// The size of an exported allocation, in bytes.
    pub bytes: Option<u64>,
    /// Place of the call, if [`keeps_stack`] returns true for it.
    pub site: Option<Site>,
}

/// Returns true if calls of a function can change the handle table.
#[inline]
pub fn concerns(function: FnId) -> bool {
    let function = function.spec();
    (function.shares() || function.gives_back()) && !function.is_in(Group::Peer)
}

/// Returns true if the handle table stores the place of a call: it opened, exported, closed, or ended an object, or failed to
/// open one.
#[inline]
pub fn keeps_stack(function: FnId, call: &Call) -> bool {
    let function = function.spec();
    let ends = function.closes().is_some() || function.ends().is_some();
    function.opens().is_some() || call.succeeded() && (function.exports().is_some() || ends)
}

impl Follower {
    pub fn new(process: usize, domain: HandleDomain) -> Self {
        Follower {
            process,
            domain,
            waiting: Returns::default(),
            opened: Names::default(),
            exported: Names::default(),
            unreal: Names::default(),
        }
    }

    pub fn call(&mut self, ledger: &mut Ledger, function: FnId, call: &Call, seen: CallFacts) {
        self.settle(ledger, call.start);
        // If a fault plan changed the result, the handle table follows what the driver did, not what the program was told.
        let is_done = call.succeeded() || is_done_all_the_same(call);
        let is_own = is_done && call.injected;
        let site = seen.site.map(|site| Site { is_judged: site.is_judged || is_own, ..site });
        let done = Ended { at: Some(seen.at), by: Some(function), site, anew: None };
        if is_done
            && !call.succeeded()
            && let Some((object, number)) = closed(function, call)
        {
            self.unreal.bearer_or(object, number, || ());
        }
        let spec = function.spec();
        match (spec.exports(), spec.opens()) {
            (Some(shared), _) if call.succeeded() => self.exports(ledger, function, shared, call, seen),
            (_, Some(shared)) => self.opens(ledger, function, shared, call, seen),
            _ if !is_done && call.injected => self.keep(ledger, function, call, seen.at),
            _ if !is_done => {}
            _ => {
                if let Some((object, address)) = closed(function, call) {
                    // Each open of an event returns a new event.
                    let is_counted = object == Object::Event || spec.ends().is_none_or(|end| end.is_counted);
                    self.close(ledger, object, address, (done, seen.took), !is_counted);
                }
                if let Some(ending) = Ending::of(function, call) {
                    self.end_all(ledger, done, &ending);
                } else {
                    for effect in spec.effects() {
                        if let Effect::Ends(End { object, by, .. }) = *effect
                            && let Some(address) = call.number(by)
                        {
                            self.end(ledger, object, address, done);
                        }
                    }
                }
            }
        }
    }

    /// Returns true if a call failed because of an earlier fault: the fault damaged its handle, or the program closes
    /// something that was never open, or that is closed already.
    pub fn follows_fault(&self, ledger: &Ledger, function: FnId, call: &Call) -> bool {
        if call.injected || call.succeeded() {
            return false;
        }
        if let Some(shared) = function.spec().opens() {
            return values::handle(call, shared.handle)
                .is_some_and(|(fingerprint, _)| ledger.damage.has(fingerprint));
        }
        !self.unreal.is_empty()
            && closed(function, call)
                .is_some_and(|(object, number)| self.unreal.bearer(object, number).is_some())
    }

    /// Notes that a call closed nothing, because a fault plan made it fail.
    fn keep(&mut self, ledger: &mut Ledger, function: FnId, call: &Call, at: u64) {
        let one = closed(function, call);
        let ending = Ending::of(function, call);
        for (kind, number, held) in self.opened.iter() {
            let ends = |ending: &Ending| ending.takes(kind, held.context, held.device);
            if one == Some((kind, number)) || ending.as_ref().is_some_and(ends) {
                held.import(ledger).keep(at);
            }
        }
    }

    fn exports(&mut self, ledger: &mut Ledger, function: FnId, shared: Shared, call: &Call, seen: CallFacts) {
        let Some(handle) = values::handle(call, shared.handle) else { return };
        if call.injected {
            // The program got a changed handle, not the handle that the driver exported.
            ledger.damage.changed.insert(handle.0);
            return;
        }
        let memory = call.details.memory;
        let Some(address) = memory.map(|(base, _)| base).or_else(|| call.number(shared.by)) else {
            return;
        };
        self.takes(function, shared.object, call, seen, (handle, address, true));
    }

    fn opens(
        &mut self,
        ledger: &mut Ledger,
        function: FnId,
        Shared { object: kind, by, handle, .. }: Shared,
        call: &Call,
        seen: CallFacts,
    ) {
        let Some(handle) = values::handle(call, handle) else { return };
        match call.outcome {
            Outcome::Returned(0) => {
                // Without the address, the later close cannot be recognized, but the open counts.
                let address = call.number(by).unwrap_or(0);
                if call.injected {
                    self.unreal.bearer_or(kind, address, || ());
                } else if !self.unreal.is_empty() {
                    self.unreal.take(kind, address);
                }
                self.takes(function, kind, call, seen, (handle, address, false));
            }
            Outcome::Returned(result) => {
                let Some(site) = seen.site else { return };
                let failing = Failing {
                    call: CallSite { function, site, at: seen.at },
                    last: seen.last,
                    result,
                    count: call.times(),
                    is_injected: call.injected || ledger.damage.has(handle.0),
                    message: call.details.message.as_deref().map(Box::from),
                    current: Current { context: call.details.context, device: call.details.devices.0 },
                };
                let number = ledger.number(self.domain, kind, handle);
                ledger.handles[number as usize].import(self.process).fail(failing, seen.uuid);
            }
            Outcome::Pending | Outcome::Unwound => {}
        }
    }

    /// Adds a handle that a call exports or opens to those that wait for the return of their calls.
    fn takes(
        &mut self,
        function: FnId,
        kind: Object,
        call: &Call,
        seen: CallFacts,
        (handle, address, exported): ((u64, u64), u64, bool),
    ) {
        let Some(site) = seen.site else { return };
        let owner = call.details.owner.filter(|_| exported);
        let taken = Taken {
            call: CallSite { function, site, at: seen.at },
            is_injected: call.injected,
            kind,
            handle,
            address,
            exported,
            bytes: call.details.memory.map(|(_, bytes)| bytes).or(seen.bytes),
            took: seen.took,
            current: Current {
                context: owner.map(|(context, _)| context).or(call.details.context),
                device: device_of(call),
            },
            is_sure: !exported || !kind.is_memory() || owner.is_some(),
            uuid: seen.uuid,
            inside: if exported { inside(call) } else { 0 },
        };
        self.waiting.push(call.end, taken);
    }

    fn close(
        &mut self,
        ledger: &mut Ledger,
        kind: Object,
        address: u64,
        (done, took): (Ended, u64),
        for_good: bool,
    ) {
        if self.opened.bearer(kind, address).is_none() {
            self.take_late(ledger, (kind, address), false);
        }
        if let Some(held) = self.opened.bearer(kind, address) {
            let import = held.import(ledger);
            import.again.spent += took;
            if let Some(again) = import.times.last_mut().and_then(|time| time.again_at(held.stack)) {
                again.closed += u64::from(kind == Object::Event);
            }
            let is_over = import.close(done, for_good);
            // Each import of an allocation and each opened event has its own number, which is free after the close.
            if is_over || kind.outlives_its_maker() || kind == Object::Event {
                self.opened.take(kind, address);
            }
        }
    }

    fn end(&mut self, ledger: &mut Ledger, kind: Object, address: u64, done: Ended) {
        if self.exported.bearer(kind, address).is_none() {
            self.take_late(ledger, (kind, address), true);
        }
        for held in self.exported.take(kind, address).into_iter().flatten() {
            ledger.handles[held.handle as usize].end(done);
        }
    }

    fn end_all(&mut self, ledger: &mut Ledger, done: Ended, ending: &Ending) {
        let belongs = |held: &OwnHandle, kind: Object| ending.takes(kind, held.context, held.device);
        self.opened.retain(|kind, _, held| {
            let ends = belongs(held, kind);
            if ends {
                held.import(ledger).close(done, true);
            }
            !ends
        });
        self.exported.retain(|kind, _, all| {
            all.retain(|held| {
                let ends = belongs(held, kind);
                let is_sure = held.is_sure && ending.context.is_some();
                if ends && is_sure {
                    ledger.handles[held.handle as usize].end(done);
                } else if ends {
                    ledger.handles[held.handle as usize].perhaps_end(done);
                }
                !(ends && is_sure)
            });
            !all.is_empty()
        });
    }
}

/// Returns the offset of an exported pointer in its allocation, in bytes.
fn inside(call: &Call) -> u64 {
    let by = call.function.and_then(|function| function.spec().exports()).map(|shared| shared.by);
    let given = by.and_then(|by| call.number(by));
    given.zip(call.details.memory).map_or(0, |(given, (base, _))| given.wrapping_sub(base))
}

/// Returns the object that a call closes by its address or event.
fn closed(function: FnId, call: &Call) -> Option<(Object, u64)> {
    let closed = function.spec().closes()?;
    Some((closed.object, call.number(closed.by)?))
}

/// Returns the ordinal of the device of the exported object, or else of the current context.
pub fn device_of(call: &Call) -> Option<i32> {
    let owner = call.details.owner.filter(|_| call.function.is_some_and(|it| it.spec().exports().is_some()));
    let owners = owner.map(|(_, device)| device).filter(|device| *device >= 0);
    owners.or(call.details.devices.0)
}
