//! Remembers the target of each caller's calls. The target stays valid while libraries are closed, other
//! libraries are loaded at their addresses, and fault plans are armed and disarmed.

use crate::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

/// Counts the closings of libraries. While a library is being closed, another one may be loaded at the same
/// address.
#[derive(Default)]
pub struct LibraryClosings {
    /// Number of beginnings and ends of closings so far.
    steps: AtomicU64,
    under_way: AtomicUsize,
}

impl LibraryClosings {
    /// Creates a count without closings.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Self {
        LibraryClosings { steps: AtomicU64::new(0), under_way: AtomicUsize::new(0) }
    }

    /// Returns the current number of steps, to pass to [`LibraryClosings::is_still_valid`] after a lookup that starts
    /// now.
    pub fn current_step(&self) -> u64 {
        self.steps.load(Acquire)
    }

    /// Notes that the closing of a library begins. `forget` removes the remembered targets.
    pub fn begin_closing(&self, forget: impl FnOnce()) {
        self.under_way.fetch_add(1, SeqCst);
        self.advance_step(forget);
    }

    /// Notes that the closing of a library has ended. `forget` removes the remembered targets again.
    pub fn end_closing(&self, forget: impl FnOnce()) {
        self.advance_step(forget);
        self.under_way.fetch_sub(1, SeqCst);
    }

    fn advance_step(&self, forget: impl FnOnce()) {
        self.steps.fetch_add(1, AcqRel);
        // A thread that does not see this step remembered its target before the step, so `forget` removes
        // that target.
        fence(SeqCst);
        forget();
    }

    /// Returns true if a target that was looked up at `step`, and is remembered already, is still valid.
    pub fn is_still_valid(&self, step: u64) -> bool {
        // A thread that closes a library after this sees the remembered target, and removes it.
        fence(SeqCst);
        self.steps.load(Acquire) == step && self.under_way.load(Relaxed) == 0
    }
}

/// Sets the target of the calls of a function: cupeer's entry if `is_traced` returns true, and otherwise the real
/// function. Other threads may arm or disarm a plan and do the same at the same time. The last writer checks again,
/// and sees all plans that were armed before the others wrote. Call this after the target was published, and after a
/// plan was armed or disarmed.
pub fn set_call_target(target: &AtomicUsize, is_traced: impl Fn() -> bool, traced: usize, real: usize) {
    // A thread that arms a plan after this sees what the caller published.
    fence(SeqCst);
    loop {
        let now = is_traced();
        target.swap(if now { traced } else { real }, AcqRel);
        if is_traced() == now {
            return;
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::atomic::{AtomicBool, Ordering::Release};
    use crate::model::try_all;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn no_route_leads_to_a_library_that_is_gone() {
        #[derive(Default)]
        struct Process {
            closings: LibraryClosings,
            route: AtomicUsize,
            is_loaded: AtomicBool,
            is_done: AtomicBool,
        }
        /// Finds the library, as a call from it does, and remembers the route.
        fn call(process: &Process) {
            let step = process.closings.current_step();
            if process.is_loaded.load(Acquire) {
                process.route.store(1, Release);
                if !process.closings.is_still_valid(step) {
                    process.route.store(0, Release);
                }
            }
            process.is_done.store(true, Release);
        }
        try_all(|| {
            let process = Arc::new(Process { is_loaded: AtomicBool::new(true), ..Process::default() });
            let others = process.clone();
            let caller = thread::spawn(move || call(&others));
            let forget = || process.route.store(0, Release);
            process.closings.begin_closing(forget);
            process.is_loaded.store(false, Release);
            // Another library may be loaded there now, and call.
            assert!(!process.is_done.load(Acquire) || process.route.load(Acquire) == 0);
            process.closings.end_closing(forget);
            caller.join().unwrap();
            assert_eq!(process.route.load(Acquire), 0);
        });
    }

    #[test]
    fn a_plan_that_is_armed_sees_all_calls_and_one_that_is_not_none() {
        const TRACED: usize = 1;
        const REAL: usize = 2;
        #[derive(Default)]
        struct Process {
            is_armed: AtomicBool,
            is_published: AtomicBool,
            target: AtomicUsize,
        }
        impl Process {
            fn aim(&self) {
                set_call_target(&self.target, || self.is_armed.load(Acquire), TRACED, REAL);
            }

            /// Arms or disarms a plan, then updates all published targets.
            fn arm(&self, is_armed: bool) {
                self.is_armed.store(is_armed, Release);
                fence(SeqCst);
                if self.is_published.load(Acquire) {
                    self.aim();
                }
            }
        }
        for ends_armed in [true, false] {
            try_all(move || {
                let process = Arc::new(Process::default());
                let others = process.clone();
                let armer = thread::spawn(move || {
                    others.arm(true);
                    if !ends_armed {
                        others.arm(false);
                    }
                });
                process.is_published.store(true, Release);
                process.aim();
                armer.join().unwrap();
                let expected = if ends_armed { TRACED } else { REAL };
                assert_eq!(process.target.load(Acquire), expected);
            });
        }
    }
}
