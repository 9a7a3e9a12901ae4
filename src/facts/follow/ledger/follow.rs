//! Turns the events of one process into entries of the handle table.
//!
//! This module releases the objects that calls close or end; [`super::take`] adds the objects that calls export or open, when
//! [`crate::follow::returns`] hands them over.

use super::taken::WaitingHandle;
use super::{CallSite, CurrentContext, HandleDomain, HandleTable, Import, ObjectEnd, OpenFailures, Site};
use crate::follow::returns::WaitingResults;
use cupeer_model::NumberHolders;
use cupeer_record::{Call, Outcome};
use cupeer_report::judged::is_completed_anyway;
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_report::values::{self, EndedContext};
use cupeer_spec::effect::{Effect, End, Object, Shared};
use cupeer_spec::function::{FnId, Group};

/// The handles that a process has opened and exported, while its events are read.
pub struct HandleFollower {
    pub(super) process: usize,
    pub(super) domain: HandleDomain,
    pub(super) waiting: WaitingResults<WaitingHandle>,
    /// Objects that the process opened, by address or event.
    pub opened: NumberHolders<OwnHandle, foldhash::fast::RandomState>,
    /// Handles that the process exported, by the start of the allocation, or by event.
    pub(super) exported: NumberHolders<Vec<OwnHandle>, foldhash::fast::RandomState>,
    /// Addresses and events that a fault plan invented, or that were really closed although a fault plan reported a failure.
    unreal: NumberHolders<()>,
}

/// An object that a process opened or exported.
#[derive(Clone, Copy)]
pub struct OwnHandle {
    pub handle: u32,
    /// The index of the import in the entry of the handle table, if the process opened the object.
    pub import: u32,
    pub context: Option<u64>,
    /// The stack of the call that opened or exported the object.
    pub stack: StackNumber,
    pub device: Option<i32>,
    /// True if the object certainly belongs to `context`; false if the context was only current at the export.
    pub is_sure: bool,
    /// The size of the memory in bytes; 0 if unknown.
    pub bytes: u64,
}

impl OwnHandle {
    pub(super) fn import(self, ledger: &mut HandleTable) -> &mut Import {
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
    /// Place of the call, if the handle table stores it.
    pub site: Option<Site>,
}

/// Returns true if calls of a function can change the handle table.
#[inline]
pub fn may_change_handles(function: FnId) -> bool {
    let function = function.spec();
    (function.shares() || function.is_release()) && !function.is_in(Group::Peer)
}

/// Returns true if the handle table stores the place of a call: it opened, exported, closed, or ended an object, or failed to
/// open one.
#[inline]
pub fn is_place_stored(function: FnId, call: &Call) -> bool {
    let function = function.spec();
    let ends = function.closes().is_some() || function.ends().is_some();
    function.opens().is_some() || call.succeeded() && (function.exports().is_some() || ends)
}

impl HandleFollower {
    pub fn new(process: usize, domain: HandleDomain) -> Self {
        HandleFollower {
            process,
            domain,
            waiting: WaitingResults::default(),
            opened: NumberHolders::default(),
            exported: NumberHolders::default(),
            unreal: NumberHolders::default(),
        }
    }

    pub fn follow_call(&mut self, ledger: &mut HandleTable, function: FnId, call: &Call, seen: CallFacts) {
        self.add_returned(ledger, call.start);
        // If a fault plan changed the result, the handle table follows what the driver did, not what the program was told.
        let is_done = call.succeeded() || is_completed_anyway(call);
        let is_own = is_done && call.injected;
        let site = seen.site.map(|site| Site { is_judged: site.is_judged || is_own, ..site });
        let done = ObjectEnd { at: Some(seen.at), by: Some(function), site, exported_again_at: None };
        if is_done
            && !call.succeeded()
            && let Some((object, number)) = closed_object(function, call)
        {
            self.unreal.holder_or_insert(object, number, || ());
        }
        let spec = function.spec();
        match (spec.exports(), spec.opens()) {
            (Some(shared), _) if call.succeeded() => self.follow_export(ledger, function, shared, call, seen),
            (_, Some(shared)) => self.follow_open(ledger, function, shared, call, seen),
            _ if !is_done && call.injected => self.note_prevented_close(ledger, function, call, seen.at),
            _ if !is_done => {}
            _ => {
                if let Some((object, address)) = closed_object(function, call) {
                    // Each open of an event returns a new event.
                    let is_counted = object == Object::Event || spec.ends().is_none_or(|end| end.is_counted);
                    self.close_opened(ledger, object, address, (done, seen.took), !is_counted);
                }
                if let Some(ending) = EndedContext::of(function, call) {
                    self.end_all_of_context(ledger, done, &ending);
                } else {
                    for effect in spec.effects() {
                        if let Effect::Ends(End { object, by, .. }) = *effect
                            && let Some(address) = call.argument_number(by)
                        {
                            self.end_exported(ledger, object, address, done);
                        }
                    }
                }
            }
        }
    }

