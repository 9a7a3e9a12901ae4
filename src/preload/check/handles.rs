//! Rules about the handle that is opened, for calls that failed.

use super::facts::{Call, device, device_here, device_of, handle, is_own, life_of, process_of};
use super::{Found, Report, Verdict};
use crate::driver::nodes;
use crate::driver::questions;
use crate::job::live;
use crate::job::process::pid_namespace;
use crate::settings::key;
use crate::sys::life::{self, Life};
use cupeer_rules::reason::Reason;
use cupeer_spec::record::live::{Entry, ended, handle_key, kind};
use cupeer_spec::record::slot::finding::{Confidence, role};

/// Hands over what rests on an export.
fn with_export(report: Report, export: &Entry, reason: Reason, confidence: Confidence) -> Verdict {
    report(&Found { reason, confidence, argument: "handle", objects: &[(role::EXPORT, *export)] });
    Verdict::Broken
}

/// How sure something is that rests on what a process has left in the table.
fn by_life(life: Life) -> Confidence {
    match life {
        Life::Runs => Confidence::Certain,
        Life::Gone => Confidence::Stale,
        Life::Unknown => Confidence::Inferred,
    }
}

/// This process exported it.
pub fn own(call: &Call, report: Report) -> Verdict {
    match call.export().filter(is_own) {
        Some(export) => {
            let reason = Reason::IpcOpenInExportingProcess {
                handle: handle(export.fingerprint),
                pid: export.pid,
                address: export.address,
                ago: call.ago(export.monotonic),
                is_event: call.is_event(),
            };
            with_export(report, &export, reason, Confidence::Certain)
        }
        None => Verdict::Held,
    }
}

/// Another process with our pid exported it.
pub fn equal_pids(call: &Call, report: Report) -> Verdict {
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    let (own_ns, export) = (pid_namespace(), call.export());
    if call.named() != Some(pid) || export.as_ref().is_some_and(is_own) {
        return Verdict::Held;
    }
    if export.is_none() && !live::is_on() {
        return Verdict::Unknown;
    }
    let other_ns = export.as_ref().map(|export| export.pid_ns);
    let reason = Reason::IpcEqualPids { pid, own_ns, other_ns };
    match export {
        Some(export) => with_export(report, &export, reason, Confidence::Certain),
        None => Verdict::broken(report, reason, Confidence::Inferred, "handle"),
    }
}

/// It is of the other kind.
pub fn kind(call: &Call, report: Report) -> Verdict {
    let (fingerprint, _) = call.handle();
    match live::find(handle_key(call.kinds().1, fingerprint)).map(|place| place.read()) {
        Some(export) => {
            let reason = Reason::IpcHandleKind { handle: handle(fingerprint), is_memory: call.is_event() };
            with_export(report, &export, reason, by_life(life_of(&export)))
        }
        None => Verdict::Held,
    }
}

/// Its exporter had freed or destroyed it.
pub fn after_free(call: &Call, report: Report) -> Verdict {
    match call.export() {
        // Perhaps too late to be the cause.
        Some(export) if export.ended_at > call.begun => Verdict::Unknown,
        Some(export) if export.ended != 0 => {
            let reason = Reason::IpcOpenAfterFree {
                handle: handle(export.fingerprint),
                owner: process_of(&export),
                ago: call.ago(export.ended_at),
                is_event: call.is_event(),
                with_context: export.ended & ended::WITH_CONTEXT != 0,
            };
            with_export(report, &export, reason, by_life(life_of(&export)))
        }
        Some(_) => Verdict::Held,
        None => Verdict::Unknown,
    }
}

/// Its exporter has exited.
pub fn exporter_gone(call: &Call, report: Report) -> Verdict {
    let Some(export) = call.export() else { return Verdict::Unknown };
    match life_of(&export) {
        Life::Runs => Verdict::Held,
        Life::Unknown => Verdict::Unknown,
        Life::Gone => {
            let reason =
                Reason::IpcExporterGone { handle: handle(export.fingerprint), owner: process_of(&export) };
            with_export(report, &export, reason, Confidence::Stale)
        }
    }
}

/// Another context of this device has memory of the same exporter open.
pub fn second_context(call: &Call, report: Report) -> Verdict {
    let Some(export) = call.export() else { return Verdict::Unknown };
    let (context, own_device) = (questions::context(), questions::device());
    let mut other = None;
    live::each_own(|place| {
        if place.kind() != kind::OPENED_MEMORY {
            return;
        }
        let entry = place.read();
        if entry.device != own_device || entry.peer == context || entry.peer == 0 {
            return;
        }
        let its = live::find(handle_key(kind::EXPORTED_MEMORY, entry.fingerprint)).map(|place| place.read());
        let is_same = |its: &Entry| {
            its.pid == export.pid && its.started == export.started && its.device == export.device
        };
        if its.as_ref().is_some_and(is_same) {
            other = Some(entry);
        }
    });
    let Some(other) = other else { return Verdict::Held };
    report(&Found {
        reason: Reason::IpcSecondContext {
            context,
            other: other.peer,
            device: device(own_device),
            owner: process_of(&export),
        },
        confidence: Confidence::Certain,
        argument: "handle",
        objects: &[(role::OPENING, other), (role::EXPORT, export)],
    });
    Verdict::Broken
}

