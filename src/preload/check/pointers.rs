//! Rules about what is exported, closed and freed, for calls that failed.

use super::arguments::with_variable;
use super::facts::{Call, handle, process_of};
use super::{Found, Report, Verdict};
use crate::driver::questions::{self, Pointer};
use crate::job::closed;
use crate::job::live;
use cupeer_rules::reason::{MemoryKind, Reason};
use cupeer_spec::record::live::{Entry, handle_key, kind, own_key};
use cupeer_spec::record::slot::finding::{Confidence, role};

/// What of this process's openings an address lies in.
fn opening(address: u64, wanted: u32) -> Option<Entry> {
    if let Some(place) = live::find(own_key(live::own(), wanted, address, 0)) {
        return Some(place.read());
    }
    let mut found = None;
    live::each_own(|place| {
        if place.kind() == wanted && wanted == kind::OPENED_MEMORY {
            let entry = place.read();
            if address.wrapping_sub(entry.address) < entry.bytes {
                found = Some(entry);
            }
        }
    });
    found
}

/// Whether memory was opened from another process, as far as the driver tells: it belongs to a context, and has no
/// handle.
fn is_import(pointer: &Pointer) -> bool {
    pointer.is_device
        && !pointer.is_exportable
        && !pointer.is_managed
        && pointer.pool == 0
        && pointer.context != 0
}

/// The memory is of a kind that has no legacy handle.
pub fn memory_kind(call: &Call, report: Report) -> Verdict {
    let address = call.number("dptr");
    let Some(pointer) = questions::pointer(address) else { return Verdict::Unknown };
    if !pointer.is_known || pointer.is_exportable || opening(address, kind::OPENED_MEMORY).is_some() {
        return Verdict::Held;
    }
    if is_import(&pointer) {
        return Verdict::Held;
    }
    let kind = if pointer.is_managed {
        MemoryKind::Managed
    } else if !pointer.is_device {
        MemoryKind::Host
    } else if pointer.pool != 0 {
        MemoryKind::Pool
    } else if pointer.context == 0 {
        MemoryKind::Virtual
    } else {
        MemoryKind::Other
    };
    because(kind, |because| {
        let reason = Reason::IpcMemoryKind { address, kind, handle_types: pointer.handle_types, because };
        Verdict::broken(&mut *report, reason, Confidence::Certain, "dptr");
    });
    Verdict::Broken
}