    /// Returns true if a call failed because of an earlier fault: the fault damaged its handle, or the program closes
    /// something that was never open, or that is closed already.
    pub fn follows_fault(&self, ledger: &HandleTable, function: FnId, call: &Call) -> bool {
        if call.injected || call.succeeded() {
            return false;
        }
        if let Some(shared) = function.spec().opens() {
            return values::handle_fingerprints(call, shared.handle)
                .is_some_and(|(fingerprint, _)| ledger.damage.has_listed(fingerprint));
        }
        !self.unreal.is_empty()
            && closed_object(function, call)
                .is_some_and(|(object, number)| self.unreal.holder(object, number).is_some())
    }

    /// Stores from when on handles stay open because a fault plan made the call fail that closes them.
    fn note_prevented_close(&mut self, ledger: &mut HandleTable, function: FnId, call: &Call, at: u64) {
        let one = closed_object(function, call);
        let ending = EndedContext::of(function, call);
        for (kind, number, held) in self.opened.iter() {
            let ends = |ending: &EndedContext| ending.ends_object(kind, held.context, held.device);
            if one == Some((kind, number)) || ending.as_ref().is_some_and(ends) {
                held.import(ledger).note_prevented_close(at);
            }
        }
    }

    fn follow_export(
        &mut self,
        ledger: &mut HandleTable,
        function: FnId,
        shared: Shared,
        call: &Call,
        seen: CallFacts,
    ) {
        let Some(handle) = values::handle_fingerprints(call, shared.handle) else { return };
        if call.injected {
            // The program got a changed handle, not the handle that the driver exported.
            ledger.damage.changed.insert(handle.0);
            return;
        }
        let memory = call.details.memory;
        let Some(address) = memory.map(|(base, _)| base).or_else(|| call.argument_number(shared.by)) else {
            return;
        };
        self.queue_handle(function, shared.object, call, seen, (handle, address, true));
    }

    fn follow_open(
        &mut self,
        ledger: &mut HandleTable,
        function: FnId,
        Shared { object: kind, by, handle, .. }: Shared,
        call: &Call,
        seen: CallFacts,
    ) {
        let Some(handle) = values::handle_fingerprints(call, handle) else { return };
        match call.outcome {
            Outcome::Returned(0) => {
                // Without the address, the later close cannot be recognized, but the open counts.
                let address = call.argument_number(by).unwrap_or(0);
                if call.injected {
                    self.unreal.holder_or_insert(kind, address, || ());
                } else if !self.unreal.is_empty() {
                    self.unreal.take(kind, address);
                }
                self.queue_handle(function, kind, call, seen, (handle, address, false));
            }
            Outcome::Returned(result) => {
                let Some(site) = seen.site else { return };
                let failing = OpenFailures {
                    call: CallSite { function, site, at: seen.at },
                    last: seen.last,
                    result,
                    count: call.call_count(),
                    is_injected: call.injected || ledger.damage.has_listed(handle.0),
                    message: call.details.message.as_deref().map(Box::from),
                    current: CurrentContext { context: call.details.context, device: call.details.devices.0 },
                };
                let number = ledger.number_or_add(self.domain, kind, handle);
                ledger.handles[number as usize].import_or_add(self.process).add_failure(failing, seen.uuid);
            }
            Outcome::Pending | Outcome::Unwound => {}
        }
    }

