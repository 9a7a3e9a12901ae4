//! What a call opens and ends, told to the live table.

use super::closed;
use super::live;
use super::process::{self, Identity};
use crate::check;
use crate::driver::questions::{self, About, first, word};
use crate::settings;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::every_call::has_record;
use crate::sys::unwind::each_frame;
use core::cell::Cell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use cupeer_spec::effect::Object;
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
    /// What it closes, or switches off.
    closing: Option<Closing>,
    /// The context that it would end; 0 where it would end none.
    pub context: u64,
    /// Of a call that opens something, where rules are checked: when it was forwarded, in nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
}

impl Noted {
    /// Whether it closes something that is open, as far as is known.
    pub fn is_closing(&self) -> bool {
        self.closing.is_some() || !live::is_on()
    }
}

/// One opening that is being given up. Its count is less already.
#[derive(Clone, Copy)]
struct Closing {
    place: live::Place,
    key: u64,
    /// The fingerprint of what it opened.
    fingerprint: u64,
    /// Whether it was the last: the entry is this call's to give up.
    is_last: bool,
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
    /// What the driver says of it.
    pub about: About,
}

/// Whether a call that frees or destroys ends something that was shared, or may do so.
pub fn matters(id: FnId, args: &[u8; ARGS]) -> bool {
    let ends = id.spec().ends().map(|end| end.object);
    if !has_record() {
        // Nothing was exported or opened yet.
        return !matches!(ends, Some(Object::Memory | Object::Event));
    }
    if !live::is_on() {
        return true;
    }
    let address = first(id, args);
    let has = |kind| live::find(own_key(live::own(), kind, address, 0)).is_some();
    let owns = live::has_exported() && has(kind::OWNED);
    match ends {
        // Freeing what was opened changes nothing, and is looked at where rules are checked.
        Some(Object::Memory) => owns || is_checked() && live::has_others() && has(kind::OPENED_MEMORY),
        Some(Object::Event) => owns || live::has_others() && has(kind::OPENED_EVENT),
        _ => true,
    }
}

fn is_checked() -> bool {
    settings::get().check.is_some()
}

/// Looks at a call that is about to be forwarded.
pub fn before(id: FnId, args: &[u8; ARGS]) -> Noted {
    let (ends, address) = (id.spec().ends().map(|end| end.object), first(id, args));
    let taken = match ends {
        Some(Object::Memory | Object::Event) => live::find(own_key(live::own(), kind::OWNED, address, 0))
            .and_then(|place| {
                let fingerprint = place.read().fingerprint;
                place.free().then_some(fingerprint)
            }),
        _ => None,
    };
    // Another thread may be given the address for something else before the call comes back here.
    let closing = match (id, ends) {
        (FnId::cuIpcCloseMemHandle, _) => begin_to_close(kind::OPENED_MEMORY, address, 0),
        (_, Some(Object::Event)) if taken.is_none() => begin_to_close(kind::OPENED_EVENT, address, 0),
        (FnId::cuCtxDisablePeerAccess, _) => begin_to_close(kind::PEER, questions::context(), address),
        _ => None,
    };
    // Where nothing is in the table, nothing of it ends.
    let is_known = !live::is_on() || live::has_exported() || live::has_others();
    let context = if is_known { questions::to_be_ended(id, args) } else { 0 };
    let begun = if is_checked() && id.spec().is_in(Group::Open) { clock::now() } else { 0 };
    Noted { taken, closing, context, begun }
}

/// Counts one opening less. Other threads may open and close the same at this moment: the count tells who of them
/// gives the entry up.
fn begin_to_close(kind: u32, a: u64, b: u64) -> Option<Closing> {
    /// What is open may be counted elsewhere while one looks.
    const ATTEMPTS: u32 = 16;
    let key = own_key(live::own(), kind, a, b);
    for _ in 0..ATTEMPTS {
        let is_there = Cell::new(false);
        let place = live::find_where(key, |place| {
            is_there.set(true);
            place.count().load(Acquire) > 0
        });
        let Some(place) = place else {
            if is_there.get() {
                continue;
            }
            return None;
        };
        // An event is closed by its first destruction, whatever the count.
        let less = |count: u32| if kind == kind::OPENED_EVENT { Some(0) } else { count.checked_sub(1) };
        let fingerprint = place.origin().0;
        if let Ok(before) = place.count().fetch_update(AcqRel, Acquire, less)
            && before > 0
        {
            return Some(Closing { place, key, fingerprint, is_last: less(before) == Some(0) });
        }
    }
    None
}

