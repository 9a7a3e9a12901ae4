//! The Python functions that calls came from. Each is described in the record before its number is used.

use super::about;
use crate::sys::every_call::epoch;
use crate::sys::python::Frame;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// The most functions that have numbers. The Python frames of a call end before a function without one.
const MOST: usize = 8192;
/// The number of places in which a function can be.
const PLACES: usize = 512;

/// A function by its key, and the epoch of the record that knows it. Its number is its place, from 1 on.
struct Numbered {
    /// 0 if the place is free.
    key: AtomicU64,
    epoch: AtomicU64,
}

static NUMBERED: [Numbered; MOST] =
    [const { Numbered { key: AtomicU64::new(0), epoch: AtomicU64::new(0) } }; MOST];

/// The places in which the function of a key can be.
fn places(key: u64) -> impl Iterator<Item = usize> {
    (0..PLACES).map(move |i| (key as usize).wrapping_add(i) % MOST)
}

/// Returns true if the record knows the function of a key.
pub fn is_known(key: u64) -> bool {
    let key = key.max(1);
    let taken = places(key).map(|place| (&NUMBERED[place], NUMBERED[place].key.load(Acquire)));
    let found = taken.take_while(|(_, taken)| *taken != 0).find(|(_, taken)| *taken == key);
    found.is_some_and(|(numbered, _)| numbered.epoch.load(Acquire) == epoch())
}

/// Returns the number of the function of a frame, after describing it in the record; `None` if all its places are taken.
pub fn number(frame: &Frame) -> Option<u32> {
    let key = frame.key.max(1);
    for place in places(key) {
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
        let epoch = epoch();
        if numbered.epoch.load(Acquire) != epoch {
            // Two threads may describe it at once, which does no harm.
            about::function_of_python(number, frame.first_line, frame.texts.as_ref()?);
            numbered.epoch.store(epoch, Release);
        }
        return Some(number);
    }
    None
}
