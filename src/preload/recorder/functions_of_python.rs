//! The Python functions that calls came from. Each is described in the record before its number is used.

use super::about;
use crate::sys::every_call::epoch;
use crate::sys::python::Frame;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// The most functions that have numbers; the frames of a call end before one of another.
const MOST: usize = 8192;
/// How many places are looked at for one.
const LOOKS: usize = 512;

/// A function by its key, and the record that knows it. Its number is its place, from 1 on.
struct Numbered {
    /// 0 where there is none.
    key: AtomicU64,
    epoch: AtomicU64,
}

static NUMBERED: [Numbered; MOST] =
    [const { Numbered { key: AtomicU64::new(0), epoch: AtomicU64::new(0) } }; MOST];

/// Whether the record knows the function of a key.
pub fn is_known(key: u64) -> bool {
    let key = key.max(1);
    let places = (0..LOOKS).map(|look| &NUMBERED[(key as usize).wrapping_add(look) % MOST]);
    let taken = places.map(|numbered| (numbered, numbered.key.load(Acquire)));
    let found = taken.take_while(|(_, taken)| *taken != 0).find(|(_, taken)| *taken == key);
    found.is_some_and(|(numbered, _)| numbered.epoch.load(Acquire) == epoch())
}

/// The number of the function of a frame, which the record knows then; `None` where there is no room.
pub fn number(frame: &Frame) -> Option<u32> {
    let key = frame.key.max(1);
    for look in 0..LOOKS {
        let place = (key as usize).wrapping_add(look) % MOST;
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
            // Two threads may describe it at once; that says nothing wrong.
            about::function_of_python(number, frame.first_line, frame.texts.as_ref()?);
            numbered.epoch.store(epoch, Release);
        }
        return Some(number);
    }
    None
}
