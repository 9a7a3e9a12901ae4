//! Stops of the program that the launcher follows, so that a shell sees its job stop:
//!
//! - a stop by a signal that the launcher has received as well, as all of the foreground group do from the terminal
//! - a stop that the program asked for itself, such as `raise(SIGSTOP)`
//!
//! The launcher does not follow any other stop: a process that stops the program alone also continues the program alone.
//!
//! A launcher that stopped never stays behind: as long as it is stopped, a helper process watches the program, and continues
//! the launcher when the program runs again or has ended. The helper is in a session of its own, so signals to the group miss it.

use super::child::Child;
use cupeer_spec::proc::Stat;
use std::ffi::{CStr, CString};
use std::time::Duration;

/// Time in which all processes of a group are continued. A process that is still stopped afterwards was not continued together
/// with the launcher.
const CONTINUE_TIME: Duration = Duration::from_millis(20);
/// Pause of the helper process between two checks whether the program is still stopped.
const PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Returns true if a terminal stops a group by this signal.
pub fn is_terminal_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

#[derive(Default)]
pub struct StopFollower {
    /// True if the launcher received a stop from the terminal, and the program has not stopped since.
    is_stop_requested: bool,
    /// Pid of the last helper process: its SIGCONT is not passed on to the program.
    helper: Option<libc::pid_t>,
}

impl StopFollower {
    /// Notes that the launcher received a terminal's stop signal. The program may have stopped already, or may stop later or
    /// never.
    pub fn note_terminal_stop(&mut self, child: &Child, signal: i32) {
        self.is_stop_requested = true;
        if is_stopped(child.pid()) {
            self.stop_with_program(child, signal);
        }
    }

    /// Notes that the program was stopped by a signal.
    pub fn note_program_stop(&mut self, child: &Child, signal: i32) {
        let is_asked = self.is_stop_requested && is_terminal_stop(signal);
        if is_stopped(child.pid()) && (is_asked || is_stopping_itself(child.pid())) {
            self.stop_with_program(child, signal);
        }
    }

    /// Notes that the launcher was continued: by the helper, with its group, or alone. Only in the last case is the program
    /// continued as well.
    pub fn handle_continue(&mut self, child: &Child, sender: Option<libc::pid_t>) {
        self.is_stop_requested = false;
        if sender.is_some() && sender != self.helper {
            std::thread::sleep(CONTINUE_TIME);
            if is_stopped(child.pid()) {
                child.send_signal(libc::SIGCONT);
            }
        }
    }

    /// Stops the launcher by the same signal until the launcher or the program is continued.
    fn stop_with_program(&mut self, child: &Child, signal: i32) {
        self.is_stop_requested = false;
        let Some(helper) = start_helper(child.pid()) else { return };
        self.helper = Some(helper);
        tracing::debug!("stopping with process {}", child.pid());
        // SAFETY: the set holds one signal, which stops this process by its default action; the helper is a child that
        // nobody has waited for.
        unsafe {
            let mut one: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut one);
            libc::sigaddset(&mut one, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &one, std::ptr::null_mut());
            libc::raise(signal);
            if is_terminal_stop(signal) {
                libc::pthread_sigmask(libc::SIG_BLOCK, &one, std::ptr::null_mut());
            }
            libc::kill(helper, libc::SIGKILL);
            libc::waitpid(helper, std::ptr::null_mut(), 0);
        }
    }
}

fn is_stopped(pid: libc::pid_t) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    Stat::parse(&stat).is_some_and(|stat| stat.state == b'T')
}

/// Returns true if a thread of a stopped program is in a system call that sends a stop signal to itself, its process, or its
/// group. If another thread took the signal, the calling thread may have left the call, and the result is false.
fn is_stopping_itself(pid: libc::pid_t) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut calls = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        Some((tid, std::fs::read_to_string(task.path().join("syscall")).ok()?))
    });
    // SAFETY: asks for a number.
    let group = unsafe { libc::getpgid(pid) };
    calls.any(|(tid, call)| is_own_stop(&call, pid, tid, group))
}

