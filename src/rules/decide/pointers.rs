//! Rules about objects that a failed call tried to export, close, or free.

use super::{ClosedBy, ClosedHandle, Judge, Opening, PointerAttributes, Verdict, World};
use crate::Confidence;
use crate::reason::{Handle, MemoryKind, Process, Reason};
use cupeer_spec::effect::Object;
use cupeer_spec::record::slot::finding::role;

impl PointerAttributes {
    /// Returns true if, according to the driver's attributes, the memory was opened from another process: it
    /// belongs to a context, and cannot be exported.
    fn is_import(&self) -> bool {
        self.is_device && !self.is_exportable && !self.is_managed && self.pool == 0 && self.context != 0
    }

    fn kind(&self) -> MemoryKind {
        match self {
            PointerAttributes { is_managed: true, .. } => MemoryKind::Managed,
            PointerAttributes { is_device: false, .. } => MemoryKind::Host,
            PointerAttributes { pool: 1.., .. } => MemoryKind::Pool,
            PointerAttributes { context: 0, .. } => MemoryKind::Virtual,
            _ => MemoryKind::Other,
        }
    }
}

/// Returns the settings of allocators that select a kind of memory, each after its environment variable.
fn allocator_settings(kind: MemoryKind) -> &'static [&'static str] {
    match kind {
        MemoryKind::Virtual => {
            &["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "PYTORCH_ALLOC_CONF=expandable_segments:True"]
        }
        MemoryKind::Pool => &[
            "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",
            "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync",
            "JULIA_CUDA_MEMORY_POOL=cuda",
        ],
        _ => &[],
    }
}

/// Returns true if the value of an environment variable contains a setting, in upper or lower case.
fn contains_setting(value: &str, setting: &str) -> bool {
    value.as_bytes().windows(setting.len()).any(|part| part.eq_ignore_ascii_case(setting.as_bytes()))
}

impl<W: World> Judge<'_, W> {
    /// Returns the pointer, the index of its argument, and the open handle of this process whose memory
    /// contains the pointer.
    fn pointer_and_opening(&self) -> (u64, usize, Option<Opening<W::Object>>) {
        let spec = self.call.function.spec();
        let by = spec.exports().map(|shared| shared.by).or(spec.closes().map(|named| named.by));
        let index = by.or(spec.ends().map(|end| end.by)).unwrap_or(0);
        let address = self.call.number_at(index);
        (address, index, self.world.opening_at(self.call.object_kind(), address))
    }

    pub(super) fn memory_kind(&mut self) -> Option<Verdict> {
        let (address, argument, opening) = self.pointer_and_opening();
        let pointer = self.world.pointer_attributes(address)?;
        if !pointer.is_known || pointer.is_exportable || opening.is_some() || pointer.is_import() {
            return Some(Verdict::Held);
        }
        let (kind, world, mut because) = (pointer.kind(), self.world, None);
        for text in allocator_settings(kind) {
            let Some((name, setting)) = text.split_once('=') else { continue };
            world.with_variable(name, &mut |value| {
                because = because.or(value.filter(|value| contains_setting(value, setting)).map(|_| *text));
            });
        }
        let reason = Reason::IpcMemoryKind { address, kind, handle_types: pointer.handle_types, because };
        self.report_if(true, argument, reason)
    }

    pub(super) fn pointer_unknown(&mut self) -> Option<Verdict> {
        let (address, argument, _) = self.pointer_and_opening();
        let is_unknown = match self.world.pointer_attributes(address) {
            _ if address == 0 => true,
            Some(pointer) => !pointer.is_known,
            None => return None,
        };
        self.report_if(is_unknown, argument, Reason::IpcPointerUnknown { address })
    }

    /// Returns the exporter of an open handle, if known.
    fn exporter_of(&self, opening: &Opening<W::Object>) -> Option<(Process, W::Object)> {
        let export = self.world.find_export(self.call.object_kind(), opening.fingerprint)?;
        Some((export.owner, export.object))
    }

    pub(super) fn reexport(&mut self) -> Option<Verdict> {
        let ((address, argument, opening), is_event) = (self.pointer_and_opening(), self.call.is_event());
        let is_import = || self.world.pointer_attributes(address).is_some_and(|pointer| pointer.is_import());
        if opening.is_none() && (is_event || !is_import()) {
            return Some(Verdict::Held);
        }
        let export = opening.and_then(|opening| self.exporter_of(&opening));
        let reason = Reason::IpcReexport { address, is_event, owner: export.map(|(owner, _)| owner) };
        let objects = opening.map(|opening| (role::OPENING, opening.object));
        match (objects, export) {
            (Some(opening), Some((_, export))) => {
                self.report_violation(reason, Confidence::Certain, argument, &[opening, (role::EXPORT, export)])
            }
            _ => self.report_violation(reason, Confidence::Certain, argument, objects.as_slice()),
        }
    }

    pub(super) fn event_flags(&mut self) -> Option<Verdict> {
        let (event, argument, _) = self.pointer_and_opening();
        // The driver's message tells a wrong context apart from an invalid event.
        let message = self.world.driver_message();
        let is_said = message.contains("interprocess");
        if !is_said && !message.is_empty() {
            return Some(Verdict::Held);
        }
        let confidence = Confidence::certain_if(is_said);
        self.report_violation(Reason::IpcEventFlags { event }, confidence, argument, &[])
    }

    pub(super) fn event_context(&mut self) -> Option<Verdict> {
        /// Largest stream handle that is a constant of cuda.h: the legacy default stream is 1, the per-thread
        /// one is 2. These streams belong to the current context.
        const LAST_DEFAULT: u64 = 2;
        let spec = self.call.function.spec();
        let (by, stream) = (self.expect_in_table(spec.records())?, self.expect_in_table(spec.stream_argument())?);
        let event = self.call.number_at(by);
        let opening = self.world.opening_at(Object::Event, event).filter(|opening| opening.context != 0);
        let (opening, (_, current)) = (opening?, self.world.current_context()?);
        let is_default = self.call.number_at(stream) <= LAST_DEFAULT;
        if is_default && (current == opening.context || current == 0) {
            return Some(Verdict::Held);
        }
        let (home, current) =
            (self.device_with_uuid(opening.device), self.device_with_uuid(self.world.current_device()));
        let reason = Reason::IpcEventContext { event, home, current: is_default.then_some(current) };
        let confidence = Confidence::certain_if(is_default);
        self.report_violation(reason, confidence, by, &[(role::OPENING, opening.object)])
    }

    /// Checks for an event and a stream of different contexts. The driver knows both, so nothing else can be
    /// wrong.
    pub(super) fn other_context(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        let (by, stream) = (self.expect_in_table(spec.records())?, self.expect_in_table(spec.stream_argument())?);
        let (event, stream) = (self.call.number_at(by), self.call.number_at(stream));
        let current = self.world.device_of_stream(stream)?;
        match self.world.is_event(event) {
            Some(true) => {}
            Some(false) => return Some(Verdict::Held),
            None => return None,
        }
        let others = self.world.devices_with_contexts() & !(1 << (current & 63));
        let home = others.is_power_of_two().then(|| self.device_with_uuid(others.trailing_zeros() as i32));
        let reason = Reason::EventContext { event, current: self.device_with_uuid(current), home };
        self.report_violation(reason, Confidence::Certain, by, &[])
    }

    pub(super) fn closed_twice(&mut self) -> Option<Verdict> {
        let (address, argument, opening) = self.pointer_and_opening();
        let is_open = opening.is_some_and(|opening| opening.address == address);
        let Some(closed) = self.world.closed_at(address).filter(|_| !is_open) else {
            return Some(Verdict::Held);
        };
        let ClosedHandle { fingerprint, ago, with_context, by } = closed;
        let by = by.as_ref().map(ClosedBy::site);
        let reason = Reason::IpcClosedTwice { address, ago, handle: Handle(fingerprint), with_context, by };
        self.report_if(true, argument, reason)
    }

    pub(super) fn close_address(&mut self) -> Option<Verdict> {
        let (address, argument, opening) = self.pointer_and_opening();
        if !self.world.has_all_exports() {
            return None;
        }
        if opening.is_some_and(|opening| opening.address == address) {
            return Some(Verdict::Held);
        }
        let is_exportable = || self.world.pointer_attributes(address).is_some_and(|pointer| pointer.is_exportable);
        let is_own = opening.is_none() && is_exportable();
        let inside = opening.map(|opening| opening.address);
        let elsewhere = match (inside, is_own) {
            (None, false) => self.world.opener_elsewhere(self.call.object_kind(), address),
            _ => None,
        };
        let object = opening.map(|opening| opening.object).or(elsewhere.map(|(_, object)| object));
        let object = object.map(|object| (role::OPENING, object));
        let elsewhere = elsewhere.map(|(process, _)| process);
        let reason = Reason::IpcCloseAddress { address, inside, is_own, elsewhere };
        self.report_violation(reason, Confidence::Certain, argument, object.as_slice())
    }

    pub(super) fn free_import(&mut self) -> Option<Verdict> {
        let (address, argument, opening) = self.pointer_and_opening();
        let Some(opening) = opening.filter(|_| self.call.object_kind() == Object::Memory) else {
            return Some(Verdict::Held);
        };
        let owner = self.exporter_of(&opening).map(|(owner, _)| owner);
        let reason = Reason::IpcFreeImport { address, owner, handle: Handle(opening.fingerprint) };
        self.report_violation(reason, Confidence::Certain, argument, &[(role::OPENING, opening.object)])
    }
}
