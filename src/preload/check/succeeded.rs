//! Rules about calls that succeeded: what is undefined, what works by chance, what is worth knowing.

use super::facts::{Call, device, handle, importers, is_own, process_of};
use super::handles::original;
use super::{Found, Report};
use crate::driver::questions;
use crate::job::closed;
use crate::job::live;
use crate::sys::caller::Caller;
use core::sync::atomic::Ordering::Acquire;
use cupeer_rules::reason::Reason;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{Entry, LIBRARY, handle_key, kind, library_name, own_key};
use cupeer_spec::record::slot::finding::{Confidence, role};

/// Looks at a call that succeeded, before the live table learns of it.
pub fn look(call: &Call, report: Report) {
    match call.id {
        FnId::cuIpcGetMemHandle => exported(call, report),
        FnId::cuIpcOpenMemHandle | FnId::cuIpcOpenMemHandle_v2 => opened(call, report),
        FnId::cuIpcOpenEventHandle => damaged(call, report),
        FnId::cuCtxEnablePeerAccess => enabled(call, report),
        _ => match call.id.spec().ends().map(|end| end.object) {
            Some(Object::Memory | Object::Event) => freed(call, report),
            Some(Object::Context | Object::Primary) if call.about.ended != 0 => context_ended(call, report),
            _ => {}
        },
    }
}

/// Reports something that is known for sure, with one object.
fn certain(report: Report, reason: Reason, argument: &'static str, objects: &[(u32, Entry)]) {
    report(&Found { reason, confidence: Confidence::Certain, argument, objects });
}

fn exported(call: &Call, report: Report) {
    let address = call.number("dptr");
    if let Some((base, bytes)) = call.about.memory.filter(|(base, _)| *base != address) {
        certain(report, Reason::IpcInteriorPointer { address, base, bytes }, "dptr", &[]);
    }
}

fn opened(call: &Call, report: Report) {
    // Its last four bytes, behind the output and the two fingerprints of the handle.
    let flags = (questions::word(call.args, 20) >> 32) as u32;
    if flags != 1 {
        certain(report, Reason::IpcFlags { flags, is_taken: true }, "Flags", &[]);
    }
    // What was open already was looked at when it was opened first.
    let key = own_key(live::own(), kind::OPENED_MEMORY, questions::word(call.args, 0), 0);
    if let Some(place) = live::find_where(key, |place| place.origin().0 == call.handle().0) {
        // One place in the runtime calls for everybody.
        if place.origin().1 != call.caller as u64 || Caller::at(call.caller).is_runtime() {
            opened_again(call, place, report);
        }
        return;
    }
    let Some(export) = call.export() else { return damaged(call, report) };
    let owner = process_of(&export);
    let handle = handle(export.fingerprint);
    if export.inside != 0 {
        report(&Found {
            reason: Reason::IpcOffsetNotAdded { handle, offset: export.inside, owner },
            confidence: Confidence::Inferred,
            argument: "pdptr",
            objects: &[(role::EXPORT, export)],
        });
    }
    let own = device(questions::device());
    let is_known = own.uuid != [0; 16] && export.uuid != [0; 16];
    if is_known && own.ordinal == export.device && own.uuid != export.uuid {
        report(&Found {
            reason: Reason::IpcDeviceOrder {
                ordinal: own.ordinal,
                here: own.uuid,
                there: export.uuid,
                owner,
            },
            confidence: Confidence::Inferred,
            argument: "handle",
            objects: &[(role::EXPORT, export)],
        });
    }
}

/// It is open already, from another place.
fn opened_again(call: &Call, place: live::Place, report: Report) {
    let before = place.read();
    let file = Caller::of(call.caller, call.id, true).file();
    if file != before.library {
        let (handle, count) = (handle(before.fingerprint), place.count().load(Acquire) + 1);
        let (first, second) = (text(&before.library), text(&file));
        let reason = Reason::IpcSecondLibrary { handle, first, second, count };
        certain(report, reason, "handle", &[(role::OPENING, before)]);
    }
}

/// The file name of a library as a text.
fn text(library: &[u8; LIBRARY]) -> &str {
    library_name(library).utf8_chunks().next().map_or("?", |chunk| chunk.valid())
}