/// The variable that is set and makes memory be of a kind.
fn because(kind: MemoryKind, mut work: impl FnMut(Option<&str>)) {
    let wanted: &[(&[u8], &str)] = match kind {
        MemoryKind::Virtual => &[
            (b"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            (b"PYTORCH_ALLOC_CONF", "expandable_segments:True"),
        ],
        MemoryKind::Pool => &[
            (b"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
            (b"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"),
            (b"JULIA_CUDA_MEMORY_POOL", "cuda"),
        ],
        _ => &[],
    };
    for (name, setting) in wanted {
        let mut text = [0u8; 96];
        let mut length = 0;
        with_variable(name, |value| {
            let value = value.unwrap_or_default();
            // Case does not matter to those who read it.
            let is_set =
                value.windows(setting.len()).any(|part| part.eq_ignore_ascii_case(setting.as_bytes()));
            if is_set {
                for (place, byte) in text.iter_mut().zip(name.iter().chain(b"=").chain(setting.as_bytes())) {
                    *place = *byte;
                    length += 1;
                }
            }
        });
        if length > 0 {
            return work(core::str::from_utf8(&text[..length]).ok());
        }
    }
    work(None);
}

/// The pointer lies nowhere.
pub fn unknown(call: &Call, report: Report) -> Verdict {
    let address = call.number("dptr");
    let is_known = address != 0 && questions::pointer(address).is_some_and(|pointer| pointer.is_known);
    Verdict::when(!is_known, report, "dptr", Reason::IpcPointerUnknown { address })
}

/// It came from another process.
pub fn reexport(call: &Call, report: Report) -> Verdict {
    let is_event = call.is_event();
    let (address, argument) =
        if is_event { (call.number("event"), "event") } else { (call.number("dptr"), "dptr") };
    let wanted = if is_event { kind::OPENED_EVENT } else { kind::OPENED_MEMORY };
    let opening = opening(address, wanted);
    if opening.is_none()
        && (is_event || !questions::pointer(address).is_some_and(|pointer| is_import(&pointer)))
    {
        return Verdict::Held;
    }
    let export_kind = if is_event { kind::EXPORTED_EVENT } else { kind::EXPORTED_MEMORY };
    let export = opening.and_then(|opening| live::find(handle_key(export_kind, opening.fingerprint)));
    let export = export.map(|place| place.read());
    let mut objects = [None, None];
    objects[0] = opening.map(|entry| (role::OPENING, entry));
    objects[1] = export.map(|entry| (role::EXPORT, entry));
    let owner = export.as_ref().map(process_of);
    with_objects(&objects, |objects| {
        report(&Found {
            reason: Reason::IpcReexport { address, is_event, owner },
            confidence: Confidence::Certain,
            argument,
            objects,
        });
    });
    Verdict::Broken
}

/// Hands over those objects that are there.
pub fn with_objects(objects: &[Option<(u32, Entry)>; 2], mut work: impl FnMut(&[(u32, Entry)])) {
    match objects {
        [Some(a), Some(b)] => work(&[*a, *b]),
        [Some(one), None] | [None, Some(one)] => work(&[*one]),
        [None, None] => work(&[]),
    }
}

/// The event is not for other processes.
pub fn event_flags(call: &Call, report: Report) -> Verdict {
    let event = call.number("event");
    // The driver's own words tell this from an event that is none.
    let is_said = call.words.contains("interprocess");
    if !is_said && !call.words.is_empty() {
        return Verdict::Held;
    }
    let confidence = if is_said { Confidence::Certain } else { Confidence::Inferred };
    Verdict::broken(report, Reason::IpcEventFlags { event }, confidence, "event")
}

/// It was closed before.
pub fn closed_twice(call: &Call, report: Report) -> Verdict {
    let address = call.number("dptr");
    if live::find_open(kind::OPENED_MEMORY, address).is_some() {
        return Verdict::Held;
    }
    match closed::find(address) {
        Some(last) => {
            let (ago, handle) = (call.ago(last.monotonic), handle(last.fingerprint));
            let reason = Reason::IpcClosedTwice { address, ago, handle, with_context: last.with_context };
            Verdict::broken(report, reason, Confidence::Certain, "dptr")
        }
        None => Verdict::Held,
    }
}

/// It is not what an open returned.
pub fn close_address(call: &Call, report: Report) -> Verdict {
    let address = call.number("dptr");
    if !live::is_on() {
        return Verdict::Unknown;
    }
    let inside = opening(address, kind::OPENED_MEMORY);
    if inside.is_some_and(|entry| entry.address == address) {
        return Verdict::Held;
    }
    let is_own = inside.is_none() && questions::pointer(address).is_some_and(|pointer| pointer.is_exportable);
    let objects = inside.map(|entry| (role::OPENING, entry));
    report(&Found {
        reason: Reason::IpcCloseAddress { address, inside: inside.map(|entry| entry.address), is_own },
        confidence: Confidence::Certain,
        argument: "dptr",
        objects: objects.as_slice(),
    });
    Verdict::Broken
}

/// It belongs to another process.
pub fn free_import(call: &Call, report: Report) -> Verdict {
    let address = call.number("dptr");
    let Some(opening) = opening(address, kind::OPENED_MEMORY) else { return Verdict::Held };
    let export = live::find(handle_key(kind::EXPORTED_MEMORY, opening.fingerprint)).map(|place| place.read());
    report(&Found {
        reason: Reason::IpcFreeImport {
            address,
            owner: export.as_ref().map(process_of),
            handle: handle(opening.fingerprint),
        },
        confidence: Confidence::Certain,
        argument: "dptr",
        objects: &[(role::OPENING, opening)],
    });
    Verdict::Broken
}