/// Returns true if the `syscall` file of a thread (call number and arguments, in hexadecimal) shows a call that stops the thread
/// itself, its process, or its group.
fn is_own_stop(call: &str, pid: libc::pid_t, tid: libc::pid_t, group: libc::pid_t) -> bool {
    let mut words = call.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|number| number.parse().ok()) else { return false };
    let argument = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).map(|word| word as i32);
    let arguments: Vec<i32> = words.take(3).map_while(|word| argument(word).ok()).collect();
    let &[first, second, third] = arguments.as_slice() else { return false };
    let stops = |signal| signal == libc::SIGSTOP || is_terminal_stop(signal);
    match number {
        libc::SYS_kill => [pid, 0, -group].contains(&first) && stops(second),
        libc::SYS_rt_sigqueueinfo => first == pid && stops(second),
        libc::SYS_tkill => first == tid && stops(second),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => first == pid && stops(third),
        _ => false,
    }
}

/// Starts the helper process. If that fails, returns `None`, and the launcher does not stop.
fn start_helper(program: libc::pid_t) -> Option<libc::pid_t> {
    let path = CString::new(format!("/proc/{program}/stat")).ok()?;
    // SAFETY: asks for a number.
    let launcher = unsafe { libc::getpid() };
    // SAFETY: the child calls nothing that is not async-signal-safe, because other threads may hold locks.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => run_helper(launcher, &path),
        helper => Some(helper),
    }
}

/// The helper's loop: continues the launcher when the program is no longer stopped. The launcher ends this process.
/// Async-signal-safe.
fn run_helper(launcher: libc::pid_t, path: &CStr) -> ! {
    // SAFETY: these calls take numbers and a text of this function.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"cupeer-stopped".as_ptr());
        libc::setsid();
    }
    loop {
        // SAFETY: asks for a number.
        if unsafe { libc::getppid() } != launcher {
            // SAFETY: ends this process, without the handlers of the launcher.
            unsafe { libc::_exit(0) };
        }
        if read_state_letter(path) != Some(b'T') {
            // SAFETY: the launcher is the parent of this process, so the number is still its own.
            unsafe { libc::kill(launcher, libc::SIGCONT) };
        }
        // SAFETY: reads a constant, and writes nothing.
        unsafe { libc::nanosleep(&PAUSE, std::ptr::null_mut()) };
    }
}

/// Returns the state letter in a `stat` file; `None` if the process no longer exists. Async-signal-safe.
fn read_state_letter(path: &CStr) -> Option<u8> {
    let mut text = [0; 1024];
    // SAFETY: the path ends in NUL, the buffer has the given size, and the descriptor is the one that was opened.
    let read = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = text.get(..usize::try_from(read).ok()?)?;
    Stat::parse(text).map(|stat| stat.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_stops_itself_is_in_a_call_that_does() {
        let is_own = |call: &str| is_own_stop(call, 7, 8, 5);
        let of = |number: libc::c_long, arguments: &str| format!("{number} {arguments} 0x0 0x0 0x7ffc 0x7f80\n");
        let kill = |arguments: &str| is_own(&of(libc::SYS_kill, arguments));
        assert!(kill("0x7 0x13 0x0 0x0") && kill("0x0 0x14 0x0 0x0") && kill("0xfffffffb 0x13 0x0 0x0"));
        assert!(kill("0xfffffffffffffffb 0x15 0x0 0x0") && !kill("0x9 0x13 0x0 0x0") && !kill("0x7 0xf 0x0 0x0"));
        assert!(is_own(&of(libc::SYS_tgkill, "0x7 0x8 0x13 0x0")));
        assert!(!is_own(&of(libc::SYS_tgkill, "0x6 0x8 0x13 0x0")));
        assert!(is_own(&of(libc::SYS_tkill, "0x8 0x14 0x0 0x0")));
        assert!(!is_own("running\n") && !is_own("-1 0x7ffc 0x7f80\n") && !is_own(""));
    }
}
