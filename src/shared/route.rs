//! Where calls go: remembered for each caller, while libraries are closed and others come to lie in their places, and
//! while plans of faults come and go.

use crate::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

/// The closings of libraries: while one is under way, another library may come to lie in the place of one that is gone
/// already.
#[derive(Default)]
pub struct Closings {
    /// How many steps they have made.
    steps: AtomicU64,
    under_way: AtomicUsize,
}

impl Closings {
    /// None so far.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Self {
        Closings { steps: AtomicU64::new(0), under_way: AtomicUsize::new(0) }
    }

    /// What to give to [`Closings::holds`] about what is found from here on.
    pub fn now(&self) -> u64 {
        self.steps.load(Acquire)
    }

    /// A library is about to be closed. `forget` takes away what is remembered.
    pub fn begin(&self, forget: impl FnOnce()) {
        self.under_way.fetch_add(1, SeqCst);
        self.step(forget);
    }

    /// It was closed.
    pub fn end(&self, forget: impl FnOnce()) {
        self.step(forget);
        self.under_way.fetch_sub(1, SeqCst);
    }

    fn step(&self, forget: impl FnOnce()) {
        self.steps.fetch_add(1, AcqRel);
        // Who does not see this step has remembered what is forgotten here.
        fence(SeqCst);
        forget();
    }

    /// Whether what was found at `step`, and is remembered already, may stay so.
    pub fn holds(&self, step: u64) -> bool {
        // Whoever closes a library from here on sees what is remembered.
        fence(SeqCst);
        self.steps.load(Acquire) == step && self.under_way.load(Relaxed) == 0
    }
}

/// Writes where calls of a function go: to our entry, or straight on. Plans come and go meanwhile in other threads, which
/// do the same: who writes last looks again, and sees what the others have armed before they wrote. Called after the
/// target was published, and after a plan was armed or taken back.
pub fn aim(target: &AtomicUsize, is_traced: impl Fn() -> bool, traced: usize, real: usize) {
    // Whoever arms a plan from here on sees what the caller has published.
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
            closings: Closings,
            route: AtomicUsize,
            is_loaded: AtomicBool,
            is_done: AtomicBool,
        }
        /// Finds the library, as a call from it does, and remembers the route.
        fn call(process: &Process) {
            let step = process.closings.now();
            if process.is_loaded.load(Acquire) {
                process.route.store(1, Release);
                if !process.closings.holds(step) {
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
            process.closings.begin(forget);
            process.is_loaded.store(false, Release);
            // Another library may lie there now, and call.
            assert!(!process.is_done.load(Acquire) || process.route.load(Acquire) == 0);
            process.closings.end(forget);
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
                aim(&self.target, || self.is_armed.load(Acquire), TRACED, REAL);
            }

            /// Arms or disarms, then goes through what is published.
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