/// The driver opened bytes that nobody exported: those that it does not look at were changed.
fn damaged(call: &Call, report: Report) {
    if call.export().is_some() {
        return;
    }
    if let Some(export) = original(call).filter(|export| export.checked == call.handle().1) {
        let reason = Reason::IpcDamagedHandle {
            handle: handle(call.handle().0),
            original: handle(export.fingerprint),
            owner: process_of(&export),
            is_opened: true,
        };
        certain(report, reason, "handle", &[(role::EXPORT, export)]);
    }
}

/// Looks at a close that succeeded, of something that is not open as far as the live table knows.
pub fn closed_unknown(call: &Call, report: Report) {
    let address = call.number("dptr");
    if closed::find(address).is_some() {
        report(&Found {
            reason: Reason::DriverContradictsClose { address },
            confidence: Confidence::Inferred,
            argument: "dptr",
            objects: &[],
        });
    }
}

fn enabled(call: &Call, report: Report) {
    let (context, peer) = (questions::context(), call.number("peerContext"));
    let key = own_key(live::own(), kind::PEER, context, peer);
    // One that another thread is switching off at this moment is not counted.
    if let Some(place) = live::find_where(key, |place| place.count().load(Acquire) > 0) {
        let (from, to) = (device(questions::device()), device(questions::device_of(peer)));
        report(&Found {
            reason: Reason::DriverContradictsEnable { from, to },
            confidence: Confidence::Inferred,
            argument: "peerContext",
            objects: &[(role::ENABLING, place.read())],
        });
    }
}

/// Memory was freed or an event destroyed that this process had exported.
fn freed(call: &Call, report: Report) {
    let Some(fingerprint) = call.taken else { return };
    let (export_kind, _) = call.kinds();
    let Some(place) = live::find(handle_key(export_kind, fingerprint)).filter(|place| place.is_own()) else {
        return;
    };
    if place.count().load(Acquire) == 0 {
        return;
    }
    let (export, open) = (place.read(), importers(export_kind, fingerprint));
    let Some(opening) = open.first else { return };
    let (handle, first) = (handle(fingerprint), process_of(&opening));
    let importers = open.running + open.unknown;
    let reason = if call.is_event() {
        Reason::IpcEventDestroyedWhileOpen { event: export.address, handle, importers, first }
    } else {
        let (address, bytes) = (export.address, export.bytes);
        Reason::IpcFreedWhileOpen { address, bytes, handle, importers, first }
    };
    let argument = if call.is_event() { "hEvent" } else { "dptr" };
    let confidence = if open.running > 0 { Confidence::Certain } else { Confidence::Inferred };
    report(&Found {
        reason,
        confidence,
        argument,
        objects: &[(role::EXPORT, export), (role::OPENING, opening)],
    });
}

/// A context ended: what was exported from it is gone.
fn context_ended(call: &Call, report: Report) {
    let what = match call.id {
        FnId::cuCtxDestroy | FnId::cuCtxDestroy_v2 => "cuCtxDestroy",
        FnId::cuCtxDetach => "the last cuCtxDetach",
        FnId::cuDevicePrimaryCtxReset | FnId::cuDevicePrimaryCtxReset_v2 => {
            "the reset of the primary context"
        }
        _ => "the last release of the primary context",
    };
    // Several handles may be open in the same processes: of these, no more are named than one handle has.
    let (mut handles, mut running, mut importers_of_one) = (0, 0, 0);
    let mut shown = None;
    live::each_own(|place| {
        let is_export = matches!(place.kind(), kind::EXPORTED_MEMORY | kind::EXPORTED_EVENT);
        if !is_export || place.ended().load(Acquire) != 0 || place.count().load(Acquire) == 0 {
            return;
        }
        let export = place.read();
        if export.peer != call.about.ended {
            return;
        }
        let open = importers(export.kind, export.fingerprint);
        if let Some(opening) = open.first {
            handles += 1;
            running += open.running;
            importers_of_one = importers_of_one.max(open.running + open.unknown);
            if shown.is_none() || running == open.running {
                shown = Some((export, opening));
            }
        }
    });
    let Some((export, opening)) = shown else { return };
    debug_assert!(is_own(&export));
    report(&Found {
        reason: Reason::IpcContextEndedWhileOpen {
            what,
            handles,
            importers: importers_of_one,
            first: process_of(&opening),
        },
        confidence: if running > 0 { Confidence::Certain } else { Confidence::Inferred },
        argument: "",
        objects: &[(role::EXPORT, export), (role::OPENING, opening)],
    });
}
