//! What a call opens and ends, told to the live table.

use super::frames::each_frame;
use super::questions::{self, word};
use super::{clock, live, process};
use crate::caller::Caller;
use crate::check::closed;
use crate::{log, settings};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::live::{self as spec, Entry, handle_key, kind, own_key};
use cupeer_spec::record::slot::ARGS;
use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::results::Result;

/// What a call is about to end, taken out of the table before it is forwarded: the address may be somebody else's
/// as soon as the driver has it back.
#[derive(Clone, Copy, Default)]
pub struct Noted {
    /// The fingerprint under which it was exported.
    pub taken: Option<u64>,
    /// The fingerprint of what it closes.
    closing: Option<u64>,
    /// Of a call that opens something, where rules are checked: when it was forwarded, in nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
}

/// From where and when a call was made.
#[derive(Clone, Copy, Default)]
pub struct Made {
    /// Its return address.
    pub caller: usize,
    /// On the record's clock.
    pub start: u64,
    /// The fingerprint of the first bytes of its handle.
    pub head: u64,
    /// The allocation that it is about: its begin and size.
    pub memory: Option<(u64, u64)>,
}

/// Whether a call that frees or destroys ends something that was shared, or may do so.
pub fn matters(id: FnId, args: &[u8; ARGS]) -> bool {
    if process::current().is_none() {
        // Nothing was exported or opened yet.
        return !matches!(id, FnId::cuMemFree_v2 | FnId::cuEventDestroy_v2);
    }
    if !live::is_on() {
        return true;
    }
    let address = word(args, 0);
    let has = |kind| live::find(own_key(live::own(), kind, address, 0)).is_some();
    let owns = live::has_exported() && has(kind::OWNED);
    match id {
        // Freeing what was opened changes nothing, and is looked at where rules are checked.
        FnId::cuMemFree_v2 => owns || is_checked() && live::has_others() && has(kind::OPENED_MEMORY),
        FnId::cuEventDestroy_v2 => owns || live::has_others() && has(kind::OPENED_EVENT),
        _ => true,
    }
}

fn is_checked() -> bool {
    settings::get().check.is_some()
}

/// Looks at a call that is about to be forwarded.
pub fn before(id: FnId, args: &[u8; ARGS]) -> Noted {
    let address = word(args, 0);
    let taken = match id {
        FnId::cuMemFree_v2 | FnId::cuEventDestroy_v2 => {
            live::find(own_key(live::own(), kind::OWNED, address, 0)).and_then(|place| {
                let fingerprint = place.read().fingerprint;
                place.free().then_some(fingerprint)
            })
        }
        _ => None,
    };
    // Another thread may be given the address for something else before the call comes back here.
    let closing = match id {
        FnId::cuIpcCloseMemHandle => begin_to_close(kind::OPENED_MEMORY, address),
        FnId::cuEventDestroy_v2 if taken.is_none() => begin_to_close(kind::OPENED_EVENT, address),
        _ => None,
    };
    let begun = if is_checked() && id.spec().is_in(Group::Open) { log::now() } else { 0 };
    Noted { taken, closing, begun }
}

/// Counts one opening less.
fn begin_to_close(kind: u32, address: u64) -> Option<u64> {
    let place = live::find_open(kind, address)?;
    // An event is closed by its first destruction, whatever the count.
    let less = |count: u32| if kind == kind::OPENED_EVENT { Some(0) } else { count.checked_sub(1) };
    place.count().fetch_update(AcqRel, Acquire, less).ok()?;
    Some(place.origin().0)
}

