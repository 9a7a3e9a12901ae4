//! Rules about access between contexts, for calls that failed.

use super::facts::{Call, device, is_own, life_of};
use super::{Found, Report, Verdict};
use crate::driver::questions;
use crate::job::live;
use crate::sys::life::Life;
use cupeer_rules::reason::Reason;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{kind, own_key};
use cupeer_spec::record::slot::finding::{Confidence, role};
use cupeer_spec::results::Result;

/// Both sides are one device.
pub fn same_device(call: &Call, report: Report) -> Verdict {
    if matches!(call.id, FnId::cuDeviceGetP2PAttribute | FnId::cuDeviceGetP2PAtomicCapabilities) {
        let (from, to) = (call.int("srcDevice"), call.int("dstDevice"));
        let reason = Reason::PeerSameDevice { device: device(from), context: None, is_current: false };
        return Verdict::when(from == to, report, "dstDevice", reason);
    }
    let (current, peer) = (questions::context(), call.number("peerContext"));
    let own = questions::device();
    let is_current = current != 0 && current == peer;
    // Only these results say that the pointer is a context, of which may be asked.
    let is_context = [Result::PEER_ACCESS_UNSUPPORTED, Result::PEER_ACCESS_NOT_ENABLED]
        .iter()
        .any(|r| *r as i32 == call.result);
    if !is_current && !is_context {
        return Verdict::Unknown;
    }
    let is_same = is_current || own >= 0 && questions::device_of(peer) == own;
    let reason = Reason::PeerSameDevice { device: device(own), context: Some(peer), is_current };
    Verdict::when(is_same, report, "peerContext", reason)
}

/// The peer context is none, or gone.
pub fn context_invalid(call: &Call, report: Report) -> Verdict {
    let context = call.number("peerContext");
    let reason = Reason::PeerContextInvalid { context };
    if context == 0 || call.result == Result::CONTEXT_IS_DESTROYED as i32 {
        return Verdict::broken(report, reason, Confidence::Certain, "peerContext");
    }
    // Asking about a pointer that is no context crashes.
    Verdict::Unknown
}

/// The device of the current context, and that of the peer context, which the driver took for one.
fn both(call: &Call) -> (i32, i32) {
    (questions::device(), questions::device_of(call.number("peerContext")))
}

/// Access is there already.
pub fn already_enabled(call: &Call, report: Report) -> Verdict {
    let (from, to) = both(call);
    let known =
        live::find(own_key(live::own(), kind::PEER, questions::context(), call.number("peerContext")));
    let known = known.map(|place| place.read());
    let ago = known.as_ref().and_then(|entry| call.ago(entry.monotonic));
    let objects = known.map(|entry| [(role::ENABLING, entry)]);
    report(&Found {
        reason: Reason::PeerAlreadyEnabled { from: device(from), to: device(to), ago },
        confidence: Confidence::Certain,
        argument: "peerContext",
        objects: objects.as_ref().map_or(&[], |objects| &objects[..]),
    });
    Verdict::Broken
}

/// There is no access to take back.
pub fn not_enabled(call: &Call, report: Report) -> Verdict {
    let (from, to) = both(call);
    let (context, peer) = (questions::context(), call.number("peerContext"));
    let reverse = live::find(own_key(live::own(), kind::PEER, peer, context)).is_some();
    let reason = Reason::PeerNotEnabled { from: device(from), to: device(to), reverse };
    Verdict::broken(report, reason, Confidence::Certain, "peerContext")
}

/// The devices cannot reach each other.
pub fn unreachable(call: &Call, report: Report) -> Verdict {
    let (from, to) = both(call);
    match questions::can_access(from, to) {
        Some(can) => {
            let reason = Reason::PeerUnreachable { from: device(from), to: device(to) };
            Verdict::when(!can, report, "peerContext", reason)
        }
        None => Verdict::Unknown,
    }
}

/// The device has no room for another peer: who has the others is in the table.
pub fn limit(report: Report) -> Verdict {
    let own = device(questions::device());
    let (mut known, mut processes, mut first) = (0, 0, None);
    // As many as a device can have peers, and more.
    let mut seen = [0; 64];
    let mut confidence = Confidence::Certain;
    live::each(|place| {
        if place.kind() != kind::PEER {
            return;
        }
        let entry = place.read();
        let is_of_device = if is_own(&entry) { entry.device == own.ordinal } else { entry.uuid == own.uuid };
        let life = if is_of_device { life_of(&entry) } else { Life::Gone };
        if life == Life::Gone {
            return;
        }
        if life == Life::Unknown {
            confidence = Confidence::Inferred;
        }
        known += 1;
        first.get_or_insert((role::ENABLING, entry));
        let who = entry.word >> 8;
        if let Some(place) = seen.iter_mut().find(|seen| [0, who].contains(seen)) {
            processes += u64::from(*place == 0);
            *place = who;
        }
    });
    report(&Found {
        reason: Reason::PeerLimit { device: own, known, processes },
        confidence,
        argument: "",
        objects: first.as_slice(),
    });
    Verdict::Broken
}
