//! Values that one thread at a time takes and then returns, because the program's stack may be too small for
//! them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

pub struct ExclusiveValue<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}
// SAFETY: only the one thread that took the value uses it.
unsafe impl<T: Send> Sync for ExclusiveValue<T> {}

impl<T> ExclusiveValue<T> {
    pub const fn new(value: T) -> ExclusiveValue<T> {
        ExclusiveValue { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value. `None` if another thread has the value, or the call that this signal handler
    /// interrupted has it.
    pub fn take(&'static self) -> Option<TakenValue<T>> {
        let is_free =
            !self.is_taken.load(Relaxed) && self.is_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        // Not `then_some`: a `Taken` that is dropped makes the value free.
        is_free.then(|| TakenValue(self))
    }
}

/// Value that this thread took out of its [`ExclusiveValue`]; dropping this returns the value.
pub struct TakenValue<T: 'static>(&'static ExclusiveValue<T>);

impl<T> TakenValue<T> {
    /// Returns the address of the value, through which the same thread may change the value.
    pub fn as_ptr(&self) -> *mut T {
        self.0.value.get()
    }
}

impl<T> Deref for TakenValue<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread took the value, and no other uses it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TakenValue<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread took the value, and no other uses it.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TakenValue<T> {
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
        static SHELF: ExclusiveValue<u32> = ExclusiveValue::new(1);
        let taken = SHELF.take();
        assert!(taken.is_some() && SHELF.take().is_none() && SHELF.take().is_none());
        drop(taken);
        assert!(SHELF.take().is_some());
    }
}
