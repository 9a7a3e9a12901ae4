//! Builds calls to put into a record.

use crate::event::{Call, CallDetails, Outcome};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, shape};

/// Returns a call that succeeded, with arguments that are all zero.
pub fn call(function: FnId, start: u64, end: u64) -> Call {
    let number = function as u16;
    let word = slot::slot_word(slot::RETURNED, 1, number, 0);
    Call {
        stream: 0,
        seq: 0,
        tid: 0,
        function: Some(function),
        number,
        start,
        end,
        outcome: Outcome::Returned(0),
        injected: false,
        caller: 0,
        slot: Slot { word, start, end, caller: 0, args: [0; ARGS], result: 0 },
        details: CallDetails::default(),
    }
}

/// Sets the bytes of an argument.
///
/// # Panics
///
/// The function has no argument of this name, or stores it in another number of bytes.
pub fn set(call: &mut Call, name: &str, bytes: &[u8]) {
    let (at, size, _) = argument_place(call, name);
    if let Some(place) = call.slot.args.get_mut(at..at + size) {
        return place.copy_from_slice(bytes);
    }
    call.details.arguments.resize(MOST_ARGS, 0);
    call.details.arguments[at..at + size].copy_from_slice(bytes);
}

/// Sets the known parts of an argument: see [`shape`].
///
/// # Panics
///
/// The function has no argument of this name.
pub fn set_shape(call: &mut Call, name: &str, known: u64) {
    let shift = shape::shift(argument_place(call, name).2);
    call.slot.caller = call.slot.caller & !(3 << shift) | known << shift;
}

/// Returns the offset of an argument, its size in bytes, and its index.
fn argument_place(call: &Call, name: &str) -> (usize, usize, usize) {
    let args = call.function.map_or(&[][..], |function| function.spec().args());
    let index = args.iter().position(|arg| arg.name() == name);
    let index = index.unwrap_or_else(|| panic!("function {} has no argument {name}", call.number));
    (args[..index].iter().map(|arg| arg.stored_size()).sum(), args[index].stored_size(), index)
}
