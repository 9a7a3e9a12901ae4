//! The Python functions that calls came from. Each is described in the record before its number is used.

use super::about;
use crate::sys::every_call::recording_epoch;
use crate::sys::python::PythonFrame;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// Largest number of Python functions that get numbers. The list of a call's Python frames ends before the first function without
/// a number.
const MOST: usize = 8192;
/// Number of places that are searched for one function.
const SEARCHED_PLACES: usize = 512;

/// A Python function that has a number. The number is the index of its place plus 1.
struct NumberedFunction {
    /// Key of the function; 0 if the place is free.
    key: AtomicU64,
    epoch: AtomicU64,
}

static NUMBERED: [NumberedFunction; MOST] =
    [const { NumberedFunction { key: AtomicU64::new(0), epoch: AtomicU64::new(0) } }; MOST];

/// Returns the places in which a function with this key can be.
fn probe_indexes(key: u64) -> impl Iterator<Item = usize> {
    (0..SEARCHED_PLACES).map(move |i| (key as usize).wrapping_add(i) % MOST)
}

/// Returns true if the record describes the function with this key.
pub fn is_known(key: u64) -> bool {
    let key = key.max(1);
    let taken = probe_indexes(key).map(|place| (&NUMBERED[place], NUMBERED[place].key.load(Acquire)));
    let found = taken.take_while(|(_, taken)| *taken != 0).find(|(_, taken)| *taken == key);
    found.is_some_and(|(numbered, _)| numbered.epoch.load(Acquire) == recording_epoch())
}

/// Returns the number of a frame's function, after describing the function in the record; `None` if all of its places are taken.
pub fn number_of_function(frame: &PythonFrame) -> Option<u32> {
    let key = frame.key.max(1);
    for place in probe_indexes(key) {
        let numbered = &NUMBERED[place];
        let taken = numbered.key.load(Acquire);
        let taken = match taken {
            0 => numbered.key.compare_exchange(0, key, AcqRel, Acquire).map_or_else(|other| other, |_| key),
            taken => taken,
        };
        if taken != key {
            continue;
        }
        let number = place as u32 + 1;
        let epoch = recording_epoch();
        if numbered.epoch.load(Acquire) != epoch {
            // Two threads may describe the same function at once, which is harmless.
            about::add_python_function(number, frame.first_line, frame.texts.as_ref()?);
            numbered.epoch.store(epoch, Release);
        }
        return Some(number);
    }
    None
}
