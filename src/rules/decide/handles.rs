//! Rules about the handle that a failed call tried to open.

use super::world::word;
use super::{Export, Judge, Life, Node, Verdict, World};
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
        self.call.handle().map_or(0, |(_, fingerprint, _)| fingerprint)
    }

    /// Returns the index of the argument with the handle that the call opens.
    pub(super) fn handle(&self) -> Option<usize> {
        self.in_table(self.call.function.spec().opens()).map(|shared| shared.handle)
    }

    /// Returns the export of the handle that the call opens; `None` if it is unknown.
    pub(super) fn export(&self) -> Option<Export<W::Object>> {
        self.world.export(self.call.object(), self.fingerprint())
    }

    /// Returns the export whose handle was opened in a damaged copy, and true if this is certain.
    pub(super) fn original(&self) -> Option<(Export<W::Object>, bool)> {
        let (shared, fingerprint, checked) = self.call.handle()?;
        self.world.original(shared.object, fingerprint, checked)
    }

    /// Reports a broken rule that concerns an export.
    pub(super) fn with_export(
        &mut self,
        export: &Export<W::Object>,
        reason: Reason,
        confidence: Confidence,
    ) -> Option<Verdict> {
        self.broken(reason, confidence, self.handle(), &[(role::EXPORT, export.object)])
    }

    pub(super) fn ipc_flags(&mut self) -> Option<Verdict> {
        self.flags(|flags| Reason::IpcFlags { flags, is_taken: false })
    }

    pub(super) fn exported_here(&mut self) -> Option<Verdict> {
        let Some(export) = self.export().filter(|export| export.is_own) else { return Some(Verdict::Held) };
        let reason = Reason::IpcOpenInExportingProcess {
            handle: Handle(export.fingerprint),
            pid: export.owner.pid,
            address: export.address,
            ago: export.ago,
            is_event: self.call.is_event(),
        };
        self.with_export(&export, reason, Confidence::Certain)
    }

    pub(super) fn equal_pids(&mut self) -> Option<Verdict> {
        let ((pid, own_ns), export) = (self.world.process(), self.export());
        // The bytes of a memory handle contain the pid of its exporter, in the exporter's own namespace.
        let named = self.world.named_pid().or(export.map(|export| export.owner.pid));
        if named != Some(pid) || export.is_some_and(|export| export.is_own) {
            return Some(Verdict::Held);
        }
        let other_ns = export.map(|export| export.pid_ns);
        let reason = Reason::IpcEqualPids { pid, own_ns, other_ns };
        match export {
            Some(export) => self.with_export(&export, reason, Confidence::Certain),
            None if self.world.knows_all() => self.broken(reason, Confidence::Inferred, self.handle(), &[]),
            None => None,
        }
    }

    pub(super) fn other_kind(&mut self) -> Option<Verdict> {
        let is_event = self.call.is_event();
        let other = if is_event { Object::Memory } else { Object::Event };
        let Some(export) = self.world.export(other, self.fingerprint()) else { return Some(Verdict::Held) };
        let reason = Reason::IpcHandleKind { handle: Handle(export.fingerprint), is_memory: is_event };
        self.with_export(&export, reason, self.world.trust(&export))
    }

    pub(super) fn after_free(&mut self) -> Option<Verdict> {
        let export = self.export()?;
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
        self.with_export(&export, reason, self.world.trust(&export))
    }

    pub(super) fn exporter_gone(&mut self) -> Option<Verdict> {
        let export = self.export()?;
        let confidence = match self.world.life(&export) {
            Life::Runs => return Some(Verdict::Held),
            Life::Unknown => return None,
            // If the current context certainly explains the failure, report that instead.
            Life::Silent
                if Judge { report: &mut |_| {}, ..*self }.second_context() == Some(Verdict::Broken) =>
            {
                return None;
            }
            Life::Silent => Confidence::Inferred,
            Life::Gone => Confidence::Stale,
        };
        let reason = Reason::IpcExporterGone { handle: Handle(export.fingerprint), owner: export.owner };
        self.with_export(&export, reason, confidence)
    }

    /// Checks whether another context of this device already has memory of the same exporter open.
    pub(super) fn second_context(&mut self) -> Option<Verdict> {
        let (export, (_, context)) = (self.export()?, self.world.current()?);
        let (world, own) = (self.world, self.world.device());
        let mut other = None;
        world.each_opening(Object::Memory, &mut |opening| {
            if opening.device != own || opening.context == context || opening.context == 0 {
                return;
            }
            let its = world.export(Object::Memory, opening.fingerprint);
            let is_same =
                |its: Export<_>| (its.who, its.device.ordinal) == (export.who, export.device.ordinal);
            if its.is_some_and(is_same) {
                other = Some(*opening);
            }
        });
        let Some(other) = other else { return Some(Verdict::Held) };
        let (device, owner) = (self.device(own), export.owner);
        let reason = Reason::IpcSecondContext { context, other: other.context, device, owner };
        let objects = [(role::OPENING, other.object), (role::EXPORT, export.object)];
        self.broken(reason, Confidence::Certain, self.handle(), &objects)
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
        self.broken(reason, confidence, self.handle(), object.as_slice())
    }

    pub(super) fn device_hidden(&mut self) -> Option<Verdict> {
        let export = self.export()?;
        let (world, to) = (self.world, self.as_numbered_here(&export.device));
        if to.ordinal >= 0 {
            return Some(Verdict::Held);
        }
        let mut verdict = None;
        let sees = self.visible_devices();
        world.with_node(&to.uuid, &mut |node| {
            verdict = match node {
                Some(Node { is_usable: true, .. }) => Some(Verdict::Held),
                Some(Node { path: node, .. }) => {
                    self.with_export(&export, Reason::IpcDeviceHidden { to, node }, Confidence::Certain)
                }
                None if to.uuid != [0; 16] => {
                    let reason = Reason::IpcDeviceUnseen { to, sees };
                    self.with_export(&export, reason, Confidence::Inferred)
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
        let export = self.export()?;
        let (from, to) = (self.device(self.world.device()), self.as_numbered_here(&export.device));
        if from.ordinal >= 0 && from.ordinal == to.ordinal {
            return Some(Verdict::Held);
        }
        let (is_asked, to, confidence) = match self.world.can_access(from.ordinal, to.ordinal) {
            Some(true) => return Some(Verdict::Held),
            Some(false) => (true, to, Confidence::Certain),
            // A process that sees only one device cannot query access, so the result itself is the evidence.
            None if self.call.is(Result::PEER_ACCESS_UNSUPPORTED) => (false, to, Confidence::Inferred),
            None => return None,
        };
        self.with_export(&export, Reason::IpcDevicesApart { from, to, is_asked }, confidence)
    }

    pub(super) fn damaged(&mut self) -> Option<Verdict> {
        if self.export().is_some() {
            return Some(Verdict::Held);
        }
        let (export, is_exact) = self.original()?;
        let reason = Reason::IpcDamagedHandle {
            handle: Handle(self.fingerprint()),
            original: Handle(export.fingerprint),
            owner: export.owner,
            is_opened: self.call.result == 0,
            cut: self.world.bytes().and_then(|bytes| untruncated_length(&bytes)),
        };
        let confidence = if is_exact { self.world.trust(&export) } else { Confidence::Inferred };
        self.with_export(&export, reason, confidence)
    }

    pub(super) fn unknown_handle(&mut self) -> Option<Verdict> {
        if self.export().is_some() {
            return Some(Verdict::Held);
        }
        if !self.world.knows_all() {
            return None;
        }
        let (handle, flaw) = (Handle(self.fingerprint()), self.flaw());
        let reason = Reason::IpcUnknownHandle { handle, flaw, is_event: self.call.is_event() };
        let confidence = Confidence::certain_if(flaw == HandleFlaw::Zero);
        self.broken(reason, confidence, self.handle(), &[])
    }

    /// Returns the flaw that the bytes of a handle show if no process exported it.
    fn flaw(&self) -> HandleFlaw {
        let (world, is_event) = (self.world, self.call.is_event());
        let Some(bytes) = world.bytes() else { return HandleFlaw::Unseen };
        if bytes == [0; 64] {
            return HandleFlaw::Zero;
        }
        if let Some(length) = untruncated_length(&bytes) {
            return HandleFlaw::Cut(length);
        }
        if is_event {
            return HandleFlaw::Unseen;
        }
        let named = world.named_pid().filter(|pid| (1..1 << 22).contains(pid));
        let is_exporter = named.is_some_and(|pid| world.exporter(Object::Memory, pid).is_some());
        if !is_exporter && let Some((owner, by)) = self.shifted(&bytes) {
            return HandleFlaw::Shifted { owner, by };
        }
        match named {
            None => HandleFlaw::NamesNobody,
            Some(pid) if world.is_recorded_elsewhere(pid) => HandleFlaw::Elsewhere(pid),
            Some(pid) => HandleFlaw::Names { pid, runs: world.runs(pid) },
        }
    }

    /// Returns the exporter of the handle that is in the bytes at another offset, and that offset in bytes.
    fn shifted(&self, bytes: &[u8; 64]) -> Option<(Process, u8)> {
        /// Largest pid that counts as small. Small numbers occur in bytes of all kinds, so a small pid must
        /// also be in the second place where the driver expects it.
        const SMALL: u32 = 256;
        const CHECKED: usize = 48 - EXPORTER;
        let places = (1..=EXPORTER).flat_map(|by| [(EXPORTER - by, by), (EXPORTER + by, by)]);
        let mut pids = places.filter_map(|(at, by)| Some((word(bytes, at)?, at, by as u8)));
        pids.find_map(|(pid, at, by)| {
            let is_pid =
                (1..1 << 22).contains(&pid) && (pid >= SMALL || word(bytes, at + CHECKED) == Some(pid));
            let owner = if is_pid { self.world.exporter(Object::Memory, pid) } else { None };
            Some((owner?, by))
        })
    }

    pub(super) fn device(&self, ordinal: i32) -> Device {
        Device { ordinal, uuid: self.world.uuid(ordinal) }
    }

    /// Returns a device of another process with the ordinal that it has in this process.
    fn as_numbered_here(&self, device: &Device) -> Device {
        let is_known = device.uuid != [0; 16];
        let ordinal = if is_known { self.world.ordinal(device.uuid) } else { -1 };
        Device { ordinal, uuid: device.uuid }
    }
}
