//! Enters what calls open and end in the live table, and notes which memory is gone.

use super::closed;
use super::closing::{Closing, count_another_open};
use super::importers::importers;
use super::live;
use super::order;
use super::process::{self, Identity};
use super::python_line::SourceLine;
use super::reclaim;
use super::tombstones;
use super::uses;
use crate::driver::facts::DriverFacts;
use crate::driver::queries::{self, numeric_argument, stored_word};
use crate::driver::{contexts, counted};
use crate::resolve::needs::{self, HistoryCondition};
use crate::resolve::traced;
use crate::settings;
use crate::sys::caller::{Caller, each_frame};
use crate::sys::clock;
use crate::sys::every_call::{has_record, recording_epoch};
use crate::sys::forks::initialized_before_fork;
use crate::sys::process::tid;
use cupeer_rules::decide::EndKind;
use cupeer_spec::effect::{Effect, End, Made, Named, Object, Shared};
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{self as spec, Entry, Uses, WORDS, fingerprint_key, kind, process_object_key};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::results::Result;

/// The objects that a call is about to end. Their entries leave the table before the call is forwarded, because another thread
/// may be given the address as soon as the driver has released it.
#[derive(Clone, Copy, Default)]
pub struct BeforeCall {
    /// Fingerprint under which the object that the call ends was exported; `None` if it was not exported.
    pub taken: Option<u64>,
    /// The opened object that the call closes, or the peer access that it disables.
    closing: Closing,
    /// Context that the call would destroy; 0 if it destroys none.
    pub context: u64,
    /// Time when a call that opens something was forwarded, in nanoseconds of CLOCK_MONOTONIC; 0 if no rules are checked.
    pub begun: u64,
}

impl BeforeCall {
    /// Returns true if the call closes something that is open, as far as is known.
    pub fn is_closing(&self) -> bool {
        !matches!(self.closing, Closing::Nothing) || !live::has_table()
    }

    /// Returns true if entries were removed from the table or changed before the call.
    pub fn has_changed_table(&self) -> bool {
        self.taken.is_some() || !matches!(self.closing, Closing::Nothing)
    }

    /// Returns true if this process no longer has the object open after the call.
    pub fn is_closing_the_last(&self) -> bool {
        matches!(self.closing, Closing::Last(_))
    }
}

/// The place and the time of a call, and the driver's facts about it.
#[derive(Clone, Copy, Default)]
pub struct CallOrigin {
    /// Return address of the call.
    pub caller: usize,
    /// Time when the call was forwarded, in ticks of the record's clock.
    pub start: u64,
    /// Fingerprint of the first bytes of the call's handle; 0 without a handle.
    pub head: u64,
    pub about: DriverFacts,
}

/// Returns true if a call that frees or destroys may end something that was shared. Must not be called while
/// [`is_table_unaffected_by`] returns true for the function.
pub fn may_end_shared(id: FnId, args: &[u8; MOST_ARGS]) -> bool {
    let function = id.spec();
    let often = function.ends().filter(|end| function.ends_often() && !end.object.is_context());
    let Some(end) = often.filter(|_| live::has_table()) else { return true };
    let has = |kind| {
        live::find(process_object_key(live::own_owner_number(), kind, numeric_argument(id, args, end.by), 0)).is_some()
    };
    // Freeing an opened object changes nothing in the table, but a rule may find that this is wrong.
    let closes = |effect: &Effect| match *effect {
        Effect::Closes(closed) => has(kind::opened_kind(closed.object)),
        Effect::Ends(end) => are_rules_checked() && has(kind::opened_kind(end.object)),
        _ => false,
    };
    live::has_exported() && has(kind::OWNED) || live::has_other_entries() && function.effects().iter().any(closes)
}

fn are_rules_checked() -> bool {
    settings::get().check.is_some()
}

