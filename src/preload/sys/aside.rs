//! Runs work that needs more stack than the program's thread may have. A call may come from a thread with the smallest
//! stack that the C library allows, or from a signal handler.
//!
//! The other stacks are kept and reused, because creating one would cost more than everything else. Each is used by
//! one thread at a time, and their number is the most that threads needed at once.

use super::arch::{self, stack_height, thread};
use super::{pages, signals, stack, valgrind};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Size of each spare stack, in bytes. Untouched pages cost nothing.
const SIZE: usize = 256 * 1024;
/// Number of bytes at the low end of a spare stack that cannot be accessed.
const GUARD: usize = arch::LARGEST_PAGE;
/// Number of free stack bytes that our work needs at most. In an unoptimized library, checking, logging, and plans together need
/// 67 KiB.
const MOST_NEEDED: usize = if cfg!(debug_assertions) { 96 } else { 64 } * 1024;

struct SpareStack {
    is_taken: AtomicBool,
    /// Start address of the stack; 0 before its first use.
    start: AtomicUsize,
}

static STACKS: [SpareStack; 32] =
    [const { SpareStack { is_taken: AtomicBool::new(false), start: AtomicUsize::new(0) } }; 32];

/// Memory for one spare stack, which is static so that it exists even if memory is short.
#[repr(align(64))]
struct StackMemory(UnsafeCell<[u8; SIZE]>);
// SAFETY: used by the one thread that has taken it.
unsafe impl Sync for StackMemory {}
static MEMORY: StackMemory = StackMemory(UnsafeCell::new([0; SIZE]));
static SPARE: SpareStack = SpareStack { is_taken: AtomicBool::new(false), start: AtomicUsize::new(0) };

/// Does work while signals are blocked, so that no signal handler finds it half done or leaves it by a jump. The work runs on
/// another stack if that of the thread may be too small. Returns true if the work ran; false if there was no memory for a stack.
pub fn run_blocked_with_stack(work: impl FnOnce()) -> bool {
    if free_bytes() >= MOST_NEEDED {
        signals::with_signals_blocked(work);
        return true;
    }
    let mut work = Some(work);
    on_other_stack(&mut || work.take().into_iter().for_each(|work| work()))
}

/// Does work on a stack with enough space: this one or another. Not generic, so that the library contains the code once.
pub fn run_with_enough_stack(work: &mut dyn FnMut()) {
    // Without memory for another stack, this one may suffice.
    if free_bytes() >= MOST_NEEDED || !on_other_stack(work) {
        work();
    }
}

/// Returns the free bytes of the current stack; 0 if they are unknown.
#[inline]
fn free_bytes() -> usize {
    let height = stack_height();
    let (start, _) = other_stack(height);
    if start != 0 { (height - start).saturating_sub(GUARD) } else { stack::free_below(height) }
}

/// Returns the height of the program's stack, even when the thread runs on another stack.
pub fn program_stack_height() -> usize {
    let height = stack_height();
    let (start, before) = other_stack(height);
    if start != 0 { before } else { height }
}

/// Returns true if work that began at this height of the stack was left by a jump: the caller is not deeper on the stack. The
/// frames that a signal handler interrupted are above that height, unless the handler has a stack of its own.
pub fn has_jumped_over(height: usize) -> bool {
    let own = self::program_stack_height();
    own >= height && !signals::is_on_signal_stack(own)
}

/// Returns the address range of the other stack that contains a height; zeros if the height is on the program's own stack.
#[inline]
fn other_stack(height: usize) -> (usize, usize) {
    // SAFETY: only this thread and its signal handlers use the block.
    let aside = unsafe { (*thread()).aside };
    if height.wrapping_sub(aside.0) < SIZE { aside } else { (0, 0) }
}

/// Frees all spare stacks. Called in a forked child, which has no other threads.
pub fn free_all() {
    STACKS.iter().chain([&SPARE]).for_each(|kept| kept.is_taken.store(false, Relaxed));
}

/// Does work on a spare stack. Returns false if there is no spare stack, and the work was not done.
#[cold]
#[inline(never)]
fn on_other_stack(mut work: &mut dyn FnMut()) -> bool {
    extern "C" fn run(work: *mut c_void) {
        // SAFETY: the place below, which nobody else uses meanwhile.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        // A panic must not unwind past the start of the stack.
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
    let mut start = 0;
    signals::with_signals_blocked(|| {
        let take = |kept: &&SpareStack| !kept.is_taken.swap(true, Acquire);
        let mut kept = STACKS.iter().find(take);
        start = match kept.map_or(0, |kept| kept.start.load(Relaxed)) {
            0 => make(),
            start => start,
        };
        if start == 0 {
            kept.iter().for_each(|kept| kept.is_taken.store(false, Release));
            kept = Some(&SPARE).filter(take);
            start = kept.map_or(0, |_| MEMORY.0.get() as usize);
        }
        if start != 0 {
            // SAFETY: only this thread uses the block and the stack.
            unsafe {
                let before = core::mem::replace(&mut (*thread()).aside, (start, program_stack_height()));
                valgrind::with_stack(start, start + SIZE, || {
                    arch::on_stack(start + SIZE, run, (&raw mut work).cast());
                });
                (*thread()).aside = before;
            }
        }
        match kept {
            Some(kept) => {
                kept.start.store(start, Relaxed);
                kept.is_taken.store(false, Release);
            }
            // The memory is cleared by libc, because ThreadSanitizer then forgets the old accesses before new data is there.
            // SAFETY: mapped above, and nobody runs there any more.
            None if start != 0 => _ = unsafe { libc::munmap(start as *mut c_void, SIZE) },
            None => {}
        }
    });
    start != 0
}

/// Creates a spare stack. Returns its address; 0 if there is no memory.
fn make() -> usize {
    let Ok(start) = pages::map_zeroed(SIZE, libc::MAP_STACK | libc::MAP_NORESERVE) else { return 0 };
    // SAFETY: mapped above, and nobody has used it yet.
    unsafe { libc::mprotect(start.cast(), GUARD, libc::PROT_NONE) };
    start as usize
}