/// Looks at a call that has returned.
///
/// Says whether it closed something that was open as far as is known, or closed nothing.
pub fn after(id: FnId, args: &[u8; ARGS], result: i32, noted: Noted, made: Made) -> bool {
    if !live::is_on() {
        return true;
    }
    if result != 0 {
        if let Some(fingerprint) = noted.taken {
            owned(word(args, 0), fingerprint);
        }
        if let Some(place) = noted.closing.and_then(|closing| closing_of(id, word(args, 0), closing)) {
            place.count().fetch_add(1, AcqRel);
        }
        if id == FnId::cuCtxEnablePeerAccess && result == Result::PEER_ACCESS_ALREADY_ENABLED as i32 {
            enabled(args, made);
        }
        return true;
    }
    let first = word(args, 0);
    match id {
        FnId::cuIpcGetMemHandle => exported(kind::EXPORTED_MEMORY, args, made),
        FnId::cuIpcGetEventHandle => exported(kind::EXPORTED_EVENT, args, made),
        FnId::cuIpcOpenMemHandle | FnId::cuIpcOpenMemHandle_v2 => opened(kind::OPENED_MEMORY, args, made),
        FnId::cuIpcOpenEventHandle => opened(kind::OPENED_EVENT, args, made),
        FnId::cuIpcCloseMemHandle => return closed(id, first, noted),
        FnId::cuCtxEnablePeerAccess => enabled(args, made),
        FnId::cuCtxDisablePeerAccess => {
            if let Some(place) = live::find(own_key(live::own(), kind::PEER, questions::context(), first)) {
                place.free();
            }
        }
        FnId::cuMemFree_v2 => {
            noted.taken.iter().for_each(|fingerprint| ended(kind::EXPORTED_MEMORY, *fingerprint, 0));
        }
        FnId::cuEventDestroy_v2 => match noted.taken {
            Some(fingerprint) => ended(kind::EXPORTED_EVENT, fingerprint, 0),
            None => _ = closed(id, first, noted),
        },
        FnId::cuCtxDestroy_v2 => all_ended(|entry| entry.address == first || entry.peer == first),
        FnId::cuDevicePrimaryCtxReset_v2 => all_of_device(first as i32),
        FnId::cuDevicePrimaryCtxRelease_v2 if !questions::is_primary_active(first as i32) => {
            all_of_device(first as i32);
        }
        _ => {}
    }
    true
}

/// An entry of this process, with nothing of its own yet.
fn entry(kind: u32, key: u64, made: Made) -> Entry {
    let (pid, image, pid_ns, started) = process::current().map_or((0, 0, 0, 0), |file| {
        // SAFETY: the header is mapped for good.
        let header = unsafe { &*file.header };
        (header.pid, header.image, header.pid_ns, header.started)
    });
    let mut frames = [0; MOST_FRAMES];
    let mut count = 0;
    if made.caller != 0 {
        each_frame(made.caller, MOST_FRAMES, |address| {
            frames[count] = address as u64;
            count += 1;
            true
        });
    }
    let device = questions::device();
    let caller = if count > 0 { Caller::outside(&frames[..count]) } else { Caller::default() };
    Entry {
        word: 0,
        key,
        kind,
        device,
        pid,
        image,
        pid_ns,
        started,
        fingerprint: 0,
        checked: 0,
        address: 0,
        peer: questions::context(),
        bytes: 0,
        // As in the call's own slot, so that both are known for the same.
        since: if made.start == 0 { clock::now() } else { made.start },
        monotonic: log::now(),
        count: 0,
        ended: 0,
        // SAFETY: gettid has no preconditions.
        tid: unsafe { libc::syscall(libc::SYS_gettid) as u32 },
        frame_count: count as u32,
        uuid: questions::uuid(device),
        peer_uuid: [0; 16],
        rank: process::rank(),
        stack: process::stack(),
        ended_at: 0,
        offset: caller.offset as u64,
        library: caller.file(),
        inside: 0,
        head: made.head,
        frames,
    }
}

/// Memory or an event was exported.
fn exported(kind: u32, args: &[u8; ARGS], made: Made) {
    let (fingerprint, checked, given) = (word(args, 0), word(args, 8), word(args, 16));
    let (address, bytes) = made.memory.unwrap_or((given, 0));
    let key = handle_key(kind, fingerprint);
    let known = live::find(key);
    match known {
        // The same allocation once more has the same handle.
        Some(place) if place.is_own() && place.ended().load(Relaxed) == 0 => {
            place.inside().store(given.wrapping_sub(address), Relaxed);
        }
        _ => {
            // What is only remembered would be found before it.
            if let Some(old) = known.filter(|place| place.ended().load(Relaxed) != 0) {
                old.free();
            }
            let mut entry = entry(kind, key, made);
            (entry.fingerprint, entry.checked, entry.address, entry.bytes) =
                (fingerprint, checked, address, bytes);
            entry.inside = given.wrapping_sub(address);
            live::insert(entry);
        }
    }
    owned(address, fingerprint);
}

/// Remembers under which fingerprint an address or event is exported.
fn owned(address: u64, fingerprint: u64) {
    let key = own_key(live::own(), kind::OWNED, address, 0);
    match live::find(key) {
        Some(place) if place.read().fingerprint == fingerprint => return,
        Some(old) => drop(old.free()),
        None => {}
    }
    let mut entry = entry(kind::OWNED, key, Made::default());
    (entry.fingerprint, entry.address) = (fingerprint, address);
    live::insert(entry);
}

