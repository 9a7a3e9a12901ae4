//! Writes what a call opens and ends into the live table.

use super::closed;
use super::closing::{Closing, count_in};
use super::gone;
use super::importers::importers;
use super::live;
use super::order;
use super::process::{self, Identity};
use super::python_line::SourceLine;
use super::reclaim;
use super::uses;
use crate::driver::facts::DriverFacts;
use crate::driver::questions::{self, number, word};
use crate::driver::{contexts, counted};
use crate::resolve::needs::{self, Needs};
use crate::resolve::traced;
use crate::settings;
use crate::sys::caller::{Caller, each_frame};
use crate::sys::clock;
use crate::sys::every_call::{epoch, has_record};
use crate::sys::forks::initialized_before_fork;
use cupeer_rules::decide::EndKind;
use cupeer_spec::effect::{Effect, End, Made, Named, Object, Shared};
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{self as spec, Entry, Uses, WORDS, handle_key, kind, own_key};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::results::Result;

/// What a call is about to end, taken out of the table before it is forwarded: the address may be somebody else's
/// as soon as the driver has it back.
#[derive(Clone, Copy, Default)]
pub struct BeforeCall {
    /// The fingerprint under which it was exported.
    pub taken: Option<u64>,
    /// What it closes, or switches off.
    closing: Closing,
    /// The context that it would end; 0 where it would end none.
    pub context: u64,
    /// Of a call that opens something, where rules are checked: when it was forwarded, in nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
}

impl BeforeCall {
    /// Whether it closes something that is open, as far as is known.
    pub fn is_closing(&self) -> bool {
        !matches!(self.closing, Closing::Nothing) || !live::is_on()
    }

    /// Whether something of it was taken out of the table, or marked there.
    pub fn takes_out(&self) -> bool {
        self.taken.is_some() || !matches!(self.closing, Closing::Nothing)
    }

    /// Whether it closes what is open no more after it.
    pub fn is_closing_the_last(&self) -> bool {
        matches!(self.closing, Closing::Last(_))
    }
}

/// From where and when a call was made.
#[derive(Clone, Copy, Default)]
pub struct CallOrigin {
    /// Its return address.
    pub caller: usize,
    /// On the record's clock.
    pub start: u64,
    /// The fingerprint of the first bytes of its handle.
    pub head: u64,
    pub about: DriverFacts,
}

/// Whether a call that frees or destroys ends something that was shared, or may do so. Of what [`is_idle`] it is not asked.
pub fn matters(id: FnId, args: &[u8; MOST_ARGS]) -> bool {
    let function = id.spec();
    let often = function.ends().filter(|end| function.ends_often() && !end.object.is_context());
    let Some(end) = often.filter(|_| live::is_on()) else { return true };
    let has = |kind| live::find(own_key(live::own(), kind, number(id, args, end.by), 0)).is_some();
    // Where freeing what was opened changes nothing, it is looked at all the same if rules are checked.
    let closes = |effect: &Effect| match *effect {
        Effect::Closes(closed) => has(kind::opened(closed.object)),
        Effect::Ends(end) => is_checked() && has(kind::opened(end.object)),
        _ => false,
    };
    live::has_exported() && has(kind::OWNED) || live::has_others() && function.effects().iter().any(closes)
}

fn is_checked() -> bool {
    settings::get().check.is_some()
}

/// Whether no call of a function can matter now, whatever its arguments are: the process shares nothing. So most programs
/// free and copy.
#[inline(always)]
pub fn is_idle(id: FnId) -> bool {
    match needs::needs(id) {
        Needs::Nothing => false,
        Needs::Reach => !needs::has_done(Needs::Reach) && !gone::has_any(),
        Needs::Gone => !gone::has_any(),
        Needs::Event => !needs::has_done(Needs::Event),
        Needs::Shared => shares_nothing(),
        Needs::Made => !counted::is_on(),
        Needs::Fork => initialized_before_fork(epoch()).is_none(),
    }
}

/// Whether this process has nothing open or exported, as far as is known.
pub fn shares_nothing() -> bool {
    !has_record() || live::is_on() && !live::has_exported() && !live::has_others()
}

/// Whether this process has opened the event that a call records.
pub fn has_opened(event: u64) -> bool {
    !live::is_on() || live::find(own_key(live::own(), kind::opened(Object::Event), event, 0)).is_some()
}

