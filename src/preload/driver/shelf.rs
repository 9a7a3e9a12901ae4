//! Values that one thread at a time takes and then returns, because the program's stack may be too small for
//! them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

pub struct Shelf<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}
// SAFETY: only the one thread that took the value uses it.
unsafe impl<T: Send> Sync for Shelf<T> {}

impl<T> Shelf<T> {
    pub const fn new(value: T) -> Shelf<T> {
        Shelf { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value. `None` if another thread has the value, or the call that this signal handler
    /// interrupted has it.
    pub fn take(&'static self) -> Option<Taken<T>> {
        let is_free = !self.is_taken.load(Relaxed)
            && self.is_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        // Not `then_some`: a `Taken` that is dropped makes the value free.
        is_free.then(|| Taken(self))
    }
}

/// Value that this thread has taken, until dropped.
pub struct Taken<T: 'static>(&'static Shelf<T>);

impl<T> Taken<T> {
    /// Returns the address of the value, through which the same thread may change the value.
    pub fn as_ptr(&self) -> *mut T {
        self.0.value.get()
    }
}

impl<T> Deref for Taken<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread took the value, and no other uses it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Taken<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread took the value, and no other uses it.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Taken<T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.is_taken.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_value() {
        static SHELF: Shelf<u32> = Shelf::new(1);
        let taken = SHELF.take();
        assert!(taken.is_some() && SHELF.take().is_none() && SHELF.take().is_none());
        drop(taken);
        assert!(SHELF.take().is_some());
    }
}
