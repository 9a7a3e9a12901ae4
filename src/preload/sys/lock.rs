//! The lock for rare work. It is never left locked: no signal handler runs, and none jumps, while it is held; a panic
//! releases it; a cancellation waits until our work is done (`guarded`); and a lock that a child inherited has no
//! owner.

use super::process::shares_memory_with;
use super::signals;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Release},
};

/// Pid of the process that holds the lock; 0 if it is free.
pub struct Lock(AtomicU32);

struct LockGuard<'a>(&'a AtomicU32);

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

impl Lock {
    pub const fn new() -> Self {
        Lock(AtomicU32::new(0))
    }

    /// Does work while holding the lock. Does nothing if another thread holds the lock for long: that thread may wait for a file
    /// system that does not respond.
    pub fn with(&self, work: impl FnOnce()) {
        let mut work = Some(work);
        for _ in 0..10_000 {
            if self.try_with(&mut work) {
                return;
            }
            // SAFETY: sched_yield has no preconditions.
            unsafe { libc::sched_yield() };
        }
    }

    /// Does work while holding the lock, if the lock is free. Returns true if the work was done.
    pub fn try_with(&self, work: &mut Option<impl FnOnce()>) -> bool {
        signals::with_signals_blocked(|| {
            let pid = std::process::id();
            let holder = self.0.load(Acquire);
            let is_taken = holder == pid || holder != 0 && shares_memory_with(holder);
            if is_taken || self.0.compare_exchange(holder, pid, AcqRel, Acquire).is_err() {
                return false;
            }
            let _held = LockGuard(&self.0);
            if let Some(work) = work.take() {
                work();
            }
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn panics_and_dead_processes_release_the_lock() {
        let lock = Lock::new();
        assert!(catch_unwind(AssertUnwindSafe(|| lock.with(|| panic!("a fault of ours")))).is_err());
        let mut times = 0;
        lock.with(|| times += 1);
        // A child can inherit the lock of a parent that held it. No process has this number.
        lock.0.store(i32::MAX as u32, Release);
        lock.with(|| times += 1);
        assert_eq!(times, 2);
        // A thread that holds the lock does not wait for itself forever.
        lock.with(|| assert!(!lock.try_with(&mut Some(|| times += 1))));
        assert_eq!(times, 2);
    }

    #[test]
    fn no_handler_comes_in_while_it_is_held() {
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(_: i32) {
            HANDLED.store(1, Release);
        }
        let handled = || HANDLED.load(Acquire);
        // SAFETY: the handler only stores a number; the signal is nobody else's here.
        unsafe { libc::signal(libc::SIGWINCH, handle as *const () as usize) };
        // SAFETY: raise has no preconditions.
        Lock::new().with(|| assert_eq!((unsafe { libc::raise(libc::SIGWINCH) }, handled()), (0, 0)));
        assert_eq!(handled(), 1);
    }
}