/// On which device the memory lies that this process has opened at an address, where it sees that device.
pub fn opened_device(address: u64) -> Option<i32> {
    if !live::is_on() || !live::has_others() {
        return None;
    }
    let opened = live::find(own_key(live::own(), kind::OPENED_MEMORY, address, 0))?;
    let export = live::read(handle_key(kind::EXPORTED_MEMORY, opened.origin().0))?;
    questions::ordinal(export.uuid)
}

/// The way from an address or event to the export that a call is about to end. `None` if something of another process was opened
/// there since: while a context ends in one thread, the driver may already hand out its addresses to others.
fn to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> Option<live::Place> {
    let function = id.spec();
    let end = function.ends().filter(|end| !end.object.is_context())?;
    let place = |kind, by| own_key(live::own(), kind, number(id, args, by), 0);
    let owned = live::find(place(kind::OWNED, end.by))?;
    let opened = function.closes().and_then(|closed| {
        live::find_where(place(kind::opened(closed.object), closed.by), live::Place::is_open)
    });
    opened.is_none_or(|opened| opened.is_older_than(&owned)).then_some(owned)
}

/// Looks at a call that is about to be forwarded.
pub fn before(id: FnId, args: &[u8; MOST_ARGS]) -> BeforeCall {
    let function = id.spec();
    let taken = to_be_ended(id, args).and_then(|place| {
        let fingerprint = place.origin().0;
        place.free().then_some(fingerprint)
    });
    // Another thread may be given the address for something else before the call comes back here.
    let closing = match (function.closes(), function.disables()) {
        (Some(closed), _) if taken.is_none() => {
            Closing::begin(function, kind::opened(closed.object), number(id, args, closed.by), 0)
        }
        (_, Some(access)) => {
            let (context, peer) = (questions::context(), number(id, args, access.by));
            Closing::begin(function, kind::opened(access.object), context, peer)
        }
        _ => Closing::Nothing,
    };
    // Where nothing is in the table, nothing of it ends; created contexts are remembered in any case.
    let is_created = || {
        let named = function.ends_context().filter(|end| end.object == Object::Context);
        named.is_some_and(|end| contexts::device_of_created(number(id, args, end.by)).is_some())
    };
    let is_known = !live::is_on() || live::has_exported() || live::has_others() || is_created();
    let context = if is_known { questions::to_be_ended(id, args) } else { counted::to_be_ended(id, args) };
    let begun = if is_checked() && function.opens().is_some() { clock::now() } else { 0 };
    BeforeCall { taken, closing, context, begun }
}

