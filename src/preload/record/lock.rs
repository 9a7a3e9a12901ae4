//! A lock for what happens rarely: nobody waits for it for long, and a child does not inherit it.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Release},
};

/// The process that holds it; else 0.
pub struct Lock(AtomicU32);

impl Lock {
    /// One that nobody holds.
    pub const fn new() -> Self {
        Lock(AtomicU32::new(0))
    }

    /// Does something alone. Does nothing where another thread, or the code that a signal handler has interrupted,
    /// does not let go for long.
    pub fn with(&self, work: impl FnOnce()) {
        // SAFETY: getpid has no preconditions.
        let pid = unsafe { libc::getpid() } as u32;
        for _ in 0..10_000 {
            let holder = self.0.load(Acquire);
            // One that a child has inherited is nobody's.
            if holder != pid && self.0.compare_exchange(holder, pid, AcqRel, Acquire).is_ok() {
                work();
                self.0.store(0, Release);
                return;
            }
            // SAFETY: sched_yield has no preconditions.
            unsafe { libc::sched_yield() };
        }
    }
}
