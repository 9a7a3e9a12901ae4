//! The guard around the library's own work, which leaves no trace in the program.

use super::arch::{DEFERRED, pthread_setcanceltype};
use super::aside::run_with_enough_stack;
use core::ffi::c_int;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs our own work so that it leaves no trace in the program: a panic is dropped, `errno` is restored, and a
/// cancellation of the thread waits until the work is done. The work has as much stack as it needs.
pub fn guarded(work: impl FnOnce()) {
    /// Not generic, so that the library contains this code once for all kinds of work.
    #[inline(never)]
    fn done(work: &mut dyn FnMut()) {
        let before = begin();
        // A panic here is an error of ours, and the program gets its result anyway.
        let _ = catch_unwind(AssertUnwindSafe(|| run_with_enough_stack(work)));
        end(before);
    }
    let mut work = Some(work);
    done(&mut || work.take().into_iter().for_each(|work| work()));
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// The cancellation state that a thread of the program had before our work: see [`with_cancellation_restored`].
#[derive(Clone, Copy)]
pub struct CancellationState(c_int);

/// Does work that a signal handler of the program may leave by siglongjmp, within `guarded_waiting`. During the work, the thread
/// can be cancelled as the program wants it. The work must not call a cancellation point.
pub fn with_cancellation_restored(CancellationState(before): CancellationState, work: impl FnOnce()) {
    let (mut kind, mut state) = (0, 0);
    // SAFETY: both are writable. Of the deferred type, nothing ends the thread before it calls something that may.
    unsafe {
        pthread_setcanceltype(DEFERRED, &mut kind);
        pthread_setcancelstate(before, &mut state);
    }
    work();
    // SAFETY: both are values that these functions gave. Of the deferred type, nothing ends the thread before it calls
    // something that may.
    unsafe {
        pthread_setcancelstate(state, ptr::null_mut());
        pthread_setcanceltype(kind, ptr::null_mut());
    }
}

/// Like [`guarded`], for work that waits. The work receives the cancellation state of the thread.
pub fn guarded_waiting(work: impl FnOnce(CancellationState)) {
    let before = begin();
    let _ = catch_unwind(AssertUnwindSafe(|| work(before.0)));
    end(before);
}

/// Disables cancellation of this thread. Returns the cancellation state and `errno` from before. A separate function, because the
/// stack may be small.
fn begin() -> (CancellationState, c_int) {
    let mut cancelling = 0;
    // SAFETY: __errno_location gives this thread's errno, always valid; `cancelling` is writable.
    unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancelling);
        (CancellationState(cancelling), *libc::__errno_location())
    }
}

fn end((CancellationState(cancelling), errno): (CancellationState, c_int)) {
    // SAFETY: __errno_location gives this thread's errno, always valid, and the state is one that the function gave.
    unsafe {
        *libc::__errno_location() = errno;
        pthread_setcancelstate(cancelling, ptr::null_mut());
    }
}
