//! Rules about the handle that a failed call tried to open.

use super::world::read_word;
use super::{DeviceNode, Export, Judge, ProcessLife, Verdict, World};
use crate::Confidence;
use crate::reason::{Device, Handle, HandleFlaw, Process, Reason};
use cupeer_spec::effect::Object;
use cupeer_spec::record::slot::finding::role;
use cupeer_spec::results::Result;
use cupeer_spec::value::EXPORTER;

/// Returns the number of bytes of a handle that were not cut off; `None` if the handle was not truncated.
fn untruncated_length(bytes: &[u8; 64]) -> Option<u8> {
    /// Number of bytes before the second half. With driver 580, the second half is never empty: it contains
    /// the kind of handle, and bytes that the driver checks.
    const LONGEST: usize = 32;
    let length = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    (length <= LONGEST).then_some(length as u8)
}

impl<W: World> Judge<'_, W> {
    /// Returns the fingerprint of the handle that the call opens.
    pub(super) fn fingerprint(&self) -> u64 {
        self.call.opened_handle().map_or(0, |(_, fingerprint, _)| fingerprint)
    }

    /// Returns the index of the argument with the handle that the call opens.
    pub(super) fn handle_argument(&self) -> Option<usize> {
        self.expect_in_table(self.call.function.spec().opens()).map(|shared| shared.handle)
    }

    /// Returns the export of the handle that the call opens; `None` if it is unknown.
    pub(super) fn opened_export(&self) -> Option<Export<W::Object>> {
        self.world.find_export(self.call.object_kind(), self.fingerprint())
    }

    /// Returns the export whose handle was opened in a damaged copy, and true if this is certain.
    pub(super) fn original_of_opened(&self) -> Option<(Export<W::Object>, bool)> {
        let (shared, fingerprint, checked) = self.call.opened_handle()?;
        self.world.find_original(shared.object, fingerprint, checked)
    }

    /// Reports a broken rule that concerns an export.
    pub(super) fn report_with_export(
        &mut self,
        export: &Export<W::Object>,
        reason: Reason,
        confidence: Confidence,
    ) -> Option<Verdict> {
        self.report_violation(reason, confidence, self.handle_argument(), &[(role::EXPORT, export.object)])
    }

    pub(super) fn ipc_flags(&mut self) -> Option<Verdict> {
        self.check_flags(|flags| Reason::IpcFlags { flags, is_taken: false })
    }

    pub(super) fn exported_here(&mut self) -> Option<Verdict> {
        let Some(export) = self.opened_export().filter(|export| export.is_own) else {
            return Some(Verdict::Held);
        };
        let reason = Reason::IpcOpenInExportingProcess {
            handle: Handle(export.fingerprint),
            pid: export.owner.pid,
            address: export.address,
            ago: export.ago,
            is_event: self.call.is_event(),
        };
        self.report_with_export(&export, reason, Confidence::Certain)
    }

    pub(super) fn equal_pids(&mut self) -> Option<Verdict> {
        let ((pid, own_ns), export) = (self.world.pid_and_namespace(), self.opened_export());
        // The bytes of a memory handle contain the pid of its exporter, in the exporter's own namespace.
        let named = self.world.pid_in_handle().or(export.map(|export| export.owner.pid));
        if named != Some(pid) || export.is_some_and(|export| export.is_own) {
            return Some(Verdict::Held);
        }
        let other_ns = export.map(|export| export.pid_ns);
        let reason = Reason::IpcEqualPids { pid, own_ns, other_ns };
        match export {
            Some(export) => self.report_with_export(&export, reason, Confidence::Certain),
            None if self.world.has_all_exports() => {
                self.report_violation(reason, Confidence::Inferred, self.handle_argument(), &[])
            }
            None => None,
        }
    }

    pub(super) fn other_kind(&mut self) -> Option<Verdict> {
        let is_event = self.call.is_event();
        let other = if is_event { Object::Memory } else { Object::Event };
        let Some(export) = self.world.find_export(other, self.fingerprint()) else {
            return Some(Verdict::Held);
        };
        let reason = Reason::IpcHandleKind { handle: Handle(export.fingerprint), is_memory: is_event };
        self.report_with_export(&export, reason, self.world.exporter_confidence(&export))
    }

    pub(super) fn after_free(&mut self) -> Option<Verdict> {
        let export = self.opened_export()?;
        let Some(ended) = export.ended else { return Some(Verdict::Held) };
        if !ended.is_before {
            // The exporter may have ended too late to be the cause of the failure.
            return None;
        }
        let reason = Reason::IpcOpenAfterFree {
            handle: Handle(export.fingerprint),
            owner: export.owner,
            ago: ended.ago,
            is_event: self.call.is_event(),
            with_context: ended.with_context,
        };
        self.report_with_export(&export, reason, self.world.exporter_confidence(&export))
    }

    pub(super) fn exporter_gone(&mut self) -> Option<Verdict> {
        let export = self.opened_export()?;
        let confidence = match self.world.exporter_life(&export) {
            ProcessLife::Runs => return Some(Verdict::Held),
            ProcessLife::Unknown => return None,
            // If the current context certainly explains the failure, report that instead.
            ProcessLife::Vanished
                if Judge { report: &mut |_| {}, ..*self }.second_context() == Some(Verdict::Broken) =>
            {
                return None;
            }
            ProcessLife::Vanished => Confidence::Inferred,
            ProcessLife::Gone => Confidence::Stale,
        };
        let reason = Reason::IpcExporterGone { handle: Handle(export.fingerprint), owner: export.owner };
        self.report_with_export(&export, reason, confidence)
    }

    /// Checks whether another context of this device already has memory of the same exporter open.
    pub(super) fn second_context(&mut self) -> Option<Verdict> {
        let (export, (_, context)) = (self.opened_export()?, self.world.current_context()?);
        let (world, own) = (self.world, self.world.current_device());
        let mut other = None;
        world.each_opening(Object::Memory, &mut |opening| {
            if opening.device != own || opening.context == context || opening.context == 0 {
                return;
            }
            let its = world.find_export(Object::Memory, opening.fingerprint);
            let is_same =
                |its: Export<_>| (its.exporter_id, its.device.ordinal) == (export.exporter_id, export.device.ordinal);
            if its.is_some_and(is_same) {
                other = Some(*opening);
            }
        });
        let Some(other) = other else { return Some(Verdict::Held) };
        let (device, owner) = (self.device_with_uuid(own), export.owner);
        let reason = Reason::IpcSecondContext { context, other: other.context, device, owner };
        let objects = [(role::OPENING, other.object), (role::EXPORT, export.object)];
        self.report_violation(reason, Confidence::Certain, self.handle_argument(), &objects)
    }

    pub(super) fn already_mapped(&mut self) -> Option<Verdict> {
        let fingerprint = self.fingerprint();
        let mut known = None;
        self.world.each_opening(Object::Memory, &mut |opening| {
            known = known.or((opening.fingerprint == fingerprint).then_some(*opening));
        });
        let address = known.map(|opening| opening.address);
        let reason = Reason::IpcAlreadyMapped { handle: Handle(fingerprint), address };
        let confidence = Confidence::certain_if(known.is_some());
        let object = known.map(|opening| (role::OPENING, opening.object));
        self.report_violation(reason, confidence, self.handle_argument(), object.as_slice())
    }

    pub(super) fn device_hidden(&mut self) -> Option<Verdict> {
        let export = self.opened_export()?;
        let (world, to) = (self.world, self.with_own_ordinal(&export.device));
        if to.ordinal >= 0 {
            return Some(Verdict::Held);
        }
        let mut verdict = None;
        let sees = self.visible_devices();
        world.with_device_node(&to.uuid, &mut |node| {
            verdict = match node {
                Some(DeviceNode { is_usable: true, .. }) => Some(Verdict::Held),
                Some(DeviceNode { path: node, .. }) => {
                    self.report_with_export(&export, Reason::IpcDeviceHidden { to, node }, Confidence::Certain)
                }
                None if to.uuid != [0; 16] => {
                    let reason = Reason::IpcDeviceUnseen { to, sees };
                    self.report_with_export(&export, reason, Confidence::Inferred)
                }
                None => None,
            };
        });
        verdict
    }

    /// Returns the number of devices that this process sees, and the UUIDs of the first two.
    fn visible_devices(&self) -> (i32, [[u8; 16]; 2]) {
        (self.world.device_count().unwrap_or(0), [0, 1].map(|ordinal| self.world.uuid(ordinal)))
    }

    pub(super) fn devices_apart(&mut self) -> Option<Verdict> {
        let export = self.opened_export()?;
        let (from, to) = (self.device_with_uuid(self.world.current_device()), self.with_own_ordinal(&export.device));
        if from.ordinal >= 0 && from.ordinal == to.ordinal {
            return Some(Verdict::Held);
        }
        let (is_asked, to, confidence) = match self.world.can_access(from.ordinal, to.ordinal) {
            Some(true) => return Some(Verdict::Held),
            Some(false) => (true, to, Confidence::Certain),
            // A process that sees only one device cannot query access, so the result itself is the evidence.
            None if self.call.has_returned(Result::PEER_ACCESS_UNSUPPORTED) => (false, to, Confidence::Inferred),
            None => return None,
        };
        self.report_with_export(&export, Reason::IpcDevicesApart { from, to, is_asked }, confidence)
    }

    pub(super) fn damaged(&mut self) -> Option<Verdict> {
        if self.opened_export().is_some() {
            return Some(Verdict::Held);
        }
        let (export, is_exact) = self.original_of_opened()?;
        let reason = Reason::IpcDamagedHandle {
            handle: Handle(self.fingerprint()),
            original: Handle(export.fingerprint),
            owner: export.owner,
            is_opened: self.call.result == 0,
            cut: self.world.handle_bytes().and_then(|bytes| untruncated_length(&bytes)),
        };
        let confidence = if is_exact { self.world.exporter_confidence(&export) } else { Confidence::Inferred };
        self.report_with_export(&export, reason, confidence)
    }

    pub(super) fn unknown_handle(&mut self) -> Option<Verdict> {
        if self.opened_export().is_some() {
            return Some(Verdict::Held);
        }
        if !self.world.has_all_exports() {
            return None;
        }
        let (handle, flaw) = (Handle(self.fingerprint()), self.flaw());
        let reason = Reason::IpcUnknownHandle { handle, flaw, is_event: self.call.is_event() };
        let confidence = Confidence::certain_if(flaw == HandleFlaw::Zero);
        self.report_violation(reason, confidence, self.handle_argument(), &[])
    }

    /// Returns the flaw that the bytes of a handle show if no process exported it.
    fn flaw(&self) -> HandleFlaw {
        let (world, is_event) = (self.world, self.call.is_event());
        let Some(bytes) = world.handle_bytes() else { return HandleFlaw::Unknown };
        if bytes == [0; 64] {
            return HandleFlaw::Zero;
        }
        if let Some(length) = untruncated_length(&bytes) {
            return HandleFlaw::Truncated(length);
        }
        if is_event {
            return HandleFlaw::Unknown;
        }
        let named = world.pid_in_handle().filter(|pid| (1..1 << 22).contains(pid));
        let is_exporter = named.is_some_and(|pid| world.exporter_with_pid(Object::Memory, pid).is_some());
        if !is_exporter && let Some((owner, by)) = self.find_shifted_exporter(&bytes) {
            return HandleFlaw::Shifted { owner, by };
        }
        match named {
            None => HandleFlaw::ContainsNoPid,
            Some(pid) if world.is_recorded_elsewhere(pid) => HandleFlaw::RecordedElsewhere(pid),
            Some(pid) => HandleFlaw::ContainsPid { pid, is_running: world.is_running(pid) },
        }
    }

    /// Returns the exporter of the handle that is in the bytes at another offset, and that offset in bytes.
    fn find_shifted_exporter(&self, bytes: &[u8; 64]) -> Option<(Process, u8)> {
        /// Pids below this one count as small. Small numbers occur in bytes of all kinds, so a small pid must
        /// also be in the second place where the driver expects it.
        const SMALL: u32 = 256;
        const CHECKED: usize = 48 - EXPORTER;
        let places = (1..=EXPORTER).flat_map(|by| [(EXPORTER - by, by), (EXPORTER + by, by)]);
        let mut pids = places.filter_map(|(at, by)| Some((read_word(bytes, at)?, at, by as u8)));
        pids.find_map(|(pid, at, by)| {
            let is_pid = (1..1 << 22).contains(&pid) && (pid >= SMALL || read_word(bytes, at + CHECKED) == Some(pid));
            let owner = if is_pid { self.world.exporter_with_pid(Object::Memory, pid) } else { None };
            Some((owner?, by))
        })
    }

    pub(super) fn device_with_uuid(&self, ordinal: i32) -> Device {
        Device { ordinal, uuid: self.world.uuid(ordinal) }
    }

    /// Returns a device of another process with the ordinal that it has in this process.
    fn with_own_ordinal(&self, device: &Device) -> Device {
        let is_known = device.uuid != [0; 16];
        let ordinal = if is_known { self.world.ordinal(device.uuid) } else { -1 };
        Device { ordinal, uuid: device.uuid }
    }
}
