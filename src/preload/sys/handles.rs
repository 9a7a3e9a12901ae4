//! Tracks handles of the driver, with data about each.
//!
//! Readers take no lock and write nothing. Those that change the table take turns; if one cannot, no handle is known from then
//! on. If there is no room for a handle, it is not known.

use super::book::LockedFacts;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Number of places that are searched for one handle.
const WINDOW: usize = 32;
/// Value of [`HandleSlot::handle`] for an entry that was used before and is free. It cannot be a handle, because
/// drivers return addresses as handles.
const FREE: u64 = 1;

/// Data about a handle, with a value for entries without data.
pub trait Blank {
    const BLANK: Self;
}

struct HandleSlot<T> {
    /// The handle; 0 if the place was never used, or [`FREE`].
    handle: AtomicU64,
    known: T,
}

/// A table with room for data about `N` handles. `N` is a power of two.
pub struct Handles<T, const N: usize> {
    places: [HandleSlot<T>; N],
    /// Lock for the threads that change the places.
    writer: LockedFacts<()>,
    /// True if any handle was ever noted.
    has_any: AtomicBool,
    /// True if a change was missed. After that, no handle is found.
    is_lost: AtomicBool,
}

impl<T: Blank, const N: usize> Handles<T, N> {
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Handles {
            places: [const { HandleSlot { handle: AtomicU64::new(0), known: T::BLANK } }; N],
            writer: LockedFacts::new(()),
            has_any: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Returns true if any handle was ever noted.
    pub fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }

    fn slots_to_probe(&self, handle: u64) -> impl Iterator<Item = &HandleSlot<T>> {
        let first = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - N.ilog2())) as usize;
        (0..WINDOW).map(move |step| &self.places[(first + step) % N])
    }

    fn find_slot(&self, handle: u64) -> Option<&HandleSlot<T>> {
        if !is_handle(handle) || self.is_lost.load(Relaxed) {
            return None;
        }
        let is_used = |place: &&HandleSlot<T>| place.handle.load(Acquire) != 0;
        self.slots_to_probe(handle).take_while(is_used).find(|place| place.handle.load(Acquire) == handle)
    }

    /// Returns the data about a handle; `None` if it is not known.
    #[inline]
    pub fn find(&self, handle: u64) -> Option<&T> {
        self.find_slot(handle).map(|place| &place.known)
    }

    fn change(&self, work: impl FnOnce()) {
        if self.writer.with(|()| work()).is_none() {
            self.is_lost.store(true, Relaxed);
        }
    }

    /// Adds a handle, or replaces its data: `write` stores the data. Lookups do not find the handle before the data is
    /// written.
    pub fn note(&self, handle: u64, write: impl FnOnce(&T)) {
        self.change(|| {
            let known = self.slots_to_probe(handle).find(|place| place.handle.load(Relaxed) == handle);
            let free = || self.slots_to_probe(handle).find(|place| !is_handle(place.handle.load(Relaxed)));
            let Some(place) = known.or_else(free) else { return };
            self.has_any.store(true, Relaxed);
            place.handle.store(FREE, Release);
            write(&place.known);
            place.handle.store(handle, Release);
        });
    }

    /// Forgets a handle.
    pub fn forget(&self, handle: u64) {
        if self.has_any() && self.find_slot(handle).is_some() {
            self.change(|| self.find_slot(handle).into_iter().for_each(|place| place.handle.store(FREE, Release)));
        }
    }

    /// Forgets the handles for whose data `is_over` returns true.
    pub fn forget_all(&self, is_over: impl Fn(&T) -> bool) {
        // A process that exits unloads hundreds of handles that were never noted.
        if !self.has_any() {
            return;
        }
        let is_over = |place: &&HandleSlot<T>| is_handle(place.handle.load(Relaxed)) && is_over(&place.known);
        self.change(|| self.places.iter().filter(is_over).for_each(|place| place.handle.store(FREE, Release)));
    }
}

/// Returns true if a number can be a handle.
pub fn is_handle(number: u64) -> bool {
    number > FREE
}
