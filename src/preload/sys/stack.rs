//! Finds a thread's own stack: how much of it is left, and which part of it surely exists.
//!
//! libc's `pthread_getattr_np` allocates and locks, and opens a file for the first thread. So the first thread's stack
//! is found where the kernel put it. For another thread, libc's description of the thread has the start and the size
//! of its stack side by side; they are recognized because the stack ends right after the description.

use super::arch::{self, BEHIND_DESCRIPTION, thread, thread_description};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Address of the first thread's block; 0 before our constructor.
#[unsafe(link_section = ".data.start")]
static FIRST: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data.start")]
/// Address of the end of the first thread's stack.
static END: AtomicUsize = AtomicUsize::new(0);

/// Finds the first thread's stack. `place` is the address of the loader's variable `__libc_stack_end`. Called by our constructor,
/// in that thread.
pub fn find_first_thread_stack(place: usize) {
    if place != 0 {
        // SAFETY: the loader's variable, which it has set.
        END.store(unsafe { *(place as *const usize) }, Relaxed);
        FIRST.store(thread() as usize, Relaxed);
    }
}

/// Returns the address range from a height to the end of this thread's own stack, which exists for as long as the thread runs.
/// Returns an empty range if the height is on another stack.
pub fn range_above(height: usize) -> Range<usize> {
    let own = own_range();
    if own.contains(&height) { height..own.end } else { 0..0 }
}

/// Returns the number of free bytes of this thread's own stack below a height; 0 if the height is on another stack.
pub fn free_below(height: usize) -> usize {
    let own = own_range();
    if own.contains(&height) { height - own.start } else { 0 }
}

/// Returns the address range of this thread's own stack; empty if it is unknown.
fn own_range() -> Range<usize> {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block; a signal handler of the thread finds out the same.
    unsafe {
        if (*thread).stack.1 == 0 {
            (*thread).stack = find_own().map_or((1, 1), |own| (own.start, own.end));
        }
        (*thread).stack.0..(*thread).stack.1
    }
}

#[cold]
#[inline(never)]
fn find_own() -> Option<Range<usize>> {
    if thread() as usize == FIRST.load(Relaxed) {
        return first_thread_stack();
    }
    /// Size of the searched part of libc's description of the thread, in bytes. No C library's description is shorter.
    const DESCRIPTION: usize = 2048;
    /// Sizes that a stack may have. A pointer is never this small, except under valgrind.
    const SIZES: Range<usize> = 4096..1 << 36;
    /// Smallest address of a stack. Smaller numbers, such as that of a thread, are not addresses.
    const LOWEST: usize = 1 << 22;
    let description = thread_description();
    // SAFETY: so much of libc's description of this thread lies there, for as long as it runs. Others may write to some of
    // it, so that each word is read once.
    let word = |index: usize| unsafe { (description as *const usize).add(index).read_volatile() };
    (0..DESCRIPTION / 8 - 3).find_map(|index| {
        let [start, size, guard, reported] = [0, 1, 2, 3].map(|more| word(index + more));
        let end = start.checked_add(size)?;
        let is_it = (LOWEST..description).contains(&start)
            && (description..description + BEHIND_DESCRIPTION).contains(&end)
            && guard.max(reported) < size;
        (is_it && SIZES.contains(&size)).then(|| start + guard..end)
    })
}

/// Returns the address range of the first thread's stack, which grows down to the limit RLIMIT_STACK. The limit includes the
/// bytes above its end.
fn first_thread_stack() -> Option<Range<usize>> {
    /// Largest size that counts, in bytes. The kernel keeps a larger gap free below the stack.
    const MOST: usize = 8 << 20;
    let end = END.load(Relaxed);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is writable.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    let size = usize::try_from(limit.rlim_cur).unwrap_or(MOST).min(MOST);
    (is_known && end > size && arch::stack_height() < end).then(|| end - size / 4 * 3..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_own_stack_is_what_libc_says_of_it() {
        for size in [1 << 16, 1 << 20] {
            let thread = std::thread::Builder::new().stack_size(size).spawn(|| {
                // SAFETY: the attributes are filled before they are read.
                unsafe {
                    let mut attributes = core::mem::zeroed();
                    assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
                    let (mut start, mut size) = (core::ptr::null_mut(), 0);
                    libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
                    libc::pthread_attr_destroy(&mut attributes);
                    (start as usize, start as usize + size, own_range())
                }
            });
            let (start, end, own) = thread.expect("a thread").join().expect("its end");
            assert_eq!((own.start, own.end), (start, end));
        }
    }
}