/// Looks at a call that has returned.
pub fn after(id: FnId, args: &[u8; MOST_ARGS], result: i32, noted: &BeforeCall, made: &CallOrigin) {
    let function = id.spec();
    let is_enabled = result == 0 || result == Result::PEER_ACCESS_ALREADY_ENABLED as i32;
    if is_enabled && function.shares() {
        traced::wake(Needs::Shared);
        if function.exports().is_none() {
            traced::wake(Needs::Reach);
        }
    }
    let events = function.opens().or(function.exports()).filter(|shared| shared.object == Object::Event);
    if let Some(Shared { by, .. }) = events.filter(|_| result == 0) {
        order::is_shared(number(id, args, by));
        traced::wake(Needs::Event);
    }
    if !live::is_on() {
        return;
    }
    if result != 0 {
        if let (Some(fingerprint), Some(end)) = (noted.taken, function.ends()) {
            owned(number(id, args, end.by), fingerprint, made);
        }
        noted.closing.undo();
        if let Some(access) = function.enables()
            && result == Result::PEER_ACCESS_ALREADY_ENABLED as i32
        {
            enabled(access.object, number(id, args, access.by), made);
        }
        return;
    }
    let by = Closer { id, made };
    // Reading all of an entry costs more than all else here.
    if let Closing::Last(place) = noted.closing {
        give_up(&place, false, Some(&by));
    }
    // A descriptor of which it is not known what it refers to is not told from others.
    let is_known = |handle| fingerprints(id, args, handle).0 != 0;
    for effect in function.effects() {
        match *effect {
            Effect::Exports(Shared { handle, .. }) | Effect::Opens(Shared { handle, .. })
                if !is_known(handle) => {}
            Effect::Exports(Shared { object, by, handle, .. }) => {
                exported(kind::exported(object), fingerprints(id, args, handle), number(id, args, by), made);
            }
            Effect::Opens(Shared { object, by, handle, .. }) => {
                let (fingerprints, address) = (fingerprints(id, args, handle), number(id, args, by));
                opened(id, kind::opened(object), fingerprints, address, made);
                gone::is_back(address, made.about.memory.map_or(1, |(_, size)| size));
                if is_checked() && (object.is_memory() || object == Object::Allocation) {
                    // Its owner may free it, and what uses it may go beyond it.
                    traced::wake(Needs::Gone);
                }
            }
            Effect::Enables(Named { object, by }, _) => enabled(object, number(id, args, by), made),
            Effect::Ends(_) if made.about.ended != 0 => all_ended(made.about.ended, &by),
            Effect::Ends(End { object: Object::Mapping, by: at, size: Some(size), .. }) => {
                uses::forget(number(id, args, at));
                if is_checked() {
                    let (address, bytes) = (number(id, args, at), number(id, args, size));
                    gone(EndKind::Unmapped, false, &Entry { address, bytes, ..nothing() }, &by);
                }
            }
            Effect::Ends(End { object: Object::Reservation, by: at, size: Some(size), .. }) => {
                let (start, bytes) = (number(id, args, at), number(id, args, size));
                if gone::first(start, bytes).is_some() {
                    gone::unreserve(start, bytes, &ending(&nothing(), &by));
                }
            }
            Effect::Ends(end) => {
                noted
                    .taken
                    .iter()
                    .for_each(|fingerprint| ended(kind::exported(end.object), *fingerprint, 0, &by));
            }
            Effect::Makes(Made { object: Object::Mapping, by, size: Some(size), .. }) => {
                gone::is_mapped(number(id, args, by), number(id, args, size));
            }
            // What is there can be used before it is mapped, beyond its end, and by a device that has no access.
            Effect::Makes(Made { object: Object::Reservation, .. }) if is_checked() => {
                traced::wake(Needs::Gone);
            }
            Effect::Closes(_)
            | Effect::Disables(_)
            | Effect::Asks(_)
            | Effect::LooksUp(_)
            | Effect::Begins
            | Effect::Makes(_)
            | Effect::Retains(_)
            | Effect::Copies(_)
            | Effect::Uses(_)
            | Effect::UsesEach(_)
            | Effect::Launches(_)
            | Effect::Records(_)
            | Effect::Completes(_)
            | Effect::Follows(_)
            | Effect::Drops(_)
            | Effect::Awaits(_)
            | Effect::Signals(_)
            | Effect::Posts(_)
            | Effect::Runs(_)
            | Effect::Finds(_)
            | Effect::Unloads(..)
            | Effect::Instantiates(..)
            | Effect::Replays(_)
            | Effect::Alters(_)
            | Effect::Discards(_)
            | Effect::Grants(_)
            | Effect::Gathers(_)
            | Effect::Joins(_)
            | Effect::Binds(_)
            | Effect::Unbinds(_) => {}
        }
    }
}

/// The two fingerprints of the handle of a call.
fn fingerprints(id: FnId, args: &[u8; MOST_ARGS], handle: usize) -> (u64, u64) {
    let at = id.spec().place(handle).start;
    (word(args, at), word(args, at + 8))
}

/// An entry of this process, with nothing of its own yet.
fn entry(kind: u32, key: u64, made: &CallOrigin) -> Entry {
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
    let mut entry = Entry {
        key,
        kind,
        device,
        pid,
        image,
        pid_ns,
        started,
        peer: context,
        // As in the call's own slot, so that both are known for the same.
        since: made.start,
        monotonic: clock::now(),
        // SAFETY: gettid has no preconditions.
        tid: unsafe { libc::syscall(libc::SYS_gettid) as u32 },
        frame_count: count as u32,
        uuid: questions::uuid(device),
        rank: crate::sys::environment::rank(),
        stack: process::stack(),
        offset: caller.offset as u64,
        library: caller.file(),
        head: made.head,
        frames,
        ..nothing()
    };
    // Paragraphs of others name it; a line about a finding, and the report, do without.
    if count > 0 && settings::get().check.as_ref().is_some_and(|check| !check.level.is_brief) {
        SourceLine::look(|line| {
            let name = line.file.text().rsplit('/').next().unwrap_or_default();
            entry.set_python(name.as_bytes(), line.line);
        });
    }
    entry
}

fn nothing() -> Entry {
    Entry::from_words([0; WORDS])
}

/// What was at some addresses ended by a call.
fn gone(went: EndKind, with_context: bool, known: &Entry, by: &Closer) {
    let Entry { address, bytes, fingerprint, .. } = *known;
    gone::add(went, with_context, Entry { address, bytes, fingerprint, ..ending(known, by) });
}