    /// Adds a handle that a call exports or opens to those that wait for the return of their calls.
    fn queue_handle(
        &mut self,
        function: FnId,
        kind: Object,
        call: &Call,
        seen: CallFacts,
        (handle, address, exported): ((u64, u64), u64, bool),
    ) {
        let Some(site) = seen.site else { return };
        let owner = call.details.owner.filter(|_| exported);
        let taken = WaitingHandle {
            call: CallSite { function, site, at: seen.at },
            is_injected: call.injected,
            kind,
            handle,
            address,
            exported,
            bytes: call.details.memory.map(|(_, bytes)| bytes).or(seen.bytes),
            took: seen.took,
            current: CurrentContext {
                context: owner.map(|(context, _)| context).or(call.details.context),
                device: object_or_current_device(call),
            },
            is_sure: !exported || !kind.is_memory() || owner.is_some(),
            uuid: seen.uuid,
            inside: if exported { offset_in_allocation(call) } else { 0 },
        };
        self.waiting.push(call.end, taken);
    }

    fn close_opened(
        &mut self,
        ledger: &mut HandleTable,
        kind: Object,
        address: u64,
        (done, took): (ObjectEnd, u64),
        for_good: bool,
    ) {
        if self.opened.holder(kind, address).is_none() {
            self.add_early(ledger, (kind, address), false);
        }
        if let Some(held) = self.opened.holder(kind, address) {
            let import = held.import(ledger);
            import.reopened.spent += took;
            if let Some(again) = import.times.last_mut().and_then(|time| time.opens_from(held.stack)) {
                again.closed += u64::from(kind == Object::Event);
            }
            let is_over = import.add_close(done, for_good);
            // Each import of an allocation and each opened event has its own number, which is free after the close.
            if is_over || kind.outlives_its_maker() || kind == Object::Event {
                self.opened.take(kind, address);
            }
        }
    }

    fn end_exported(&mut self, ledger: &mut HandleTable, kind: Object, address: u64, done: ObjectEnd) {
        if self.exported.holder(kind, address).is_none() {
            self.add_early(ledger, (kind, address), true);
        }
        for held in self.exported.take(kind, address).into_iter().flatten() {
            ledger.handles[held.handle as usize].set_end(done);
        }
    }

    fn end_all_of_context(&mut self, ledger: &mut HandleTable, done: ObjectEnd, ending: &EndedContext) {
        let belongs = |held: &OwnHandle, kind: Object| ending.ends_object(kind, held.context, held.device);
        self.opened.retain(|kind, _, held| {
            let ends = belongs(held, kind);
            if ends {
                held.import(ledger).add_close(done, true);
            }
            !ends
        });
        self.exported.retain(|kind, _, all| {
            all.retain(|held| {
                let ends = belongs(held, kind);
                let is_sure = held.is_sure && ending.context.is_some();
                if ends && is_sure {
                    ledger.handles[held.handle as usize].set_end(done);
                } else if ends {
                    ledger.handles[held.handle as usize].add_possible_end(done);
                }
                !(ends && is_sure)
            });
            !all.is_empty()
        });
    }
}

/// Returns the offset of an exported pointer in its allocation, in bytes.
fn offset_in_allocation(call: &Call) -> u64 {
    let by = call.function.and_then(|function| function.spec().exports()).map(|shared| shared.by);
    let given = by.and_then(|by| call.argument_number(by));
    given.zip(call.details.memory).map_or(0, |(given, (base, _))| given.wrapping_sub(base))
}

/// Returns the object that a call closes by its address or event.
fn closed_object(function: FnId, call: &Call) -> Option<(Object, u64)> {
    let closed = function.spec().closes()?;
    Some((closed.object, call.argument_number(closed.by)?))
}

/// Returns the ordinal of the device of the exported object, or else of the current context.
pub fn object_or_current_device(call: &Call) -> Option<i32> {
    let owner = call.details.owner.filter(|_| call.function.is_some_and(|it| it.spec().exports().is_some()));
    let owners = owner.map(|(_, device)| device).filter(|device| *device >= 0);
    owners.or(call.details.devices.0)
}
