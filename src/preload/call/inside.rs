//! A mark in the thread's block: the function that the thread is forwarding.

use crate::recorder;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use crate::sys::program_memory::copy;
use crate::sys::signals::is_on_signal_stack;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};
use cupeer_spec::function::FnId;

/// Marks the thread with the function that it is forwarding, until dropped. An exception or a cancellation of the program drops
/// the mark as well. A longjmp does not, but the mark is also on the stack, where the next call sees that the mark was
/// overwritten.
pub struct ForwardingMark {
    /// Value of [`Thread::inside`](crate::sys::arch::Thread::inside) during the call.
    mark: u64,
    /// Previous values of the words that [`ForwardingMark::mark_thread`] changes in the thread's block: `inside`,
    /// `inside_at`, `inside_real`, and `driver_messages`.
    before: (u64, usize, usize, *mut c_void),
}

impl ForwardingMark {
    /// `half` is the call's [`CallRecord::number_in_high_half`](crate::recorder::CallRecord::number_in_high_half).
    #[inline(always)]
    pub fn new(id: FnId, half: u64) -> Self {
        ForwardingMark { mark: half | (id as u64 + 1), before: (0, 0, 0, ptr::null_mut()) }
    }

    /// `messages` receives the driver's log during the call: see
    /// [`DriverLog::buffer_pointer`](crate::driver::log::DriverLog::buffer_pointer).
    #[inline(always)]
    pub fn mark_thread(&mut self, real: usize, messages: *mut c_void) {
        let thread = thread();
        // SAFETY: only this thread and its signal handlers use the block; no reference to it is made.
        unsafe {
            self.before = ((*thread).inside, (*thread).inside_at, (*thread).inside_real, (*thread).driver_messages);
            ((*thread).inside_at, (*thread).inside_real) = ((&raw const self.mark).expose_provenance(), real);
            (*thread).driver_messages = messages;
            // Written last here, and first in `unmark_thread`: a signal handler that makes a call in between must not
            // conclude that a longjmp left this call.
            compiler_fence(Ordering::Release);
            (*thread).inside = self.mark;
        }
        if self.before.0 != 0 {
            self.detect_longjmp();
        }
    }

    /// Detects that a longjmp left the call in which the thread was before, and records the jump.
    ///
    /// If the mark of the earlier call is no longer in its place, the call was left, whatever stack it was on. If the mark is still
    /// there, either nothing overwrote it yet, or the call waits on another stack, that of a signal handler or a coroutine. Two
    /// marks closer to each other than a driver's stack frame are on the same stack: then the call was left, too.
    #[cold]
    #[inline(never)]
    fn detect_longjmp(&mut self) {
        /// Number of bytes of stack that is smaller than the frame of any call of a driver.
        const NEAR: usize = 4096;
        let (mark, at) = (self.before.0, self.before.1);
        if mark >> 32 == 0 {
            return;
        }
        let own = (&raw const self.mark).addr();
        let mut is_left = own.checked_sub(at).is_some_and(|above| above < NEAR && !is_on_signal_stack(own));
        if !is_left {
            let mut found = [0; size_of::<u64>()];
            guarded(|| is_left = copy(at, &mut found) < found.len() || u64::from_ne_bytes(found) != mark);
        }
        if is_left {
            recorder::finish_call_left_by_jump(mark as u32 - 1, (mark >> 32) as u32);
            self.before = (0, 0, 0, ptr::null_mut());
        }
    }

    #[inline(always)]
    pub fn unmark_thread(&mut self) {
        if self.before.0 != 0 {
            // The forwarded call used the stack, and may have overwritten the mark.
            self.detect_longjmp();
        }
        let thread = thread();
        // SAFETY: only this thread and its signal handlers use the block; no reference to it is made.
        unsafe {
            (*thread).inside = self.before.0;
            compiler_fence(Ordering::Release);
            (_, (*thread).inside_at, (*thread).inside_real, (*thread).driver_messages) = self.before;
        }
    }
}

impl Drop for ForwardingMark {
    #[inline(always)]
    fn drop(&mut self) {
        self.unmark_thread();
    }
}