/// The call that ended what was known.
fn ending(known: &Entry, by: &Closer) -> Entry {
    // Of a context that may have ended, the driver is not asked.
    let about = DriverFacts { context: known.peer, device: known.device, ..by.made.about };
    entry(0, 0, &CallOrigin { about, ..*by.made })
}

/// Something was exported, and given by this address or name.
fn exported(kind: u32, (fingerprint, checked): (u64, u64), given: u64, made: &CallOrigin) {
    let (address, bytes) = made.about.memory.unwrap_or((given, 0));
    let key = handle_key(kind, fingerprint);
    let known = live::find(key);
    match known {
        // The same allocation once more has the same handle.
        Some(place) if place.is_own() && place.uses().ended == 0 => {
            place.set_inside(given.wrapping_sub(address));
        }
        _ => {
            // What is only remembered would be found before it.
            if let Some(old) = known.filter(|place| place.uses().ended != 0) {
                old.free();
            }
            let mut entry = entry(kind, key, made);
            (entry.fingerprint, entry.checked, entry.address, entry.bytes) =
                (fingerprint, checked, address, bytes);
            entry.inside = given.wrapping_sub(address);
            if [kind::EXPORTED_MEMORY, kind::EXPORTED_POINTER].contains(&kind) {
                uses::watch(address, bytes);
            }
            reclaim::insert(entry);
        }
    }
    owned(address, fingerprint, made);
    counted::is_shared(address);
}

/// Remembers under which fingerprint an address or event is exported.
fn owned(address: u64, fingerprint: u64, made: &CallOrigin) {
    let key = own_key(live::own(), kind::OWNED, address, 0);
    match live::find(key) {
        Some(place) if place.origin().0 == fingerprint => return,
        Some(old) => drop(old.free()),
        None => {}
    }
    let mut entry = entry(kind::OWNED, key, &CallOrigin { caller: 0, head: 0, ..*made });
    (entry.fingerprint, entry.address) = (fingerprint, address);
    reclaim::insert(entry);
}

/// Forgets the way to what was exported, which ended with its context.
fn forget_owned(export: &Entry) {
    let place = live::find(own_key(live::own(), kind::OWNED, export.address, 0));
    if let Some(place) = place.filter(|place| place.origin().0 == export.fingerprint) {
        place.free();
    }
}

/// Something of another process was opened.
fn opened(id: FnId, kind: u32, (fingerprint, checked): (u64, u64), address: u64, made: &CallOrigin) {
    let key = own_key(live::own(), kind, address, 0);
    // A damaged copy of a handle is the same mapping by another name where the driver checks the same bytes.
    if let Some(place) = live::find_where(key, |place| place.checked() == checked && count_in(place)) {
        place.count_opening();
        note_library(&place, id, made.caller);
        return;
    }
    // What else is open there has ended without our seeing how; what is being closed, its closer gives up.
    while let Some(place) = live::find_where(key, live::Place::is_open)
        && place.checked() != checked
    {
        give_up(&place, false, None);
    }
    let mut entry = entry(kind, key, made);
    (entry.fingerprint, entry.checked, entry.address, entry.count) = (fingerprint, checked, address, 1);
    entry.bytes = made.about.memory.map_or(0, |(_, size)| size);
    entry.inside = 1;
    if [kind::OPENED_MEMORY, kind::OPENED_POINTER].contains(&kind) {
        uses::watch(address, entry.bytes);
    }
    reclaim::insert(entry);
    if let Some(export) = kind::export_of(kind).and_then(|export| live::find(handle_key(export, fingerprint)))
    {
        export.change(|uses| Some(Uses { count: uses.count + 1, ..uses }));
    }
}

/// Notes where rules are checked that another library than the first has opened something.
fn note_library(place: &live::Place, id: FnId, caller: usize) {
    // One place in the runtime calls for everybody.
    let is_same = || place.origin().1 == caller as u64 && !Caller::at(caller).is_runtime();
    if !is_checked() || is_same() {
        return;
    }
    if place.read().is_some_and(|first| first.library != Caller::of(caller, id, true).file()) {
        let how = spec::opened::BY_OTHERS as u16;
        place.change(|uses| Some(Uses { ended: uses.ended | how, ..uses }));
    }
}

/// The call that closes or ends something.
struct Closer<'a> {
    id: FnId,
    made: &'a CallOrigin,
}

