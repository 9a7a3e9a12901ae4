//! Tracks facts that the calls of this process show, noted as they return, for later readers.
//!
//! One thread at a time uses a book, and a reader learns if something was not noted. The module that keeps a book
//! supplies the type and the number of entries.

use super::lock::Lock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub struct Book<T> {
    entries: UnsafeCell<T>,
    lock: Lock,
    has_missed: AtomicBool,
}

// SAFETY: the entries are used only with the lock, by one thread at a time.
unsafe impl<T: Send> Sync for Book<T> {}

impl<T> Book<T> {
    pub const fn new(entries: T) -> Self {
        Book { entries: UnsafeCell::new(entries), lock: Lock::new(), has_missed: AtomicBool::new(false) }
    }

    /// Does something with the entries; `None` if another thread uses them for too long.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut done = None;
        self.lock.with(|| {
            // SAFETY: nobody else uses them, because the lock is held.
            done = Some(work(unsafe { &mut *self.entries.get() }));
        });
        done
    }

    /// Notes something.
    pub fn note(&self, work: impl FnOnce(&mut T)) {
        if self.with(work).is_none() {
            self.miss();
        }
    }

    /// Notes that a fact was lost.
    pub fn miss(&self) {
        self.has_missed.store(true, Relaxed);
    }

    /// Returns true if nothing was missed, and the entries have space for everything, which `has_all` tells.
    pub fn is_whole(&self, has_all: impl FnOnce(&mut T) -> bool) -> bool {
        !self.has_missed.load(Relaxed) && self.with(has_all) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Book;

    #[test]
    fn facts_that_cannot_be_noted_are_missed() {
        let book = Book::new(0);
        book.note(|entries| *entries += 1);
        assert!(book.is_whole(|entries| *entries == 1) && !book.is_whole(|entries| *entries == 2));
        book.with(|_| book.note(|entries| *entries += 1));
        assert!(!book.is_whole(|_| true) && book.with(|entries| *entries) == Some(1));
    }
}
