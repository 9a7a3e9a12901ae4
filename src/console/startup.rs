//! State that this process inherited, saved before Rust's runtime changes it: closed standard descriptors (the
//! runtime opens /dev/null on them) and whether SIGPIPE was ignored (the runtime ignores it). SIGXFSZ is ignored as
//! well, so that a limit on the size of files (`ulimit -f`) makes a write fail instead of killing the process.
//!
//! The program that `run` starts gets the inherited state.

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// Signals that this process ignores or resets, each with true if it was ignored before this process began.
static WAS_IGNORED: [(i32, AtomicBool); 2] =
    [(libc::SIGPIPE, AtomicBool::new(false)), (libc::SIGXFSZ, AtomicBool::new(false))];

extern "C" fn save_state() {
    for (fd, closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: asks for the flags of a descriptor number; nothing is changed.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1, Relaxed);
    }
    for (signal, before) in &WAS_IGNORED {
        before.store(is_signal_ignored(*signal), Relaxed);
    }
    // SAFETY: to ignore a signal is a valid disposition of SIGXFSZ.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

pub fn is_signal_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid sigaction, and a null new action only asks for the old one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction == libc::SIG_IGN
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static SAVE_STATE: extern "C" fn() = save_state;

/// Restores the inherited descriptors and signals. Async-signal-safe, for use between fork and exec.
pub fn restore_inherited_state() {
    for (fd, closed) in (0..).zip(&WAS_CLOSED) {
        if closed.load(Relaxed) {
            // SAFETY: the descriptor is the /dev/null of Rust's runtime, and the caller is about to exec.
            unsafe { libc::close(fd) };
        }
    }
    for (signal, before) in &WAS_IGNORED {
        if !before.load(Relaxed) {
            // SAFETY: the default action is a valid disposition of both signals.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: asks for a number; cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns a command that runs cupeer itself, and ends when this process does.
pub fn own_command() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("failed to find /proc/self/exe")?);
    // SAFETY: between fork and exec, the function makes one system call, whose arguments are numbers.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    Ok(command)
}
