//! Driver queries about a call that has returned, for its record.

use super::queries::{
    Allocation, allocation, changed_devices, context, device_of, device_of_allocation, device_of_current_context,
    has_ended, numeric_argument,
};
use super::{contexts, model, queries};
use cupeer_spec::effect::{End, Named, Object, Shared};
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::slot::{MOST_ARGS, detail};
use cupeer_spec::results::Result;

/// Answers of the driver to the queries about a call that returned: see [`query_about_call`].
#[derive(Clone, Copy, Default)]
pub struct DriverFacts {
    /// Start address and size in bytes of the allocation, if the call succeeded.
    pub memory: Option<(u64, u64)>,
    /// Context of the allocation; if there is no allocation, the current context.
    pub context: u64,
    /// Device of `context`; -1 if it is not known.
    pub device: i32,
    /// Device of an allocation that the call imported.
    pub import_device: Option<i32>,
    /// Context that the call ended; 0 for none.
    pub ended: u64,
}

/// Function that receives an answer: the kind of the detail in the record, and the bytes of the detail.
pub type Note<'a> = &'a mut dyn FnMut(u8, &[u8]);

/// Queries the driver about a call that returned, and gives the answers to `note`. `context` is the context that the call was to
/// end, and `ended` is the context that the call ended; 0 for none.
pub fn query_about_call(
    id: FnId,
    args: &[u8; MOST_ARGS],
    result: i32,
    (context, ended): (u64, u64),
    note: Note,
) -> DriverFacts {
    let mut about = DriverFacts::default();
    let function = id.spec();
    if function.library != Library::Cuda {
        return about;
    }
    if let Some(shared) = function.exports().or(function.opens()) {
        ask_about_shared(id, args, result, shared, note, &mut about);
    } else if let Some(Named { by, .. }) = function.enables().or(function.disables()) {
        // Results with which the current context can be queried. With any other result, the context may be invalid.
        const WITH_CONTEXT: [Result; 5] = [
            Result::SUCCESS,
            Result::PEER_ACCESS_ALREADY_ENABLED,
            Result::PEER_ACCESS_NOT_ENABLED,
            Result::PEER_ACCESS_UNSUPPORTED,
            Result::TOO_MANY_PEERS,
        ];
        let is_context = WITH_CONTEXT.iter().any(|known| *known as i32 == result);
        let peer = if is_context { device_of(numeric_argument(id, args, by)) } else { -1 };
        query_device_and_context(note, peer, result, &mut about);
    } else if let Some(end) = function.ended_context() {
        about.ended = ended;
        note_ended(end, numeric_argument(id, args, end.by), result, (context, ended), note);
    } else if function.records().is_some() || function.allocated_memory().is_some() {
        query_device_and_context(note, -1, result, &mut about);
    } else if function.closes().is_some() && result == Result::INVALID_CONTEXT as i32 {
        about.context = queries::context();
        note(detail::CONTEXT, &about.context.to_le_bytes());
    }
    about
}

/// Queries the driver about an object that a call exported or opened, and gives the answers to `note`.
fn ask_about_shared(
    id: FnId,
    args: &[u8; MOST_ARGS],
    result: i32,
    Shared { object, by, .. }: Shared,
    note: Note,
    about: &mut DriverFacts,
) {
    // An event has no allocation, so it is not queried: a query that fails would appear in the driver's log.
    let has_allocation = result == 0 && object.is_memory();
    let allocation = if has_allocation { allocation(numeric_argument(id, args, by)) } else { None };
    if let Some(Allocation { range: (base, size), .. }) = allocation {
        note(detail::MEMORY, [base, size].map(u64::to_le_bytes).as_flattened());
    }
    query_device_and_context(note, -1, result, about);
    if result != 0 {
        return;
    }
    if let Some(several) = changed_devices() {
        note(detail::CONTEXTS, &several.to_le_bytes());
    }
    about.memory = allocation.map(|known| known.range);
    let is_export = id.spec().exports().is_some();
    let mut note_owner = |owner: [u64; 2]| note(detail::OWNER, owner.map(u64::to_le_bytes).as_flattened());
    // The object need not be on the device of the current context.
    let home = match object {
        Object::Pool if is_export => model::pool(numeric_argument(id, args, by)).and_then(|pool| pool.device),
        Object::Allocation => device_of_allocation(numeric_argument(id, args, by)),
        _ => None,
    };
    match home.filter(|device| *device >= 0) {
        Some(device) if is_export => about.device = device,
        Some(device) => {
            about.import_device = Some(device);
            note_owner([0, device as u64]);
        }
        None => {}
    }
    if let Some(known) = allocation.filter(|_| is_export) {
        (about.context, about.device) = (known.context, known.device);
        note_owner([known.context, known.device as u64]);
    }
}

/// Adds the end of a context to the contexts that ended, and to the details of its call. `named` is the argument that
/// names the context or its device.
fn note_ended(end: End, named: u64, result: i32, (context, ended): (u64, u64), note: Note) {
    // A context that is destroyed by its handle ended, even if nothing is known about it.
    let is_destroyed = result == 0 && end.object == Object::Context && !end.is_counted;
    let gone = if is_destroyed { named } else { ended };
    if gone != 0 {
        contexts::note_ended(gone);
    }
    // A reader takes this detail of a successful release to mean that the release was the last one. For a failed release, it
    // only names the device.
    if end.object == Object::Primary && (result != 0 || ended != 0) {
        note(detail::DEVICES, [named as i32, -1].map(i32::to_le_bytes).as_flattened());
    }
    if ended != 0 || result != 0 && context != 0 {
        note(detail::CONTEXT, &context.to_le_bytes());
    }
}

/// Returns the context that a call ended; 0 for none. `context` is the context that the call was to end; 0 if it is not known.
pub fn find_ended_context(id: FnId, args: &[u8; MOST_ARGS], result: i32, context: u64) -> u64 {
    let Some(end) = id.spec().ended_context() else { return 0 };
    let device = numeric_argument(id, args, end.by) as i32;
    if end.object == Object::Primary && context == 0 {
        contexts::forget_primary(device);
    }
    // Without a known context there is no query: no context may be current any more.
    let is_gone = result == 0 && context != 0 && has_ended(end, device, context);
    if is_gone { context } else { 0 }
}

fn query_device_and_context(note: Note, peer: i32, result: i32, about: &mut DriverFacts) {
    // A context that ended allows no queries.
    about.device = if result == Result::CONTEXT_IS_DESTROYED as i32 { -1 } else { device_of_current_context() };
    about.context = context();
    if result != Result::CONTEXT_IS_DESTROYED as i32 {
        contexts::note_current(about.context);
    }
    note(detail::DEVICES, [about.device, peer].map(i32::to_le_bytes).as_flattened());
    note(detail::CONTEXT, &about.context.to_le_bytes());
}