/// Returns true if no call of a function can change the table now, whatever its arguments. In most programs, this is so for frees
/// and copies.
#[inline(always)]
pub fn is_table_unaffected_by(id: FnId) -> bool {
    match needs::condition_of(id) {
        HistoryCondition::Nothing => false,
        HistoryCondition::Reach => !needs::has_met(HistoryCondition::Reach) && !tombstones::has_any(),
        HistoryCondition::Gone => !tombstones::has_any(),
        HistoryCondition::Event => !needs::has_met(HistoryCondition::Event),
        HistoryCondition::Shared => shares_nothing(),
        HistoryCondition::Made => !counted::is_counting(),
        HistoryCondition::Fork => initialized_before_fork(recording_epoch()).is_none(),
    }
}

/// Returns true if this process has nothing open or exported, as far as is known.
pub fn shares_nothing() -> bool {
    !has_record() || live::has_table() && !live::has_exported() && !live::has_other_entries()
}

/// Returns true if this process may have opened this event from another process.
pub fn has_opened(event: u64) -> bool {
    !live::has_table()
        || live::find(process_object_key(live::own_owner_number(), kind::opened_kind(Object::Event), event, 0))
            .is_some()
}

/// Returns the device of memory that this process has opened at an address; `None` if it does not see that device.
pub fn device_of_opened_memory(address: u64) -> Option<i32> {
    if !live::has_table() || !live::has_other_entries() {
        return None;
    }
    let opened = live::find(process_object_key(live::own_owner_number(), kind::OPENED_MEMORY, address, 0))?;
    let export = live::read(fingerprint_key(kind::EXPORTED_MEMORY, opened.fingerprint()))?;
    queries::ordinal(export.uuid)
}

/// Returns the entry that leads from an address or event to its export, which a call is about to end. Returns `None` if an object
/// of another process was opened there since: while a context ends in one thread, the driver may already give its addresses to
/// another thread.
fn entry_to_be_ended(id: FnId, args: &[u8; MOST_ARGS]) -> Option<live::EntryRef> {
    let function = id.spec();
    let end = function.ends().filter(|end| !end.object.is_context())?;
    let place = |kind, by| process_object_key(live::own_owner_number(), kind, numeric_argument(id, args, by), 0);
    let owned = live::find(place(kind::OWNED, end.by))?;
    let opened = function.closes().and_then(|closed| {
        live::find_where(place(kind::opened_kind(closed.object), closed.by), live::EntryRef::is_open)
    });
    opened.is_none_or(|opened| opened.is_older_than(&owned)).then_some(owned)
}

/// Removes the entries of objects that a call is about to end from the table.
pub fn before_call(id: FnId, args: &[u8; MOST_ARGS]) -> BeforeCall {
    let function = id.spec();
    let taken = entry_to_be_ended(id, args).and_then(|place| {
        let fingerprint = place.fingerprint();
        place.free().then_some(fingerprint)
    });
    // Done before the call, because another thread may be given the address before the call returns.
    let closing = match (function.closes(), function.disables()) {
        (Some(closed), _) if taken.is_none() => {
            Closing::begin(function, kind::opened_kind(closed.object), numeric_argument(id, args, closed.by), 0)
        }
        (_, Some(access)) => {
            let (context, peer) = (queries::context(), numeric_argument(id, args, access.by));
            Closing::begin(function, kind::opened_kind(access.object), context, peer)
        }
        _ => Closing::Nothing,
    };
    // A context matters if it may have entries in the table, or if the call has created it.
    let is_created = || {
        let named = function.ended_context().filter(|end| end.object == Object::Context);
        named.is_some_and(|end| contexts::device_of_created(numeric_argument(id, args, end.by)).is_some())
    };
    let is_known = !live::has_table() || live::has_exported() || live::has_other_entries() || is_created();
    let context =
        if is_known { queries::context_to_be_ended(id, args) } else { counted::counted_context_to_be_ended(id, args) };
    let begun = if are_rules_checked() && function.opens().is_some() { clock::now() } else { 0 };
    BeforeCall { taken, closing, context, begun }
}

/// Updates the table after a call has returned.
pub fn after_call(id: FnId, args: &[u8; MOST_ARGS], result: i32, before: &BeforeCall, origin: &CallOrigin) {
    let call = Returned { id, args, origin };
    trace_uses_of_shared(&call, result);
    if !live::has_table() {
        return;
    }
    if result != 0 {
        return call.restore_after_failure(result, before);
    }
    // Done first, because reading an entry as a whole costs more than all other steps here.
    if let Closing::Last(place) = before.closing {
        remove_closed_entry(&place, false, Some(&call));
    }
    for effect in id.spec().effects() {
        call.enter(effect, before);
    }
}