impl Closing {
    /// Whether the entry is still the one that it was.
    fn is_there(&self) -> bool {
        self.place.has(self.key) && self.place.origin().0 == self.fingerprint
    }

    /// The call has failed: it is open as it was.
    fn undo(&self) {
        if self.is_last && self.is_there() {
            self.place.count().fetch_add(1, AcqRel);
        } else {
            count_in(&self.place, self.key, self.fingerprint);
        }
    }

    /// The call has succeeded.
    fn finish(&self) {
        if !self.is_last || !self.is_there() {
            return;
        }
        let entry = self.place.read();
        if !self.place.free() || entry.kind == kind::PEER {
            return;
        }
        if is_checked() {
            closed::note(&entry, false);
        }
        let_go(export_of(entry.kind), self.fingerprint);
    }
}

/// Counts one opening more, unless the last one is being closed. Says whether it did.
fn count_in(place: &live::Place, key: u64, fingerprint: u64) -> bool {
    let more = |count: u32| (count > 0).then(|| count + 1);
    if place.origin().0 != fingerprint || place.count().fetch_update(AcqRel, Acquire, more).is_err() {
        return false;
    }
    // It may have been given up meanwhile, and taken by somebody else.
    let is_same = place.has(key) && place.origin().0 == fingerprint;
    if !is_same {
        place.count().fetch_sub(1, AcqRel);
    }
    is_same
}

/// Looks at a call that has returned.
pub fn after(id: FnId, args: &[u8; ARGS], result: i32, noted: &Noted, made: &Made) {
    if !live::is_on() {
        return;
    }
    let address = first(id, args);
    if result != 0 {
        if let Some(fingerprint) = noted.taken {
            owned(address, fingerprint, made);
        }
        noted.closing.iter().for_each(Closing::undo);
        if id == FnId::cuCtxEnablePeerAccess && result == Result::PEER_ACCESS_ALREADY_ENABLED as i32 {
            enabled(args, made);
        }
        return;
    }
    noted.closing.iter().for_each(Closing::finish);
    match id {
        FnId::cuIpcGetMemHandle => exported(kind::EXPORTED_MEMORY, args, made),
        FnId::cuIpcGetEventHandle => exported(kind::EXPORTED_EVENT, args, made),
        FnId::cuIpcOpenMemHandle | FnId::cuIpcOpenMemHandle_v2 => opened(kind::OPENED_MEMORY, args, made),
        FnId::cuIpcOpenEventHandle => opened(kind::OPENED_EVENT, args, made),
        FnId::cuCtxEnablePeerAccess => enabled(args, made),
        _ => {}
    }
    match (id.spec().ends().map(|end| end.object), noted.taken) {
        (Some(Object::Memory), Some(fingerprint)) => ended(kind::EXPORTED_MEMORY, fingerprint, 0),
        (Some(Object::Event), Some(fingerprint)) => ended(kind::EXPORTED_EVENT, fingerprint, 0),
        (Some(Object::Context | Object::Primary), _) if made.about.ended != 0 => all_ended(made.about.ended),
        _ => {}
    }
}

