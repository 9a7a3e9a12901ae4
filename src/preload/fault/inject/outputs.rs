//! The outputs of a call: writes what faults put there, and undoes a call that succeeded.

use super::decide::CallFaults;
use super::{excuses, facts, handles, shared};
use crate::fault::forward::ForwardedCall;
use crate::resolve::driver;
use crate::sys::program_memory;
use cupeer_spec::fault::{OutputChange, OutputValue};
use cupeer_spec::function::{ArgSpec, Direction, FnId};
use cupeer_spec::value::Shareable;

/// Writes the value that a fault sets into an output of a call. Returns false if the call has no such output.
pub fn write_output(call: &ForwardedCall, out: &OutputChange) -> bool {
    let Some((arg, address, size)) = locate_output(call, out.argument) else { return false };
    let (step, is_handle) = (arg.value_size(), arg.is_ipc_handle());
    // SAFETY: after success the driver wrote that many bytes there.
    let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, size) };
    match out.value {
        OutputValue::Zero => bytes.fill(0),
        OutputValue::Number(number) => {
            let number = number.to_le_bytes();
            for element in bytes.chunks_mut(step.max(1)) {
                let length = element.len().min(number.len());
                element[..length].copy_from_slice(&number[..length]);
            }
        }
        OutputValue::Flip(at) => match bytes.get_mut(usize::from(at)) {
            Some(byte) => *byte = !*byte,
            None => return false,
        },
        OutputValue::Other => match handles::other_handle(arg, bytes) {
            Some(other) => bytes.copy_from_slice(&other),
            None => return false,
        },
    }
    if is_handle {
        if !matches!(out.value, OutputValue::Other) {
            // SAFETY: the 64 bytes of a handle are there.
            shared::add_damaged(unsafe { facts::fingerprint_at(address as u64) });
        }
    } else {
        let mut word = [0; 8];
        let length = bytes.len().min(8);
        word[..length].copy_from_slice(&bytes[..length]);
        excuses::note_written_output(call.id, u64::from_le_bytes(word));
    }
    true
}

/// Returns the specification of an output, its address, and its size in bytes: see [`OutputChange`].
fn locate_output(call: &ForwardedCall, argument: &str) -> Option<(&'static ArgSpec, usize, usize)> {
    let (index, arg) = call.id.spec().find_argument(argument)?;
    let address = *call.words.get(index)? as usize;
    let count = match arg.count_argument() {
        Some(count) => *call.words.get(count)? as usize,
        None => 1,
    };
    let kind = arg.handle_kind_argument().and_then(|kind| call.words.get(kind));
    let has_size = kind.is_none_or(|kind| *kind as i32 == Shareable::DESCRIPTOR);
    let is_output = matches!(arg.direction, Direction::Out | Direction::InOut) && address != 0;
    (is_output && has_size).then_some((arg, address, arg.value_size() * count))
}

impl CallFaults<'_> {
    /// Saves the values of the outputs before the call. The program may have passed any addresses.
    pub(super) fn save_outputs(&mut self) {
        for (place, (address, size)) in self.outputs.iter_mut().zip(outputs_to_save(self.call)) {
            let mut word = [0; 8];
            if address != 0 && program_memory::copy(address, &mut word[..size]) == size {
                *place = Some(u64::from_le_bytes(word));
            }
        }
    }

    fn restore_outputs(&self) {
        for (saved, (address, size)) in self.outputs.iter().zip(outputs_to_save(self.call)) {
            if let Some(saved) = saved {
                // SAFETY: the driver wrote that many bytes there.
                unsafe { core::ptr::copy_nonoverlapping(saved.to_le_bytes().as_ptr(), address as *mut u8, size) };
            }
        }
    }

    /// Undoes the effect of the driver's call. Returns false if that failed.
    pub(super) fn undo(&self) -> bool {
        let function = self.call.id.spec();
        let Some((inverse, given)) = function.undone_by() else { return false };
        let arg = &function.args()[given.by];
        let word = |index: usize| self.call.words.get(index).copied().unwrap_or(0);
        let (size, word) = (given.size.map(word), word(given.by));
        let value = if matches!(arg.direction, Direction::In) {
            word
        } else if word == 0 {
            return false;
        } else {
            // SAFETY: after success the driver wrote there; it is not null.
            unsafe { (word as *const u64).read_unaligned() }
        };
        if !call_driver(inverse, value, size) {
            return false;
        }
        self.restore_outputs();
        true
    }
}

/// Returns the address of each output of a call, and the number of its bytes that are saved.
fn outputs_to_save(call: &ForwardedCall) -> impl Iterator<Item = (usize, usize)> {
    let args = call.id.spec().args().iter().zip(call.words);
    let outputs = args.filter(|(arg, _)| matches!(arg.direction, Direction::Out));
    outputs.map(|(arg, word)| (*word as usize, arg.value_size().min(8)))
}

/// Calls a function of the driver that undoes an earlier call. Returns true if the function succeeds.
fn call_driver(id: FnId, value: u64, size: Option<u64>) -> bool {
    let address = driver::real(id);
    if address == 0 {
        return false;
    }
    // SAFETY: the functions that undo something take one word, or two with a size, and return a result: a test walks the
    // table. They release an object that the driver just returned, and that the program has not seen.
    let result = unsafe {
        match size {
            None => core::mem::transmute::<usize, unsafe extern "C" fn(u64) -> i32>(address)(value),
            Some(size) => core::mem::transmute::<usize, unsafe extern "C" fn(u64, u64) -> i32>(address)(value, size),
        }
    };
    result == 0
}