/// Enables tracing of the calls that matter once the process shares something.
fn trace_uses_of_shared(call: &Returned, result: i32) {
    let function = call.id.spec();
    let is_enabled = result == 0 || result == Result::PEER_ACCESS_ALREADY_ENABLED as i32;
    if is_enabled && function.shares() {
        traced::note_condition_met(HistoryCondition::Shared);
        if function.exports().is_none() {
            traced::note_condition_met(HistoryCondition::Reach);
        }
    }
    let events = function.opens().or(function.exports()).filter(|shared| shared.object == Object::Event);
    if let Some(event) = events.filter(|_| result == 0) {
        order::note_shared(call.number(event.by));
        traced::note_condition_met(HistoryCondition::Event);
    }
}

/// A call that has returned, with its arguments and its origin.
struct Returned<'a> {
    id: FnId,
    args: &'a [u8; MOST_ARGS],
    origin: &'a CallOrigin,
}

impl Returned<'_> {
    /// Returns an argument as a number.
    fn number(&self, argument: usize) -> u64 {
        numeric_argument(self.id, self.args, argument)
    }

    /// Returns the two fingerprints of the call's handle: of all bytes, and of the bytes that the driver checks. Returns `None`
    /// for a file descriptor whose open file has no number, because it cannot be told from others.
    fn fingerprints(&self, handle: usize) -> Option<(u64, u64)> {
        let at = self.id.spec().argument_byte_range(handle).start;
        Some((stored_word(self.args, at), stored_word(self.args, at + 8))).filter(|(fingerprint, _)| *fingerprint != 0)
    }

    /// Restores the entries of objects that a failed call did not end. If the call failed because access was already enabled,
    /// enters the access.
    fn restore_after_failure(&self, result: i32, before: &BeforeCall) {
        let function = self.id.spec();
        if let (Some(fingerprint), Some(end)) = (before.taken, function.ends()) {
            enter_export_address(self.number(end.by), fingerprint, self.origin);
        }
        before.closing.undo();
        if let Some(access) = function.enables()
            && result == Result::PEER_ACCESS_ALREADY_ENABLED as i32
        {
            self.enter_access(access);
        }
    }

    /// Updates the table for one effect of a call that succeeded.
    fn enter(&self, effect: &Effect, before: &BeforeCall) {
        match *effect {
            Effect::Exports(shared) => {
                if let Some(fingerprints) = self.fingerprints(shared.handle) {
                    self.enter_export(shared, fingerprints);
                }
            }
            Effect::Opens(shared) => {
                if let Some(fingerprints) = self.fingerprints(shared.handle) {
                    self.enter_opened(shared, fingerprints);
                    // Done last, because another thread may still note the end of the memory that was at this address.
                    let bytes = self.origin.about.memory.map_or(1, |(_, size)| size);
                    tombstones::note_memory_again(self.number(shared.by), bytes);
                }
            }
            Effect::Enables(access, _) => self.enter_access(access),
            Effect::Ends(end) => self.enter_end(end, before),
            Effect::Makes(Made { object: Object::Mapping, by, size: Some(size), .. }) => {
                tombstones::note_mapped(self.number(by), self.number(size));
            }
            // A program may use a reservation before anything is mapped there, beyond its end, or from a device without access.
            Effect::Makes(Made { object: Object::Reservation, .. }) if are_rules_checked() => {
                traced::note_condition_met(HistoryCondition::Gone);
            }
            // Closed objects and disabled access left the table before the call. The other effects do not change the table.
            _ => {}
        }
    }

    /// Updates the table for the end of an object.
    fn enter_end(&self, end: End, before: &BeforeCall) {
        let context = self.origin.about.ended;
        match end {
            _ if context != 0 => self.enter_end_of_context(context),
            End { object: Object::Mapping, by, size: Some(size), .. } => {
                let address = self.number(by);
                uses::forget(address);
                if are_rules_checked() {
                    let mapping = Entry { address, bytes: self.number(size), ..zero_entry() };
                    self.add_tombstone(EndKind::Unmapped, false, &mapping);
                }
            }
            End { object: Object::Reservation, by, size: Some(size), .. } => {
                let (start, bytes) = (self.number(by), self.number(size));
                if tombstones::first_gone_address(start, bytes).is_some() {
                    tombstones::note_unreserved(start, bytes, &self.entry_of_end(&zero_entry()));
                }
            }
            End { object, .. } => {
                if let Some(fingerprint) = before.taken {
                    self.enter_end_of_export(kind::exported_kind(object), fingerprint, 0);
                }
            }
        }
    }

    /// Enters an exported object, or counts another export of the same allocation.
    fn enter_export(&self, Shared { object, by, .. }: Shared, (fingerprint, checked): (u64, u64)) {
        let (kind, given) = (kind::exported_kind(object), self.number(by));
        let (address, bytes) = self.origin.about.memory.unwrap_or((given, 0));
        let key = fingerprint_key(kind, fingerprint);
        let known = live::find(key);
        match known {
            // The same allocation has the same handle when it is exported again.
            Some(place) if place.is_own() && place.opens_and_end().ended == 0 => {
                place.set_pointer_offset(given.wrapping_sub(address));
            }
            _ => {
                // A lookup would find the entry of an earlier export that ended before the new entry, so the earlier one is
                // removed.
                if let Some(old) = known.filter(|place| place.opens_and_end().ended != 0) {
                    old.free();
                }
                let inside = given.wrapping_sub(address);
                let new = Entry { fingerprint, checked, address, bytes, inside, ..new_entry(kind, key, self.origin) };
                if object.is_memory() {
                    uses::watch(address, bytes);
                }
                reclaim::insert(new);
            }
        }
        enter_export_address(address, fingerprint, self.origin);
        counted::note_export(address);
    }

    /// Enters an object of another process that this process has opened, or counts another open of it.
    fn enter_opened(&self, Shared { object, by, .. }: Shared, (fingerprint, checked): (u64, u64)) {
        let (kind, address) = (kind::opened_kind(object), self.number(by));
        if are_rules_checked() && (object.is_memory() || object == Object::Allocation) {
            // The owner may free the memory, and a use may go beyond its end.
            traced::note_condition_met(HistoryCondition::Gone);
        }
        let key = process_object_key(live::own_owner_number(), kind, address, 0);
        // A damaged copy of a handle leads to the same mapping if the bytes that the driver checks are the same.
        if let Some(place) =
            live::find_where(key, |place| place.checked_fingerprint() == checked && count_another_open(place))
        {
            place.count_opening();
            self.note_second_library(&place);
            return;
        }
        // Any other open object at this address ended in a way that we did not see. The thread that is closing an object removes
        // its entry.
        while let Some(place) = live::find_where(key, live::EntryRef::is_open)
            && place.checked_fingerprint() != checked
        {
            remove_closed_entry(&place, false, None);
        }
        let bytes = self.origin.about.memory.map_or(0, |(_, size)| size);
        if object.is_memory() {
            uses::watch(address, bytes);
        }
        let base = new_entry(kind, key, self.origin);
        reclaim::insert(Entry { fingerprint, checked, address, bytes, count: 1, inside: 1, ..base });
        let export = kind::export_kind_of(kind).and_then(|export| live::find(fingerprint_key(export, fingerprint)));
        if let Some(export) = export {
            export.change(|uses| Some(Uses { count: uses.count + 1, ..uses }));
        }
    }

    /// Sets a flag in the entry of an opened object if a second library opened it, and rules are checked.
    fn note_second_library(&self, place: &live::EntryRef) {
        let caller = self.origin.caller;
        // All libraries call the driver through the same code of the runtime, so its return address does not tell them apart.
        let is_same = || place.first_frame() == caller as u64 && !Caller::at(caller).is_runtime();
        if !are_rules_checked() || is_same() {
            return;
        }
        if place.read().is_some_and(|first| first.library != Caller::of(caller, self.id, true).file_name_array()) {
            let how = spec::opened::BY_OTHERS as u16;
            place.change(|uses| Some(Uses { ended: uses.ended | how, ..uses }));
        }
    }

    /// Notes the end of an export. Its entry stays while other processes have the memory open. If rules are checked, the entry
    /// stays longer, because it explains later calls with the handle.
    fn enter_end_of_export(&self, kind: u32, fingerprint: u64, how: u32) {
        let Some(export) = live::find(fingerprint_key(kind, fingerprint)) else { return };
        let is_memory = kind::exported_object(kind).is_some_and(Object::is_memory);
        let with_context = how & spec::ended::WITH_CONTEXT != 0;
        if let Some(entry) = is_memory.then(|| export.read()).flatten() {
            uses::forget(entry.address);
            if are_rules_checked() {
                self.add_tombstone(EndKind::Freed, with_context, &entry);
            }
        }
        // The count includes processes that ended without closing the memory.
        let open = if export.is_open() { importers(kind, fingerprint) } else { None };
        let (is_open, while_open) = (open.is_some(), open.is_some_and(|open| open.running > 0));
        let how = how | spec::ended::ENDED | if while_open { spec::ended::WHILE_OPEN } else { 0 };
        export.set_ended_at(clock::now());
        export.change(|uses| Some(Uses { ended: how as u16, ..uses }));
        if is_open && !with_context {
            live::count_freed_while_open();
        }
        if !is_open && !are_rules_checked() {
            export.free();
        }
    }

    /// Enters access to a peer context that a call enabled.
    fn enter_access(&self, Named { object, by }: Named) {
        let (context, peer, kind) = (queries::context(), self.number(by), kind::opened_kind(object));
        let key = process_object_key(live::own_owner_number(), kind, context, peer);
        // An entry whose access is being disabled has the count 0, and is not found.
        if live::find_where(key, live::EntryRef::is_open).is_some() {
            return;
        }
        let peer_uuid = queries::uuid(queries::device_of(peer));
        let base = new_entry(kind, key, self.origin);
        reclaim::insert(Entry { address: context, peer, count: 1, peer_uuid, ..base });
    }

    /// Updates the table for all objects of this process that ended with a context.
    fn enter_end_of_context(&self, context: u64) {
        live::each_own(|place| {
            let Some(entry) = place.read().filter(|_| place.ends_with(context)) else { return };
            if kind::exported_object(entry.kind).is_some() {
                // The export may have ended with an earlier context at this address, and stays as it is.
                if entry.ended == 0 {
                    forget_export_address(&entry);
                    self.enter_end_of_export(entry.kind, entry.fingerprint, spec::ended::WITH_CONTEXT);
                }
            } else {
                remove_closed_entry(&place, true, Some(self));
            }
        });
    }

    /// Adds a range of memory to the tombstones, because this call closed, unmapped, or freed it.
    fn add_tombstone(&self, end_kind: EndKind, with_context: bool, known: &Entry) {
        let Entry { address, bytes, fingerprint, .. } = *known;
        let entry = Entry { address, bytes, fingerprint, ..self.entry_of_end(known) };
        tombstones::add(end_kind, with_context, entry);
    }

    /// Returns an entry that describes this call as the end of a known object.
    fn entry_of_end(&self, known: &Entry) -> Entry {
        // The context may have ended with the object, so its facts come from the object's entry and not from the driver.
        let about = DriverFacts { context: known.peer, device: known.device, ..self.origin.about };
        new_entry(0, 0, &CallOrigin { about, ..*self.origin })
    }
}

