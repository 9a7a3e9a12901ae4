//! Forks: threads that use the loader and threads that fork wait for each other, and a child knows what it inherited.

use super::arch::thread;
use super::aside;
use super::every_call::{DESCRIBED_BY, EVERY_CALL, UNSEEN};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// Number of threads that are iterating over the loaded objects.
#[unsafe(link_section = ".data.start")]
static ITERATING: AtomicUsize = AtomicUsize::new(0);

#[unsafe(link_section = ".data.start")]
static FORKING: AtomicBool = AtomicBool::new(false);

/// Number of times that a fork and the threads that iterate over the objects wait for each other. Limited, because a fork in a
/// constructor may be in a thread that holds a lock that the others wait for.
const PATIENCE: u32 = 10_000;

/// Does work with the loader while no thread forks: a child would inherit the loader's lock in the locked state.
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

/// True if this process was forked, and has not executed another program since.
#[unsafe(link_section = ".data.start")]
static FORKED: AtomicBool = AtomicBool::new(false);

pub fn is_forked() -> bool {
    FORKED.load(SeqCst)
}

/// Pid of the process that forked last: a child inherits its parent's pid here.
static FORKED_LAST: AtomicU32 = AtomicU32::new(0);
/// Pid of this process's parent; 0 if the parent was forked itself, because inherited state may be older than the parent.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// Returns the pid of the parent that this process was forked from; `None` if that parent may have inherited state of its own.
pub fn parent_pid_of_fork() -> Option<u32> {
    Some(PARENT.load(SeqCst)).filter(|pid| *pid != 0)
}

/// Registers handlers that make forks wait for threads that iterate over the objects. Called by our constructor.
pub fn watch_forks() {
    unsafe extern "C" fn before() {
        FORKING.store(true, SeqCst);
        FORKED_LAST.store(std::process::id(), SeqCst);
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
        let parent = if FORKED.swap(true, SeqCst) { 0 } else { FORKED_LAST.load(SeqCst) };
        PARENT.store(parent, SeqCst);
        aside::free_all();
        EVERY_CALL.seen.store(UNSEEN, SeqCst);
        ITERATING.store(0, SeqCst);
        FORKING.store(false, SeqCst);
    }
    // SAFETY: the functions stay as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

/// Pid of the process in which a call of cuInit succeeded, this one or an ancestor; 0 if none was seen.
static INITIALIZED_BY: AtomicU32 = AtomicU32::new(0);

/// Stores this process as the one in which a call of cuInit succeeded.
pub fn note_initialized() {
    INITIALIZED_BY.store(std::process::id(), Relaxed);
}

/// True if this process forked after it had initialized the driver: the recordings of its children may say so.
static FORKS_LATE: AtomicBool = AtomicBool::new(false);

pub fn has_forked_late() -> bool {
    FORKS_LATE.load(Relaxed)
}

/// Returns true if a fork now would be after this process has itself initialized the driver, as far as is known.
pub fn note_fork_if_late() -> bool {
    let would_fork_late = has_initialized();
    FORKS_LATE.fetch_or(would_fork_late, Relaxed);
    would_fork_late
}

/// Returns true if this process itself has initialized the driver, as far as is known.
pub fn has_initialized() -> bool {
    initializer() == std::process::id()
}

/// Returns the pid of the process that initialized the driver, this one or an ancestor; 0 if none is known.
pub fn initializer() -> u32 {
    let described_by = DESCRIBED_BY.load(Relaxed);
    if described_by != 0 { described_by } else { INITIALIZED_BY.load(Relaxed) }
}

/// Returns the pid of the process that initialized the driver before this process was forked from it; 0 if that process is not
/// the parent. Returns `None` if no such process is known. `epoch` is the recording of this process. Children inherit the notes
/// in a process's memory.
pub fn initialized_before_fork(epoch: u64) -> Option<u32> {
    let described = EVERY_CALL.described.load(Relaxed);
    if described != 0 && described != epoch {
        return Some(DESCRIBED_BY.load(Relaxed));
    }
    let by = INITIALIZED_BY.load(Relaxed);
    let is_inherited = by != 0 && by != std::process::id();
    // A process that is older than the parent is not named.
    is_inherited.then(|| if parent_pid_of_fork() == Some(by) { by } else { 0 })
}
