//! Blocks signals around work that no signal handler of the program may interrupt: a call from a handler would find it
//! half done, and a handler that jumps would leave it half done.

use core::ffi::c_int;
use core::ptr;

/// Mask of the signals to block. Leaves out the signals with which the C library cancels threads and changes their user. Also
/// leaves out signals that our work may raise itself: a handler for them, such as that of a sandbox for forbidden system calls,
/// must run at once, because the system ends a process that blocks them.
const HELD: u64 = {
    let of_work = bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGFPE) | bit(libc::SIGILL);
    !(bit(32) | bit(33) | of_work | bit(libc::SIGTRAP) | bit(libc::SIGSYS))
};

/// Returns the bit of a signal in a signal mask.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The signal mask from before signals were blocked. It is restored when this is dropped, even after a panic.
struct SignalMaskRestorer(u64);

impl Drop for SignalMaskRestorer {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.0);
    }
}

/// Changes the signal mask by a direct system call: the C library's masks are sixteen times as large, and the stack may be small.
/// Returns the previous mask.
pub fn change_mask(how: c_int, mask: u64) -> u64 {
    let mut before = 0;
    // SAFETY: both are as long as is said, and the second is writable.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, &raw mut before, size_of::<u64>());
    }
    before
}

/// Does work while signals are blocked. This takes two system calls, too many for each call of the program.
pub fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let _before = SignalMaskRestorer(change_mask(libc::SIG_BLOCK, HELD));
    work()
}

/// Returns true if a height of the stack may be on the alternate signal stack of this thread.
pub fn is_on_signal_stack(height: usize) -> bool {
    // SAFETY: all-zero bytes are a stack_t, and the call writes to a variable of ours.
    unsafe {
        let mut stack: libc::stack_t = core::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut stack) != 0 || height.wrapping_sub(stack.ss_sp as usize) < stack.ss_size
    }
}