/// Enters the fingerprint under which this process exported an address or event.
fn enter_export_address(address: u64, fingerprint: u64, origin: &CallOrigin) {
    let key = process_object_key(live::own_owner_number(), kind::OWNED, address, 0);
    match live::find(key) {
        Some(place) if place.fingerprint() == fingerprint => return,
        Some(old) => drop(old.free()),
        None => {}
    }
    let base = new_entry(kind::OWNED, key, &CallOrigin { caller: 0, head: 0, ..*origin });
    reclaim::insert(Entry { fingerprint, address, ..base });
}

/// Removes the entry that leads from an address or event to an export that ended with its context.
fn forget_export_address(export: &Entry) {
    let place = live::find(process_object_key(live::own_owner_number(), kind::OWNED, export.address, 0));
    if let Some(place) = place.filter(|place| place.fingerprint() == export.fingerprint) {
        place.free();
    }
}

/// Removes the entry of an object that is no longer open. `by` is the call that closed it; `None` if none was seen.
fn remove_closed_entry(place: &live::EntryRef, with_context: bool, by: Option<&Returned>) {
    let Some(entry) = place.read() else { return };
    let is_given_up = place.free();
    let Some(export) = kind::export_kind_of(entry.kind).filter(|_| is_given_up) else { return };
    if are_rules_checked() {
        let end_kind = match entry.kind {
            kind::OPENED_MEMORY => Some(EndKind::Closed),
            kind::OPENED_POINTER => Some(EndKind::Freed),
            _ => None,
        };
        if let (Some(end_kind), Some(by)) = (end_kind, by) {
            by.add_tombstone(end_kind, with_context, &entry);
        }
        // Only legacy IPC mappings are closed by their address, so only they can be closed twice.
        if entry.kind == kind::OPENED_MEMORY {
            let by = by.map(|by| Caller::of(by.origin.caller, by.id, false));
            closed::note(&entry, with_context, by.as_ref());
        }
    }
    if kind::opened_object(entry.kind).is_some_and(Object::is_memory) {
        uses::forget(entry.address);
    }
    reclaim::subtract_open_of_export(export, entry.fingerprint);
}