/// Memory or an event of another process was opened.
fn opened(kind: u32, args: &[u8; ARGS], made: Made) {
    // The output comes first, then the handle's two fingerprints.
    let (address, fingerprint, checked) = (word(args, 0), word(args, 8), word(args, 16));
    let key = own_key(live::own(), kind, address, 0);
    // What is being closed at that address may be something else.
    if let Some(place) = live::find_where(key, |place| place.origin().0 == fingerprint) {
        place.count().fetch_add(1, AcqRel);
        return;
    }
    let mut entry = entry(kind, key, made);
    (entry.fingerprint, entry.checked, entry.address, entry.count) = (fingerprint, checked, address, 1);
    entry.bytes = made.memory.map_or(0, |(_, size)| size);
    live::insert(entry);
    if let Some(export) = live::find(handle_key(export_of(kind), fingerprint)) {
        export.count().fetch_add(1, AcqRel);
    }
}

fn export_of(kind: u32) -> u32 {
    if kind == kind::OPENED_MEMORY { kind::EXPORTED_MEMORY } else { kind::EXPORTED_EVENT }
}

/// What a call is closing.
fn closing_of(id: FnId, address: u64, fingerprint: u64) -> Option<live::Place> {
    let kind = if id == FnId::cuIpcCloseMemHandle { kind::OPENED_MEMORY } else { kind::OPENED_EVENT };
    let key = own_key(live::own(), kind, address, 0);
    live::find_where(key, |place| place.origin().0 == fingerprint)
}

/// What was opened was closed once. Says whether it was open.
fn closed(id: FnId, address: u64, noted: Noted) -> bool {
    let Some(fingerprint) = noted.closing else { return false };
    if let Some(place) = closing_of(id, address, fingerprint)
        && place.count().load(Acquire) == 0
    {
        let entry = place.read();
        if place.free() {
            if is_checked() {
                closed::note(&entry, false);
            }
            let_go(export_of(entry.kind), fingerprint);
        }
    }
    true
}

/// One importer less.
fn let_go(kind: u32, fingerprint: u64) {
    let Some(export) = live::find(handle_key(kind, fingerprint)) else { return };
    let count = export.count();
    let before = count.fetch_update(AcqRel, Acquire, |count| Some(count.saturating_sub(1)));
    if before.unwrap_or(0) <= 1 && export.ended().load(Acquire) != 0 && !is_checked() {
        export.free();
    }
}

/// What was exported is gone: its entry stays while others have it open, and where rules are checked, which ask what
/// became of it.
fn ended(kind: u32, fingerprint: u64, how: u32) {
    let Some(export) = live::find(handle_key(kind, fingerprint)) else { return };
    let is_open = export.count().load(Acquire) != 0;
    let how = how | spec::ended::ENDED | if is_open { spec::ended::WHILE_OPEN } else { 0 };
    export.ended_at().store(log::now(), Relaxed);
    export.ended().store(how, Release);
    if !is_open && !is_checked() {
        export.free();
    }
}

/// Access to a peer context was switched on.
fn enabled(args: &[u8; ARGS], made: Made) {
    let (context, peer) = (questions::context(), word(args, 0));
    let key = own_key(live::own(), kind::PEER, context, peer);
    if live::find(key).is_some() {
        return;
    }
    let mut entry = entry(kind::PEER, key, made);
    (entry.address, entry.peer, entry.count) = (context, peer, 1);
    entry.peer_uuid = questions::uuid(questions::device_of(peer));
    live::insert(entry);
}

fn all_of_device(device: i32) {
    let uuid = questions::uuid(device);
    all_ended(|entry| entry.device == device || entry.kind == kind::PEER && entry.peer_uuid == uuid);
}

/// Ends whatever of this process went with a context.
fn all_ended(is_it: impl Fn(&Entry) -> bool) {
    live::each_own(|place| {
        let entry = place.read();
        if !is_it(&entry) {
            return;
        }
        match entry.kind {
            kind::EXPORTED_MEMORY | kind::EXPORTED_EVENT => {
                // What had ended before, with another context at this address, stays as it is.
                if entry.ended == 0 {
                    ended(entry.kind, entry.fingerprint, spec::ended::WITH_CONTEXT);
                }
            }
            kind::OPENED_MEMORY | kind::OPENED_EVENT => {
                if place.free() {
                    if is_checked() {
                        closed::note(&entry, true);
                    }
                    let_go(export_of(entry.kind), entry.fingerprint);
                }
            }
            _ => {
                place.free();
            }
        }
    });
}
