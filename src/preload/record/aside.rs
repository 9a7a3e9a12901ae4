//! Work that needs more stack than the program's thread may have: the first recorded call may come from a thread
//! with the smallest stack that the C library allows, or from a signal handler.

use crate::arch;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The bytes of the other stack; what is not touched costs nothing.
const SIZE: usize = 256 * 1024;
/// The lowest page cannot be touched.
const GUARD: usize = 4096;

/// Does something on a stack of its own. No signal is delivered meanwhile, so that no handler runs there, nor
/// leaves it by a jump. Says whether there was memory for it.
pub fn aside(work: impl FnOnce()) -> bool {
    extern "C" fn run<W: FnOnce()>(work: *mut c_void) {
        // SAFETY: the place below, which nobody else takes from.
        let work = unsafe { (*work.cast::<Option<W>>()).take() };
        // A panic must not go beyond the begin of the stack.
        let _ = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
    }
    fn run_of<W: FnOnce()>(_: &Option<W>) -> extern "C" fn(*mut c_void) {
        run::<W>
    }
    let mut work = Some(work);
    let run = run_of(&work);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
    // SAFETY: maps new memory, which is unmapped when nobody runs there any more; the mask of signals is put back.
    unsafe {
        // By the system call itself, as where the record's memory is mapped.
        let stack = libc::syscall(libc::SYS_mmap, 0, SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if stack == -1 {
            return false;
        }
        let stack = stack as usize;
        libc::mprotect(stack as *mut c_void, GUARD, libc::PROT_NONE);
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        arch::on_stack(stack + SIZE, run, (&raw mut work).cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        // By libc: ThreadSanitizer forgets who wrote there, before something else comes to lie in its place.
        libc::munmap(stack as *mut c_void, SIZE);
    }
    true
}
