//! Asks the system whether another process of this host runs, when a rule depends on it.
//!
//! A process counts as gone as soon as the kernel has begun to end all of its threads: its peers may notice that by
//! the end of a pipe, before it is a zombie.

use super::errno::errno;
use super::files::{self, each_name};
use super::line::ShortText;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
pub use cupeer_rules::decide::ProcessLife;
use cupeer_spec::proc::{self, Stat};
use cupeer_spec::record::live::Entry;

/// State of a process, as the system reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessState {
    /// Start time of the process, in clock ticks of the system since boot.
    pub started: u64,
    /// Pid of the process that started or adopted this one.
    pub parent: u32,
    /// Start address of the stack of the process's program, folded to 32 bits. It changes when the process executes another
    /// program. 0 if the system does not report it.
    pub stack: u32,
    /// True if the process is ending, or has ended and its parent has not waited for it.
    pub is_ending: bool,
}

/// Returns true if /proc shows the processes of our pid namespace. If the /proc of another namespace is mounted, a pid there
/// belongs to another process.
fn does_proc_show_ours() -> bool {
    /// Pid of the process that has checked this; a process cannot change its pid namespace.
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let mut name = [0u8; 16];
    let name = core::str::from_utf8(files::read_link(format_args!("/proc/self\0"), &mut name)).unwrap_or("");
    if name.parse() != Ok(pid) {
        return false;
    }
    if SEEN.load(Relaxed) != pid {
        let mut text = [0u8; 1024];
        let length = files::read(c"/proc/self/status", &mut text).unwrap_or(0);
        // The mounted /proc belongs to a namespace above ours.
        if proc::parse_pids(&text[..length]).count() > 1 {
            return false;
        }
        SEEN.store(pid, Relaxed);
    }
    true
}

/// Returns true if a process is in our time namespace: in another one, start times differ.
fn has_our_clock(pid: u32) -> bool {
    let (mut ours, mut theirs) = ([0u8; 32], [0u8; 32]);
    let ours = files::read_link(format_args!("/proc/self/ns/time\0"), &mut ours);
    // Kernels before 5.6 have no time namespaces.
    ours.is_empty() || ours == files::read_link(format_args!("/proc/{pid}/ns/time\0"), &mut theirs)
}

/// Returns the state of a process of our pid namespace. Returns `None` if there is no such process, or the system does not show
/// it.
pub fn read_state(pid: u32) -> Option<ProcessState> {
    let stat = stat(format_args!("{}\0", proc::StatPath(pid)))?;
    // A process continues without its first thread.
    let is_ending = stat.is_ending && !(stat.threads > 1 && has_running_thread(pid));
    let (started, parent) = (stat.started, stat.parent as u32);
    Some(ProcessState { started, parent, stack: (stat.stack >> 4) as u32, is_ending })
}

/// Returns true if a thread of a process is not ending.
fn has_running_thread(pid: u32) -> bool {
    let path = ShortText::<48>::new(format_args!("/proc/{pid}/task\0"));
    let mut found = false;
    each_name(path.c_text().unwrap_or_default(), |tid| {
        let is_thread = tid.bytes().all(|byte| byte.is_ascii_digit());
        let thread = is_thread.then(|| stat(format_args!("/proc/{pid}/task/{tid}/stat\0"))).flatten();
        found = thread.is_some_and(|thread| !thread.is_ending);
        found
    });
    found
}

fn stat(path: fmt::Arguments) -> Option<Stat> {
    let path = ShortText::<64>::new(path);
    let mut text = [0u8; 512];
    let length = files::read(path.c_text()?, &mut text).ok()?;
    Stat::parse(&text[..length])
}

/// Returns whether the process of an entry of the live table is running. `own_pid_ns` is the pid namespace of this process.
pub fn of_entry(entry: &Entry, own_pid_ns: u64) -> ProcessLife {
    if entry.pid_ns != own_pid_ns || own_pid_ns == 0 {
        return ProcessLife::Unknown;
    }
    let Some(seen) = does_proc_show_ours().then(|| read_state(entry.pid)).flatten() else {
        return if exists(entry.pid) { ProcessLife::Unknown } else { ProcessLife::Gone };
    };
    if seen.started != entry.started {
        return if has_our_clock(entry.pid) { ProcessLife::Gone } else { ProcessLife::Unknown };
    }
    let is_another = seen.stack != 0 && entry.stack != 0 && seen.stack != entry.stack;
    if seen.is_ending || is_another { ProcessLife::Gone } else { ProcessLife::Runs }
}

/// Returns true if the process of an entry has executed another program since the entry was made.
pub fn has_executed_another(entry: &Entry) -> bool {
    read_state(entry.pid).is_some_and(|seen| seen.started == entry.started && !seen.is_ending)
}

/// Returns true if a process with this pid exists, of any user.
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 is none; the kernel only looks.
    pid != 0 && unsafe { libc::kill(pid as i32, 0) == 0 || errno() == libc::EPERM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_a_child_that_was_waited_for_does_not() {
        let own = read_state(std::process::id()).expect("this process");
        assert!(does_proc_show_ours() && has_our_clock(std::process::id()));
        assert!(!own.is_ending && own.started > 0 && own.stack > 0);
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("its end");
        assert!(read_state(pid).is_none() && !exists(pid));
    }
}