/// Returns a new entry of this process for a call, without the fields about the object.
fn new_entry(kind: u32, key: u64, origin: &CallOrigin) -> Entry {
    let Identity { pid, image, pid_ns, started } = process::identity();
    let mut frames = [0; MOST_FRAMES];
    let mut count = 0;
    if origin.caller != 0 {
        each_frame(origin.caller, MOST_FRAMES, |address| {
            frames[count] = address as u64;
            count += 1;
            true
        });
    }
    let (device, context) = match origin.about.context {
        0 => (queries::device_of_current_context(), queries::context()),
        context => (origin.about.device, context),
    };
    let caller = if count > 0 { Caller::first_outside_runtime(&frames[..count]) } else { Caller::default() };
    let mut entry = Entry {
        key,
        kind,
        device,
        pid,
        image,
        pid_ns,
        started,
        peer: context,
        // The same time is in the call's slot, which shows that the slot and the entry belong to one call.
        since: origin.start,
        monotonic: clock::now(),
        tid: tid(),
        frame_count: count as u32,
        uuid: queries::uuid(device),
        rank: crate::sys::environment::rank(),
        stack: process::own_stack_start(),
        offset: caller.offset as u64,
        library: caller.file_name_array(),
        head: origin.head,
        frames,
        ..zero_entry()
    };
    // Findings of other processes name the Python line in paragraphs, but not in one-line findings or in the report.
    if count > 0 && settings::get().check.as_ref().is_some_and(|check| !check.level.is_brief) {
        SourceLine::with_user_line(|line| {
            let name = line.file.text().rsplit('/').next().unwrap_or_default();
            entry.set_python_line(name.as_bytes(), line.line);
        });
    }
    entry
}

fn zero_entry() -> Entry {
    Entry::from_words([0; WORDS])
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
                let key = process_object_key(live::own_owner_number(), kind, address, 0);
                let entry = Entry { key, kind, address, monotonic, count: 1, ..zero_entry() };
                assert!(reclaim::insert(entry));
            };
            let is_owned = || entry_to_be_ended(FnId::cuMemFree_v2, &args).is_some();
            assert!(!is_owned());
            insert(kind::OWNED, 10);
            assert!(is_owned());
            // The context of the export is ending, and the address is another process's memory now.
            insert(kind::OPENED_POINTER, 20);
            assert!(!is_owned());
            let opened =
                live::find(process_object_key(live::own_owner_number(), kind::OPENED_POINTER, address, 0)).unwrap();
            assert!(opened.free());
            insert(kind::OPENED_POINTER, 5);
            assert!(is_owned());
        });
    }
}
