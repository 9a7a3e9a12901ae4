//! Signals while a program runs: those that a process sends to the launcher go on to the program; those
//! of the terminal reach the whole foreground group by themselves.
//!
//! What a third process sends to the whole group reaches the program twice, by itself and through the
//! launcher: nothing in a signal tells that it went to a group.
//!
//! All that could end the launcher is blocked (`mask`) and waited for, so there is no handler and no race: what comes
//! between fork and exec stays pending, and reaches the program. Stop signals of the terminal keep their default action:
//! launcher and program stop together.

use super::End;
use super::child::{Child, State};
use super::mask::waited_for;
use super::orphans::{self, Orphan};
use cupeer_spec::proc::Stat;
use std::time::Duration;

/// How long a continued program may take to wake up after the launcher did.
const WAKING: Duration = Duration::from_millis(20);

/// Passes signals on until the program ends, and notes how orphans end. `for_debugger` says that its processes may stop for
/// a debugger.
pub fn wait(child: &Child, for_debugger: bool, orphans: &mut Vec<Orphan>) -> End {
    let set = waited_for();
    loop {
        // SAFETY: all-zero bytes are a valid siginfo, which the call fills; the set is valid.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(&set, &mut info), info)
        };
        match signal {
            // Interrupted: by a stop and a continuation, for one.
            -1 => {}
            libc::SIGCHLD => {
                orphans::reap(child.pid(), orphans);
                if let Some(end) = look(child, for_debugger) {
                    return end;
                }
            }
            // What the kernel sends has a positive code; the group has it already. So has a group that
            // the program itself has sent a signal to.
            _ => {
                // SAFETY: a signal that a process sent carries its sender.
                let from_process = info.si_code <= 0 && unsafe { info.si_pid() } != child.pid();
                if from_process {
                    tracing::debug!("passing signal {signal} on to process {}", child.pid());
                    child.signal(signal);
                }
            }
        }
    }
}

/// After a SIGCHLD: the program's end. Where it has stopped itself, the launcher stops with it, so that a
/// shell sees its job stop; not where it waits for a debugger, who continues the program alone.
fn look(child: &Child, for_debugger: bool) -> Option<End> {
    match child.state() {
        State::Ended(end) => return Some(end),
        State::Running => return None,
        State::Stopped(libc::SIGSTOP) if for_debugger => return None,
        State::Stopped(_) => {}
    }
    // A continued terminal job: the launcher may wake first and see the program's old stop.
    std::thread::sleep(WAKING);
    if still_stopped(child.pid()) {
        // SAFETY: stops this process until somebody continues it.
        unsafe { libc::raise(libc::SIGSTOP) };
        child.signal(libc::SIGCONT);
    }
    match child.state() {
        State::Ended(end) => Some(end),
        _ => None,
    }
}

fn still_stopped(pid: libc::pid_t) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    Stat::parse(&stat).is_some_and(|stat| stat.state == b'T')
}

/// Dies by a signal as the program did, without a second core dump.
pub fn die_by(signal: i32) {
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
