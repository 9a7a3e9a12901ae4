//! What this process inherited, noted before Rust's runtime changes it: closed standard descriptors (the runtime opens
//! /dev/null on them) and whether SIGPIPE was ignored (the runtime ignores it).
//!
//! The program that `run` starts gets both as they were.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    for (fd, closed) in (0..).zip(&CLOSED) {
        // SAFETY: asks for the flags of a descriptor number; nothing is changed.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1, Relaxed);
    }
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Relaxed);
}

pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid sigaction, and a null new action only asks for the old one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction == libc::SIG_IGN
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Gives descriptors and SIGPIPE back as they were. Async-signal-safe: for after fork and before exec.
pub fn restore() {
    for (fd, closed) in (0..).zip(&CLOSED) {
        if closed.load(Relaxed) {
            // SAFETY: the descriptor is the /dev/null of Rust's runtime, and the caller is about to exec.
            unsafe { libc::close(fd) };
        }
    }
    if !SIGPIPE_IGNORED.load(Relaxed) {
        // SAFETY: the default action is a valid disposition of SIGPIPE.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// The user whose rights it has.
pub fn user() -> u32 {
    // SAFETY: asks for a number; cannot fail.
    unsafe { libc::geteuid() }
}