/// An entry of this process, with nothing of its own yet.
fn entry(kind: u32, key: u64, made: &Made) -> Entry {
    let Identity { pid, image, pid_ns, started } = process::identity();
    let mut frames = [0; MOST_FRAMES];
    let mut count = 0;
    if made.caller != 0 {
        each_frame(made.caller, MOST_FRAMES, |address| {
            frames[count] = address as u64;
            count += 1;
            true
        });
    }
    let (device, context) = match made.about.context {
        0 => (questions::device(), questions::context()),
        context => (made.about.device, context),
    };
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
        peer: context,
        bytes: 0,
        // As in the call's own slot, so that both are known for the same.
        since: made.start,
        monotonic: clock::now(),
        count: 0,
        ended: 0,
        // SAFETY: gettid has no preconditions.
        tid: unsafe { libc::syscall(libc::SYS_gettid) as u32 },
        frame_count: count as u32,
        uuid: questions::uuid(device),
        peer_uuid: [0; 16],
        rank: crate::sys::environment::rank(),
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
fn exported(kind: u32, args: &[u8; ARGS], made: &Made) {
    let (fingerprint, checked, given) = (word(args, 0), word(args, 8), word(args, 16));
    let (address, bytes) = made.about.memory.unwrap_or((given, 0));
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
    owned(address, fingerprint, made);
}

/// Remembers under which fingerprint an address or event is exported.
fn owned(address: u64, fingerprint: u64, made: &Made) {
    let key = own_key(live::own(), kind::OWNED, address, 0);
    match live::find(key) {
        Some(place) if place.read().fingerprint == fingerprint => return,
        Some(old) => drop(old.free()),
        None => {}
    }
    let mut entry =
        entry(kind::OWNED, key, &Made { about: made.about, start: made.start, ..Made::default() });
    (entry.fingerprint, entry.address) = (fingerprint, address);
    live::insert(entry);
}

/// Memory or an event of another process was opened.
fn opened(kind: u32, args: &[u8; ARGS], made: &Made) {
    // The output comes first, then the handle's two fingerprints.
    let (address, fingerprint, checked) = (word(args, 0), word(args, 8), word(args, 16));
    let key = own_key(live::own(), kind, address, 0);
    if live::find_where(key, |place| count_in(place, key, fingerprint)).is_some() {
        return;
    }
    // What else is open there has ended without our seeing how; what is being closed, its closer gives up.
    while let Some(place) = live::find_where(key, |place| place.count().load(Acquire) > 0)
        && place.origin().0 != fingerprint
    {
        give_up(&place, false);
    }
    let mut entry = entry(kind, key, made);
    (entry.fingerprint, entry.checked, entry.address, entry.count) = (fingerprint, checked, address, 1);
    entry.bytes = made.about.memory.map_or(0, |(_, size)| size);
    live::insert(entry);
    if let Some(export) = live::find(handle_key(export_of(kind), fingerprint)) {
        export.count().fetch_add(1, AcqRel);
    }
}

pub fn export_of(kind: u32) -> u32 {
    if kind == kind::OPENED_MEMORY { kind::EXPORTED_MEMORY } else { kind::EXPORTED_EVENT }
}

/// Something that was opened is open no more.
fn give_up(place: &live::Place, with_context: bool) {
    let entry = place.read();
    if place.free() {
        if is_checked() {
            closed::note(&entry, with_context);
        }
        let_go(export_of(entry.kind), entry.fingerprint);
    }
}

/// One importer less.
pub fn let_go(kind: u32, fingerprint: u64) {
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
    // Who has ended is counted as well.
    let open = Some(export.count().load(Acquire)).filter(|count| *count != 0);
    let open = open.and_then(|_| check::importers(kind, fingerprint));
    let (is_open, while_open) = (open.is_some(), open.is_some_and(|open| open.running > 0));
    let how = how | spec::ended::ENDED | if while_open { spec::ended::WHILE_OPEN } else { 0 };
    export.ended_at().store(clock::now(), Relaxed);
    export.ended().store(how, Release);
    if !is_open && !is_checked() {
        export.free();
    }
}

/// Access to a peer context was switched on.
fn enabled(args: &[u8; ARGS], made: &Made) {
    let (context, peer) = (questions::context(), word(args, 0));
    let key = own_key(live::own(), kind::PEER, context, peer);
    // One that is being switched off is not counted.
    if live::find_where(key, |place| place.count().load(Acquire) > 0).is_some() {
        return;
    }
    let mut entry = entry(kind::PEER, key, made);
    (entry.address, entry.peer, entry.count) = (context, peer, 1);
    entry.peer_uuid = questions::uuid(questions::device_of(peer));
    live::insert(entry);
}

/// Ends whatever of this process went with a context.
fn all_ended(context: u64) {
    live::each_own(|place| {
        let entry = place.read();
        let is_peer = entry.kind == kind::PEER && entry.address == context;
        if entry.peer != context && !is_peer {
            return;
        }
        match entry.kind {
            kind::EXPORTED_MEMORY | kind::EXPORTED_EVENT => {
                // What had ended before, with another context at this address, stays as it is.
                if entry.ended == 0 {
                    ended(entry.kind, entry.fingerprint, spec::ended::WITH_CONTEXT);
                }
            }
            kind::OPENED_MEMORY | kind::OPENED_EVENT => give_up(&place, true),
            _ => {
                place.free();
            }
        }
    });
}
