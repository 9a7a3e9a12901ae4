//! Signals while a program runs: those that a process sends to the launcher go on to the program; those
//! of the terminal reach the whole foreground group by themselves.
//!
//! What a third process sends to the whole group reaches the program twice, by itself and through the
//! launcher: nothing in a signal tells that it went to a group.
//!
//! All that could end or stop the launcher is blocked (`mask`) and waited for, so there is no handler and no race: what comes
//! between fork and exec stays pending, and reaches the program. When the program stops, `stops` decides whether the launcher
//! stops with it.

use super::child::ProgramEnd;
use super::child::{Child, ChildState};
use super::hung::IS_SIGNAL_RECEIVED;
use super::mask::waited_signals;
use super::orphans::{self, Orphan};
use super::stops::{self, StopFollower};
use super::watch;
use std::sync::atomic::Ordering::Relaxed;

/// Name that is recorded as the sender of a signal that no process sent.
const TERMINAL: &str = "terminal";

/// Passes signals on until the program ends, and notes the ends of orphans. `for_debugger` is true if processes may stop for a
/// debugger. `from_outside` is called for each signal from outside of the run, with the pid and name of its sender.
pub fn wait_for_end(
    child: &Child,
    for_debugger: bool,
    orphans: &mut Vec<Orphan>,
    from_outside: impl Fn(i32, u32, &str),
) -> ProgramEnd {
    let set = waited_signals();
    let mut stops = StopFollower::default();
    loop {
        // SAFETY: all-zero bytes are a valid siginfo, which the call fills; the set is valid.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(&set, &mut info), info)
        };
        // Only signals of other processes have a sender here. The whole group gets the kernel's signals, whose codes are
        // positive, and the program knows of signals that it sent itself.
        let sender = || {
            // SAFETY: a signal that a process sent carries its sender.
            (info.si_code <= 0).then(|| unsafe { info.si_pid() }).filter(|pid| *pid != child.pid())
        };
        match signal {
            // The wait was interrupted, for example by a stop and a continuation.
            -1 => {}
            libc::SIGCHLD => {
                orphans::reap_orphans(child.pid(), orphans);
                match child.poll_state() {
                    ChildState::Ended(end) => return end,
                    ChildState::Running => {}
                    // The debugger will continue only the program.
                    ChildState::Stopped(libc::SIGSTOP) if for_debugger => {}
                    ChildState::Stopped(signal) => stops.note_program_stop(child, signal),
                }
            }
            libc::SIGCONT => stops.handle_continue(child, sender()),
            _ => {
                if matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGQUIT | libc::SIGHUP) {
                    IS_SIGNAL_RECEIVED.store(true, Relaxed);
                }
                // The sender may end right after sending the signal, so its name is read now.
                let name = sender().map(|pid| watch::process_name(pid as u32));
                if sender().is_some() {
                    tracing::debug!("passing signal {signal} on to process {}", child.pid());
                    child.send_signal(signal);
                }
                let is_terminal = info.si_code > 0 && !stops::is_terminal_stop(signal);
                match sender().zip(name) {
                    Some((pid, name)) if !watch::descendants(std::process::id()).contains(&(pid as u32)) => {
                        from_outside(signal, pid as u32, &name);
                    }
                    None if is_terminal => from_outside(signal, 0, TERMINAL),
                    _ => {}
                }
                if stops::is_terminal_stop(signal) {
                    stops.note_terminal_stop(child, signal);
                }
            }
        }
    }
}

/// Ends this process by the same signal that killed the program, without a second core dump.
pub fn die_by_signal(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit and the dispositions are valid, and the set holds the one signal.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}
