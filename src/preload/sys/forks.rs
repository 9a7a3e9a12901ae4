//! Forks: those who use the loader and those who fork wait for each other, and a child knows what it has inherited.

use super::arch::thread;
use super::aside;
use super::every_call::{DESCRIBED_BY, EVERY_CALL, UNSEEN};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// How many threads are going through the objects.
#[unsafe(link_section = ".data.start")]
static ITERATING: AtomicUsize = AtomicUsize::new(0);

#[unsafe(link_section = ".data.start")]
static FORKING: AtomicBool = AtomicBool::new(false);

/// So often a fork and those who go through the objects wait for each other: it may be a fork in a constructor,
/// whose thread holds what the others wait for.
const PATIENCE: u32 = 10_000;

/// Uses the loader while no thread forks: a child would inherit the loader's lock, which glibc does not
/// take away from the thread that held it.
pub fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block.
    if unsafe { core::mem::replace(&mut (*thread).iterating, 1) } == 1 {
        return work();
    }
    ITERATING.fetch_add(1, SeqCst);
    for _ in 0..PATIENCE {
        if !FORKING.load(SeqCst) {
            break;
        }
        ITERATING.fetch_sub(1, SeqCst);
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
        ITERATING.fetch_add(1, SeqCst);
    }
    let done = work();
    ITERATING.fetch_sub(1, SeqCst);
    // SAFETY: only this thread and its signal handlers use the block, and a handler that goes through objects has come back.
    unsafe { (*thread).iterating = 0 };
    done
}

/// Whether this process was forked, and has executed no program since.
#[unsafe(link_section = ".data.start")]
static FORKED: AtomicBool = AtomicBool::new(false);

pub fn is_forked() -> bool {
    FORKED.load(SeqCst)
}

/// The process that forks, and the one that this was forked from; 0 where that was forked itself, so that what is inherited
/// may be older.
static FORKS: AtomicU32 = AtomicU32::new(0);
static PARENT: AtomicU32 = AtomicU32::new(0);

/// The process that this one was forked from, where all that it has inherited was that one's own.
pub fn forked_from() -> Option<u32> {
    Some(PARENT.load(SeqCst)).filter(|pid| *pid != 0)
}

/// Makes forks wait for those who go through the objects. Called by our constructor.
pub fn watch_forks() {
    unsafe extern "C" fn before() {
        FORKING.store(true, SeqCst);
        // SAFETY: getpid has no preconditions.
        FORKS.store(unsafe { libc::getpid() } as u32, SeqCst);
        for _ in 0..PATIENCE {
            if ITERATING.load(SeqCst) == 0 {
                return;
            }
            // SAFETY: sched_yield has no preconditions.
            unsafe { libc::sched_yield() };
        }
    }
    unsafe extern "C" fn after() {
        FORKING.store(false, SeqCst);
    }
    unsafe extern "C" fn in_child() {
        let parent = if FORKED.swap(true, SeqCst) { 0 } else { FORKS.load(SeqCst) };
        PARENT.store(parent, SeqCst);
        aside::is_alone();
        EVERY_CALL.seen.store(UNSEEN, SeqCst);
        ITERATING.store(0, SeqCst);
        FORKING.store(false, SeqCst);
    }
    // SAFETY: the functions stay as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

/// The process whose call of cuInit succeeded, by its pid; 0 where none has been seen.
static INITIALIZED_BY: AtomicU32 = AtomicU32::new(0);

/// Notes that this process has initialized the driver.
pub fn initialized() {
    // SAFETY: getpid has no preconditions.
    INITIALIZED_BY.store(unsafe { libc::getpid() } as u32, Relaxed);
}

/// Whether this process has forked after it had initialized the driver: its children may have records that say so.
static FORKS_LATE: AtomicBool = AtomicBool::new(false);

pub fn forks_late() -> bool {
    FORKS_LATE.load(Relaxed)
}

/// Whether this process, which is about to fork, has itself initialized the driver, as far as is known.
pub fn is_late() -> bool {
    let is_late = has_initialized();
    FORKS_LATE.fetch_or(is_late, Relaxed);
    is_late
}

/// Whether this process itself has initialized the driver, as far as is known.
pub fn has_initialized() -> bool {
    initializer() == std::process::id()
}

/// The process that has initialized the driver, this one or an older one; 0 where none is known.
pub fn initializer() -> u32 {
    let described_by = DESCRIBED_BY.load(Relaxed);
    if described_by != 0 { described_by } else { INITIALIZED_BY.load(Relaxed) }
}

/// The process that had initialised the driver before the one with this record was forked from it. What a process has
/// noted and described, its children have in their memory.
pub fn initialized_before_fork(epoch: u64) -> Option<u32> {
    let described = EVERY_CALL.described.load(Relaxed);
    if described != 0 && described != epoch {
        return Some(DESCRIBED_BY.load(Relaxed));
    }
    let by = INITIALIZED_BY.load(Relaxed);
    // SAFETY: getpid has no preconditions.
    let is_inherited = by != 0 && by != unsafe { libc::getpid() } as u32;
    // An older process is not the parent.
    is_inherited.then(|| if forked_from() == Some(by) { by } else { 0 })
}