/// It is open here already.
pub fn already_mapped(call: &Call, report: Report) -> Verdict {
    let (fingerprint, _) = call.handle();
    let mut opening = None;
    live::each_own(|place| {
        if place.kind() == kind::OPENED_MEMORY {
            let entry = place.read();
            opening = opening.or((entry.fingerprint == fingerprint).then_some((role::OPENING, entry)));
        }
    });
    report(&Found {
        reason: Reason::IpcAlreadyMapped {
            handle: handle(fingerprint),
            address: opening.map(|(_, entry)| entry.address),
        },
        confidence: if opening.is_some() { Confidence::Certain } else { Confidence::Inferred },
        argument: "handle",
        objects: opening.as_slice(),
    });
    Verdict::Broken
}

/// This process may not use the exporter's device.
pub fn device_hidden(call: &Call, report: Report) -> Verdict {
    let Some(export) = call.export() else { return Verdict::Unknown };
    let to = device_here(export.uuid);
    if to.ordinal >= 0 {
        return Verdict::Held;
    }
    let mut verdict = Verdict::Unknown;
    nodes::with_node_of(&export.uuid, |node, is_usable| {
        verdict = if is_usable {
            Verdict::Held
        } else {
            with_export(&mut *report, &export, Reason::IpcDeviceHidden { to, node }, Confidence::Certain)
        };
    });
    verdict
}

/// The current device cannot reach the exporter's.
pub fn devices_apart(call: &Call, report: Report) -> Verdict {
    let Some(export) = call.export() else { return Verdict::Unknown };
    let (from, to) = (device(questions::device()), device_here(export.uuid));
    if from.ordinal >= 0 && from.ordinal == to.ordinal {
        return Verdict::Held;
    }
    match questions::can_access(from.ordinal, to.ordinal) {
        Some(true) => Verdict::Held,
        Some(false) => {
            let reason = Reason::IpcDevicesApart { from, to, is_asked: true };
            with_export(report, &export, reason, Confidence::Certain)
        }
        // With one visible device a process cannot ask; a refusal for just this reason says it.
        None if call.result == cupeer_spec::results::Result::PEER_ACCESS_UNSUPPORTED as i32 => {
            let to = device_of(&export);
            let to = cupeer_rules::reason::Device { ordinal: -1, ..to };
            with_export(
                report,
                &export,
                Reason::IpcDevicesApart { from, to, is_asked: false },
                Confidence::Inferred,
            )
        }
        None => Verdict::Unknown,
    }
}

/// The export of which these bytes are a damaged copy: what the driver checks of them is the same, or else only the
/// rest is, which several handles of a process may have in common.
pub fn original(call: &Call) -> Option<Entry> {
    let (fingerprint, checked) = call.handle();
    let (head, mut same, mut alike) = (call.head(), None, None);
    live::each(|place| {
        if place.kind() == call.kinds().0 {
            let entry = place.read();
            if entry.checked == checked && entry.fingerprint != fingerprint {
                same = Some(entry);
            } else if entry.head == head && head != 0 {
                alike = Some(entry);
            }
        }
    });
    same.or(alike)
}

/// Its bytes were changed.
pub fn damaged(call: &Call, report: Report) -> Verdict {
    if call.export().is_some() {
        return Verdict::Held;
    }
    match original(call) {
        Some(export) => {
            let reason = Reason::IpcDamagedHandle {
                handle: handle(call.handle().0),
                original: handle(export.fingerprint),
                owner: process_of(&export),
                is_opened: false,
            };
            let is_same = export.checked == call.handle().1;
            let confidence = if is_same { by_life(life_of(&export)) } else { Confidence::Inferred };
            with_export(report, &export, reason, confidence)
        }
        None => Verdict::Unknown,
    }
}

/// Nobody exported it.
pub fn unknown(call: &Call, report: Report) -> Verdict {
    if call.export().is_some() {
        return Verdict::Held;
    }
    if !live::is_on() {
        return Verdict::Unknown;
    }
    let (fingerprint, _) = call.handle();
    let is_zero = fingerprint == key::fingerprint(&[0; 64]);
    let named = call.named().filter(|pid| !call.is_event() && (1..1 << 22).contains(pid));
    let runs = named.map(life::exists);
    let reason = Reason::IpcUnknownHandle {
        handle: handle(fingerprint),
        is_zero,
        named,
        runs,
        is_event: call.is_event(),
    };
    let confidence = if is_zero { Confidence::Certain } else { Confidence::Inferred };
    Verdict::broken(report, reason, confidence, "handle")
}
