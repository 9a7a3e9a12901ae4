//! The mark of the function that a thread is forwarding.

use crate::recorder;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use crate::sys::program_memory::copy;
use crate::sys::signals::is_on_signal_stack;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};
use cupeer_spec::function::FnId;

/// Marks the function that this thread is forwarding, until dropped; also where an exception or a
/// cancellation of the program passes through. Where a jump of the program leaves the call, nothing drops it: the mark is on the
/// stack as well, by which the next call sees that it is gone.
pub struct Inside {
    /// What [`Thread::inside`](crate::sys::arch::Thread::inside) is meanwhile.
    mark: u64,
    before: (u64, usize, usize, *mut c_void),
}

impl Inside {
    /// `half` is the call's [`Recorded::half`](crate::recorder::Recorded::half).
    #[inline(always)]
    pub fn new(id: FnId, half: u64) -> Self {
        Inside { mark: half | (id as u64 + 1), before: (0, 0, 0, ptr::null_mut()) }
    }

    /// `messages` is what the driver's log is kept in meanwhile: see [`DriverLog::messages`](crate::driver::log::DriverLog::messages).
    #[inline(always)]
    pub fn enter(&mut self, real: usize, messages: *mut c_void) {
        let thread = thread();
        // SAFETY: only this thread and its signal handlers use the block; no reference to it is made.
        unsafe {
            self.before =
                ((*thread).inside, (*thread).inside_at, (*thread).inside_real, (*thread).driver_messages);
            ((*thread).inside_at, (*thread).inside_real) = ((&raw const self.mark).expose_provenance(), real);
            (*thread).driver_messages = messages;
            // Last, and first below: a signal handler that calls in between does not take this call for one that is gone.
            compiler_fence(Ordering::Release);
            (*thread).inside = self.mark;
        }
        if self.before.0 != 0 {
            self.look_for_jump();
        }
    }

    /// Finds out whether the call that the thread was in before was left by a jump, and says so in the record. A call whose
    /// mark is no longer where it was is gone, whatever stack it was on. Where the mark is still there, it may be that
    /// nobody has written there since, or that the call waits on another stack, of a signal handler or a coroutine. The
    /// latter is not so where the two are closer to each other than what a driver needs of a stack.
    #[cold]
    #[inline(never)]
    fn look_for_jump(&mut self) {
        /// Less than any call of a driver needs.
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
            recorder::left(mark as u32 - 1, (mark >> 32) as u32);
            self.before = (0, 0, 0, ptr::null_mut());
        }
    }

    #[inline(always)]
    pub fn leave(&mut self) {
        if self.before.0 != 0 {
            // What was called meanwhile has used the stack.
            self.look_for_jump();
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

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        self.leave();
    }
}
