//! Driver queries about a call that has returned, for its record.

use super::questions::{
    Allocation, allocation, context, device, device_of, device_of_allocation, has_ended, number,
    several_devices,
};
use super::{contexts, model, questions};
use cupeer_spec::effect::{Named, Object, Shared};
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::slot::{MOST_ARGS, detail};
use cupeer_spec::results::Result;

/// What the driver says of that which a call is about.
#[derive(Clone, Copy, Default)]
pub struct DriverFacts {
    /// The allocation, where the call succeeded: its start and size.
    pub memory: Option<(u64, u64)>,
    /// The context that it belongs to, with its device; or else the current one.
    pub context: u64,
    pub device: i32,
    /// The device of an allocation that the call has imported.
    pub home: Option<i32>,
    /// The context that the call has ended; 0 where it has ended none.
    pub ended: u64,
}

/// Takes what the driver says of a call: which detail it is, and its bytes.
pub type Note<'a> = &'a mut dyn FnMut(u8, &[u8]);

/// Asks what the driver says of a call that has returned, and gives it to `note`. `context` is what it would end, and `ended` what it
/// has ended.
pub fn ask(
    id: FnId,
    args: &[u8; MOST_ARGS],
    result: i32,
    (context, ended): (u64, u64),
    note: Note,
) -> DriverFacts {
    if id.spec().library != Library::Cuda {
        return DriverFacts::default();
    }
    let mut about = DriverFacts::default();
    let function = id.spec();
    if let Some(Shared { object, by, .. }) = function.exports().or(function.opens()) {
        // Drivers take events of the current context only.
        // A question that fails would stand in the driver's log.
        let is_asked = result == 0 && object.is_memory();
        let allocation = if is_asked { allocation(number(id, args, by)) } else { None };
        if let Some(Allocation { range: (base, size), .. }) = allocation {
            note(detail::MEMORY, [base, size].map(u64::to_le_bytes).as_flattened());
        }
        devices(note, -1, result, &mut about);
        if let Some(several) = (result == 0).then(several_devices).flatten() {
            note(detail::CONTEXTS, &several.to_le_bytes());
        }
        about.memory = allocation.map(|known| known.range);
        // It need not lie on the device of the context.
        let is_export = result == 0 && function.exports().is_some();
        if is_export && matches!(object, Object::Allocation | Object::Pool) {
            let name = number(id, args, by);
            let own = match object {
                Object::Pool => model::pool(name).and_then(|pool| pool.device),
                _ => device_of_allocation(name),
            };
            let own = own.filter(|device| *device >= 0);
            about.device = own.unwrap_or(about.device);
        }
        if result == 0 && !is_export && object == Object::Allocation {
            about.home = device_of_allocation(number(id, args, by)).filter(|device| *device >= 0);
            if let Some(device) = about.home {
                note(detail::OWNER, [0, device as u64].map(u64::to_le_bytes).as_flattened());
            }
        }
        if let Some(known) = allocation.filter(|_| function.exports().is_some()) {
            (about.context, about.device) = (known.context, known.device);
            note(detail::OWNER, [known.context, known.device as u64].map(u64::to_le_bytes).as_flattened());
        }
    } else if let Some(Named { by, .. }) = function.enables().or(function.disables()) {
        // With any other result the context may be none.
        const WITH_CONTEXT: [Result; 5] = [
            Result::SUCCESS,
            Result::PEER_ACCESS_ALREADY_ENABLED,
            Result::PEER_ACCESS_NOT_ENABLED,
            Result::PEER_ACCESS_UNSUPPORTED,
            Result::TOO_MANY_PEERS,
        ];
        let is_context = WITH_CONTEXT.iter().any(|known| *known as i32 == result);
        let peer = if is_context { device_of(number(id, args, by)) } else { -1 };
        devices(note, peer, result, &mut about);
    } else if let Some(end) = function.ends_context() {
        about.ended = ended;
        // What is destroyed by its name is gone, whether anything is known of it or not.
        let is_named = result == 0 && end.object == Object::Context && !end.is_counted;
        let gone = if is_named { number(id, args, end.by) } else { about.ended };
        if gone != 0 {
            contexts::has_ended(gone);
        }
        // Of a release this says that it was the last.
        if end.object == Object::Primary && (result != 0 || about.ended != 0) {
            let device = number(id, args, end.by) as i32;
            note(detail::DEVICES, [device, -1].map(i32::to_le_bytes).as_flattened());
        }
        if about.ended != 0 || result != 0 && context != 0 {
            note(detail::CONTEXT, &context.to_le_bytes());
        }
    } else if function.records().is_some() || function.allocates().is_some() {
        devices(note, -1, result, &mut about);
    } else if function.closes().is_some() && result == Result::INVALID_CONTEXT as i32 {
        about.context = questions::context();
        note(detail::CONTEXT, &about.context.to_le_bytes());
    }
    about
}

/// The context that a call has ended; 0 where it has ended none. `context` is what it would end, 0 where that is not known.
pub fn ended(id: FnId, args: &[u8; MOST_ARGS], result: i32, context: u64) -> u64 {
    let Some(end) = id.spec().ends_context() else { return 0 };
    let device = number(id, args, end.by) as i32;
    if end.object == Object::Primary && context == 0 {
        contexts::forget_primary(device);
    }
    // Where nothing is known that could end, nothing is asked: no context may be current any more.
    let is_gone = result == 0 && context != 0 && has_ended(end, device, context);
    if is_gone { context } else { 0 }
}

fn devices(note: Note, peer: i32, result: i32, about: &mut DriverFacts) {
    // The same: of a context that is gone nothing is asked.
    about.device = if result == Result::CONTEXT_IS_DESTROYED as i32 { -1 } else { device() };
    about.context = context();
    if result != Result::CONTEXT_IS_DESTROYED as i32 {
        contexts::is_current(about.context);
    }
    note(detail::DEVICES, [about.device, peer].map(i32::to_le_bytes).as_flattened());
    note(detail::CONTEXT, &about.context.to_le_bytes());
}
