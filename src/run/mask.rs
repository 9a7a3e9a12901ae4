//! The signals that are blocked while a program runs, to be waited for, and how the launcher found them.

/// Signals that are not blocked: faults of the launcher itself, and signals that change nothing here.
const UNBLOCKED: &[i32] = &[
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGWINCH,
    libc::SIGPIPE,
];

/// Signal mask and dispositions that the launcher inherited; the program gets them.
pub struct InheritedSignals {
    mask: libc::sigset_t,
    sigchld_action: libc::sigaction,
}

/// Blocks the signals that the launcher waits for, and makes sure that it can wait for its children.
pub fn block_signals() -> InheritedSignals {
    // SAFETY: all-zero bytes are valid for the three; the calls write to them and change nothing but this
    // thread's mask, which later threads inherit, and the disposition of SIGCHLD, to a valid one.
    unsafe {
        let mut before: InheritedSignals = std::mem::zeroed();
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGCHLD, &default, &mut before.sigchld_action);
        libc::pthread_sigmask(libc::SIG_BLOCK, &waited_signals(), &mut before.mask);
        before
    }
}

impl InheritedSignals {
    /// Restores the inherited mask and dispositions. Async-signal-safe.
    pub fn restore_signals(&self) {
        // SAFETY: both are as the system gave them.
        unsafe {
            libc::sigaction(libc::SIGCHLD, &self.sigchld_action, std::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
        }
    }
}

pub fn waited_signals() -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid set, and the numbers are those of signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for signal in UNBLOCKED {
            libc::sigdelset(&mut set, *signal);
        }
        set
    }
}
