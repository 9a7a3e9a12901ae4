//! Rules about successful calls: undefined effects, results that depend on chance, and facts worth knowing.

use super::{EndedObject, Export, FreedExport, Judge, OpenerLibraries, Opening, Verdict, World};
use crate::Confidence;
use crate::reason::{Handle, Reason};
use cupeer_spec::effect::{Named, Object, Shared};
use cupeer_spec::record::slot::finding::role;

impl<W: World> Judge<'_, W> {
    /// Checks a call that succeeded, before the world includes its effects.
    pub(super) fn check_success(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        if self.call.object_kind().outlives_its_maker() {
            // A process may import such an object any number of times, even one that it created itself.
            Some(Verdict::Held)
        } else if spec.uses_memory() {
            self.check_uses()
        } else if spec.launches().is_some() {
            self.check_launch()
        } else if spec.graph_argument().is_some() {
            self.check_graph_use()
        } else if spec.ends().is_some() {
            self.check_end()
        } else if let Some(shared) = spec.opens().filter(|shared| shared.object == Object::Pointer) {
            self.check_pointer_import(shared)
        } else if self.call.object_kind().needs_granted_access() {
            Some(Verdict::Held)
        } else if let Some(shared) = spec.exports() {
            self.check_export(shared)
        } else if spec.opens().is_some() {
            self.check_open()
        } else if spec.enables().is_some() {
            self.check_enable()
        } else if let Some(closed) = spec.closes() {
            self.check_close(closed)
        } else {
            Some(Verdict::Held)
        }
    }

    fn check_export(&mut self, Shared { by, handle, object, .. }: Shared) -> Option<Verdict> {
        if object != Object::Memory {
            return Some(Verdict::Held);
        }
        let address = self.call.number_at(by);
        let mut verdict = Some(Verdict::Held);
        if let Some((base, bytes)) = self.world.allocation_of_call().filter(|(base, _)| *base != address) {
            verdict = self.report_if(true, by, Reason::IpcInteriorPointer { address, base, bytes });
        }
        if let Some(FreedExport { export: before, importers }) = self.world.find_freed_before() {
            let reason = Reason::IpcAddressReused {
                address: before.address,
                handle: Handle(self.call.fingerprint(handle)),
                before: Handle(before.fingerprint),
                importers: importers.running + importers.unknown,
                first: importers.first.0,
            };
            let confidence = Confidence::certain_if(importers.running > 0);
            let objects = [(role::EXPORT, before.object), (role::OPENING, importers.first.1)];
            verdict = self.report_violation_of(reason, confidence, Some(by), &objects, importers.cache);
        }
        verdict
    }

    fn check_open(&mut self) -> Option<Verdict> {
        let mut verdict = match self.call.is_event() {
            true => Some(Verdict::Held),
            false => self.check_flags(|flags| Reason::IpcFlags { flags, is_taken: true }),
        };
        // If the handle was already open, it was checked when it was first opened.
        let (world, handle) = (self.world, Handle(self.fingerprint()));
        let is_open_already = world.is_open_already(&mut |OpenerLibraries { first, second, count, opening }| {
            let reason = Reason::IpcSecondLibrary { handle, first, second, count };
            let objects = [(role::OPENING, opening)];
            verdict = self.report_violation(reason, Confidence::Certain, self.handle_argument(), &objects);
        });
        if is_open_already {
            return verdict;
        }
        match self.opened_export() {
            Some(export) if self.call.is_event() => self.check_event_open(&export),
            Some(export) => self.check_memory_open(&export, verdict),
            // No process exported these bytes, and the driver opened them. So bytes that the driver does not
            // check were changed.
            None => match self.original_of_opened() {
                Some((_, true)) => self.damaged(),
                _ => verdict,
            },
        }
    }

    /// Checks for an opened event that its exporter had destroyed. The driver still opens such an event.
    fn check_event_open(&mut self, export: &Export<W::Object>) -> Option<Verdict> {
        let Some(ended) = export.ended.filter(|ended| ended.is_before) else { return Some(Verdict::Held) };
        let reason = Reason::IpcEventOpenedLate {
            handle: Handle(export.fingerprint),
            owner: export.owner,
            ago: ended.ago,
            with_context: ended.with_context,
        };
        let objects = [(role::EXPORT, export.object)];
        self.report_violation(reason, self.world.exporter_confidence(export), self.handle_argument(), &objects)
    }

    /// Checks for a pointer that was already imported. The driver returns the address of the first import,
    /// and does not count the second one.
    fn check_pointer_import(&mut self, Shared { by, handle, .. }: Shared) -> Option<Verdict> {
        let (address, fingerprint) = (self.call.number_at(by), self.call.fingerprint(handle));
        let known = self.world.opening_at(Object::Pointer, address);
        let is_same = |known: &Opening<W::Object>| (known.address, known.fingerprint) == (address, fingerprint);
        let Some(known) = known.filter(is_same) else { return Some(Verdict::Held) };
        let reason = Reason::PoolPointerTwice { address, handle: Handle(fingerprint) };
        self.report_violation(reason, Confidence::Certain, handle, &[(role::OPENING, known.object)])
    }

    fn check_memory_open(&mut self, export: &Export<W::Object>, mut verdict: Option<Verdict>) -> Option<Verdict> {
        let (owner, objects) = (export.owner, [(role::EXPORT, export.object)]);
        if export.pointer_offset != 0 {
            let handle = Handle(export.fingerprint);
            let reason = Reason::IpcOffsetNotAdded { handle, offset: export.pointer_offset, owner };
            let by = self.call.function.spec().opens().map_or(0, |shared| shared.by);
            verdict = self.report_violation(reason, Confidence::Inferred, by, &objects);
        }
        let (here, there) = (self.device_with_uuid(self.world.current_device()), export.device);
        let are_known = here.uuid != [0; 16] && there.uuid != [0; 16];
        if are_known && here.ordinal == there.ordinal && here.uuid != there.uuid {
            let (ordinal, here, there) = (here.ordinal, here.uuid, there.uuid);
            let reason = Reason::IpcDeviceOrder { ordinal, here, there, owner };
            verdict = self.report_violation(reason, Confidence::Inferred, self.handle_argument(), &objects);
        }
        verdict
    }

    fn check_close(&mut self, Named { object, by }: Named) -> Option<Verdict> {
        let address = self.call.number_at(by);
        if self.world.has_closed_handle() {
            return self.check_exporter_alive(object, address, by);
        }
        if self.world.closed_at(address).is_none() {
            return Some(Verdict::Held);
        }
        self.report_violation(Reason::DriverContradictsClose { address }, Confidence::Inferred, by, &[])
    }

    /// Checks for a close of memory whose exporter had ended. An exporter may exit before its importers
    /// close: drivers were seen to keep the memory. But an exporter that was killed may have left its data
    /// incomplete.
    fn check_exporter_alive(&mut self, object: Object, address: u64, by: usize) -> Option<Verdict> {
        let Some(export) = self.world.export_of_closed_handle(object, address) else { return Some(Verdict::Held) };
        if export.ended.is_some() {
            return Some(Verdict::Held);
        }
        let Some(confidence) = self.world.death_confidence(&export) else { return Some(Verdict::Held) };
        let reason = Reason::IpcExporterDied { handle: Handle(export.fingerprint), owner: export.owner };
        self.report_violation(reason, confidence, by, &[(role::EXPORT, export.object)])
    }

    fn check_enable(&mut self) -> Option<Verdict> {
        let (context, peer) = self.current_and_peer_contexts();
        let Some((_, object)) = self.world.enabled_access(context, peer) else { return Some(Verdict::Held) };
        let (from, to) = self.current_and_peer_devices();
        let reason = Reason::DriverContradictsEnable { from, to };
        self.report_violation(reason, Confidence::Inferred, self.peer_argument(), &[(role::ENABLING, object)])
    }

    /// Checks for an object that the call ended while others had it open.
    fn check_end(&mut self) -> Option<Verdict> {
        let (Some(ending), Some(end)) = (self.world.ended_while_open(), self.call.function.spec().ends()) else {
            return Some(Verdict::Held);
        };
        let EndedObject { kind, export, bytes, handles, importers, is_sure } = ending;
        let (handle, (first, _)) = (Handle(export.fingerprint), importers.first);
        let (address, importing) = (export.address, importers.running + importers.unknown);
        let what = self.call.function.spec().name();
        let reason = if end.object.is_context() {
            let importers = importing;
            Reason::IpcContextEndedWhileOpen { what, handles, importers, first, address, handle, kind }
        } else if self.call.is_event() {
            let event = address;
            Reason::IpcEventDestroyedWhileOpen { event, handle, importers: importing, first }
        } else if kind == Object::Pool {
            let pool = address;
            Reason::PoolDestroyedWhileOpen { pool, handle, importers: importing, first }
        } else if kind == Object::Pointer {
            Reason::PoolFreedWhileOpen { address, bytes, handle, importers: importing, first }
        } else {
            let uses = importers.opens_and_closes;
            Reason::IpcFreedWhileOpen { address, bytes, handle, importers: importing, first, uses }
        };
        let argument = (!end.object.is_context()).then_some(end.by);
        let confidence = Confidence::certain_if(is_sure && importers.running > 0);
        let objects = [(role::EXPORT, export.object), (role::OPENING, importers.first.1)];
        // Libraries cache no events: a process that has an event open waits for it.
        let cache = importers.cache.filter(|_| kind != Object::Event);
        self.report_violation_of(reason, confidence, argument, &objects, cache)
    }
}
