//! Tracks facts that the calls of this process show, noted as they return, for later readers.
//!
//! One thread at a time uses a book, and a reader learns if something was not noted. The module that keeps a book
//! supplies the type and the number of entries.

use super::lock::Lock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub struct LockedFacts<T> {
    entries: UnsafeCell<T>,
    lock: Lock,
    has_missed: AtomicBool,
}

// SAFETY: the entries are used only with the lock, by one thread at a time.
unsafe impl<T: Send> Sync for LockedFacts<T> {}

impl<T> LockedFacts<T> {
    pub const fn new(entries: T) -> Self {
        LockedFacts { entries: UnsafeCell::new(entries), lock: Lock::new(), has_missed: AtomicBool::new(false) }
    }

    /// Does work with the entries. Returns `None` if another thread uses them for too long.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut done = None;
        self.lock.with(|| {
            // SAFETY: nobody else uses them, because the lock is held.
            done = Some(work(unsafe { &mut *self.entries.get() }));
        });
        done
    }

    /// Does work that notes a fact in the entries. If another thread uses them for too long, counts the fact as missed.
    pub fn note(&self, work: impl FnOnce(&mut T)) {
        if self.with(work).is_none() {
            self.note_missed();
        }
    }

    /// Counts a fact as missed, so that readers know that the entries are incomplete.
    pub fn note_missed(&self) {
        self.has_missed.store(true, Relaxed);
    }

    /// Returns true if no fact was missed, and `has_all` returns true for the entries, because they had space for every fact.
    pub fn has_all_facts(&self, has_all: impl FnOnce(&mut T) -> bool) -> bool {
        !self.has_missed.load(Relaxed) && self.with(has_all) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::LockedFacts;

    #[test]
    fn facts_that_cannot_be_noted_are_missed() {
        let book = LockedFacts::new(0);
        book.note(|entries| *entries += 1);
        assert!(book.has_all_facts(|entries| *entries == 1) && !book.has_all_facts(|entries| *entries == 2));
        book.with(|_| book.note(|entries| *entries += 1));
        assert!(!book.has_all_facts(|_| true) && book.with(|entries| *entries) == Some(1));
    }
}