/// Something that was opened is open no more, because of a call that was seen, or without one.
fn give_up(place: &live::Place, with_context: bool, by: Option<&Closer>) {
    let Some(entry) = place.read() else { return };
    if place.free()
        && let Some(export) = kind::export_of(entry.kind)
    {
        if is_checked() {
            if let Some(by) = by {
                let kinds = [(kind::OPENED_MEMORY, EndKind::Closed), (kind::OPENED_POINTER, EndKind::Freed)];
                let went = kinds.iter().find(|(kind, _)| *kind == entry.kind);
                went.iter().for_each(|(_, went)| gone(*went, with_context, &entry, by));
            }
            // Only legacy mappings are closed by an address, so only they can be closed twice.
            if entry.kind == kind::OPENED_MEMORY {
                let by = by.map(|by| Caller::of(by.made.caller, by.id, false));
                closed::note(&entry, with_context, by.as_ref());
            }
        }
        if [kind::OPENED_MEMORY, kind::OPENED_POINTER].contains(&entry.kind) {
            uses::forget(entry.address);
        }
        reclaim::let_go(export, entry.fingerprint);
    }
}

/// What was exported is gone: its entry stays while others have it open, and where rules are checked, which ask what
/// became of it.
fn ended(kind: u32, fingerprint: u64, how: u32, by: &Closer) {
    let Some(export) = live::find(handle_key(kind, fingerprint)) else { return };
    let is_memory = [kind::EXPORTED_MEMORY, kind::EXPORTED_POINTER].contains(&kind);
    let entry = if is_memory { export.read() } else { None };
    entry.iter().for_each(|entry| uses::forget(entry.address));
    if is_checked()
        && let Some(entry) = entry
    {
        gone(EndKind::Freed, how & spec::ended::WITH_CONTEXT != 0, &entry, by);
    }
    // Who has ended is counted as well.
    let open = if export.is_open() { importers(kind, fingerprint) } else { None };
    let (is_open, while_open) = (open.is_some(), open.is_some_and(|open| open.running > 0));
    let how = how | spec::ended::ENDED | if while_open { spec::ended::WHILE_OPEN } else { 0 };
    export.set_ended_at(clock::now());
    export.change(|uses| Some(Uses { ended: how as u16, ..uses }));
    if is_open && how & spec::ended::WITH_CONTEXT == 0 {
        live::note_freed();
    }
    if !is_open && !is_checked() {
        export.free();
    }
}

/// Access to a peer context was switched on.
fn enabled(object: Object, peer: u64, made: &CallOrigin) {
    let (context, kind) = (questions::context(), kind::opened(object));
    let key = own_key(live::own(), kind, context, peer);
    // One that is being switched off is not counted.
    if live::find_where(key, live::Place::is_open).is_some() {
        return;
    }
    let mut entry = entry(kind, key, made);
    (entry.address, entry.peer, entry.count) = (context, peer, 1);
    entry.peer_uuid = questions::uuid(questions::device_of(peer));
    reclaim::insert(entry);
}

/// Ends whatever of this process went with a context.
fn all_ended(context: u64, by: &Closer) {
    live::each_own(|place| {
        let Some(entry) = place.read().filter(|_| place.ends_with(context)) else { return };
        if kind::exported_object(entry.kind).is_some() {
            // What had ended before, with another context at this address, stays as it is.
            if entry.ended == 0 {
                forget_owned(&entry);
                ended(entry.kind, entry.fingerprint, spec::ended::WITH_CONTEXT, by);
            }
        } else {
            give_up(&place, true, Some(by));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::live::tests::with_table;
    use super::*;

    #[test]
    fn a_free_ends_what_came_last_to_its_address() {
        with_table(|| {
            let address = 0x7000_0000;
            let mut args = [0; MOST_ARGS];
            args[..8].copy_from_slice(&u64::to_le_bytes(address));
            let insert = |kind, monotonic| {
                let key = own_key(live::own(), kind, address, 0);
                let entry = Entry { key, kind, address, monotonic, count: 1, ..nothing() };
                assert!(reclaim::insert(entry));
            };
            let is_owned = || to_be_ended(FnId::cuMemFree_v2, &args).is_some();
            assert!(!is_owned());
            insert(kind::OWNED, 10);
            assert!(is_owned());
            // The context of the export is ending, and the address is another process's memory now.
            insert(kind::OPENED_POINTER, 20);
            assert!(!is_owned());
            let opened = live::find(own_key(live::own(), kind::OPENED_POINTER, address, 0)).unwrap();
            assert!(opened.free());
            insert(kind::OPENED_POINTER, 5);
            assert!(is_owned());
        });
    }
}
