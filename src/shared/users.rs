//! Counts the users of published objects, so that an object is released only after it was taken back and its
//! last user is done.

use crate::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Release},
};

/// Number of threads that are using an object.
#[derive(Default, Debug)]
pub struct UserCount(AtomicU32);

impl UserCount {
    /// Creates a count without users.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Self {
        UserCount(AtomicU32::new(0))
    }

    /// Returns true if the object has no user, now and later. Call this only after the pointer that published
    /// the object was taken back.
    pub fn is_unused(&self) -> bool {
        // A load might miss a user. A thread that registers after this addition sees that the object was
        // taken back.
        self.0.fetch_add(0, AcqRel) == 0
    }
}

/// Registers the calling thread as a user of all objects in `all`, if `published` still holds `pointer`. Returns true
/// if it does. Otherwise, the thread is not registered.
pub fn register_user<'a, T>(
    published: &AtomicPtr<T>,
    pointer: *mut T,
    all: impl Iterator<Item = &'a UserCount> + Clone,
) -> bool {
    all.clone().for_each(|users| _ = users.0.fetch_add(1, AcqRel));
    let is_there = published.load(Acquire) == pointer;
    if !is_there {
        unregister_user(all);
    }
    is_there
}

/// Unregisters the calling thread as a user of all objects in `all`.
pub fn unregister_user<'a>(all: impl Iterator<Item = &'a UserCount>) {
    all.for_each(|users| _ = users.0.fetch_sub(1, Release));
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::atomic::{AtomicBool, Ordering::Relaxed};
    use crate::model::try_all;
    use core::ptr;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A plan with its mapped memory, and the pointer that publishes it.
    struct Armed {
        published: AtomicPtr<u32>,
        users: UserCount,
        is_over: AtomicBool,
        mapped: UnsafeCell<bool>,
    }
    // SAFETY: what is mapped is written by who gives it back, when nobody uses it; loom checks that.
    unsafe impl Sync for Armed {}
    // SAFETY: what is mapped is written by who gives it back, whichever thread that is; loom checks that.
    unsafe impl Send for Armed {}

    impl Armed {
        /// Uses the plan as a call does if it is armed. Returns true if it was.
        fn look(&self) -> bool {
            let pointer = self.published.load(Acquire);
            if pointer.is_null() || !register_user(&self.published, pointer, [&self.users].into_iter()) {
                return false;
            }
            let is_armed = !self.is_over.load(Relaxed);
            if is_armed {
                // SAFETY: nobody gives it back meanwhile.
                assert!(self.mapped.with(|mapped| unsafe { *mapped }), "given back");
            }
            unregister_user([&self.users].into_iter());
            is_armed
        }

        /// Disarms the plan: takes it back or, if there is no memory for that, marks it as over.
        fn disarm(&self, is_taken: bool) {
            if is_taken {
                self.published.store(ptr::null_mut(), Release);
            } else {
                self.is_over.store(true, Relaxed);
            }
            if self.users.is_unused() {
                // SAFETY: nobody uses it any more.
                self.mapped.with_mut(|mapped| unsafe { *mapped = false });
            }
        }
    }

    #[test]
    fn used_memory_is_not_unmapped() {
        for is_taken in [true, false] {
            try_all(move || {
                let armed = Arc::new(Armed {
                    published: AtomicPtr::new(ptr::dangling_mut()),
                    users: UserCount::default(),
                    is_over: AtomicBool::new(false),
                    mapped: UnsafeCell::new(true),
                });
                let callers = [(); 2].map(|()| {
                    let armed = armed.clone();
                    thread::spawn(move || armed.look())
                });
                armed.disarm(is_taken);
                callers.into_iter().for_each(|caller| _ = caller.join().unwrap());
                assert!(!armed.look());
            });
        }
    }
}
