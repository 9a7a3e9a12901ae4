//! Whether another process of this host runs: asked of the system, when a rule depends on it.
//!
//! A process that is ending, in all of its threads, counts as gone from when the kernel has begun to end it: its peers may notice that, by the
//! end of a pipe, before it is a zombie.

use super::files::{self, each_name};
use super::line::Short;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
pub use cupeer_rules::decide::Life;
use cupeer_spec::record::live::Entry;

/// What the system says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// When it was started, in ticks of the system since boot.
    pub started: u64,
    /// Where the stack of its program begins, folded to 32 bits: another one after it has executed another program. 0
    /// where the system does not say.
    pub stack: u32,
    /// Whether it is ending, or has ended and nobody has waited for it.
    pub is_ending: bool,
}

/// Whether /proc shows the processes of our pid namespace: where another one's is mounted, its pids are others'.
fn shows_ours() -> bool {
    /// The process that has seen so; it cannot change its namespace.
    static SEEN: AtomicU32 = AtomicU32::new(0);
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    let mut name = [0u8; 16];
    // SAFETY: the path ends in NUL, and the kernel writes at most that many bytes.
    let length = unsafe { libc::readlink(c"/proc/self".as_ptr(), name.as_mut_ptr().cast(), name.len()) };
    let name = core::str::from_utf8(&name[..length.max(0) as usize]).unwrap_or("");
    if name.parse() != Ok(pid) {
        return false;
    }
    if SEEN.load(Relaxed) != pid {
        let mut text = [0u8; 1024];
        let length = files::read(c"/proc/self/status", &mut text).unwrap_or(0);
        if has_several_pids(&text[..length]) {
            return false;
        }
        SEEN.store(pid, Relaxed);
    }
    true
}

/// Whether a process has other pids as well, by its `status` file: the namespace of /proc is above its own.
fn has_several_pids(status: &[u8]) -> bool {
    let pids = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let pids = pids.unwrap_or_default().split(|byte| byte.is_ascii_whitespace());
    pids.filter(|pid| !pid.is_empty()).count() > 1
}

/// Whether a process has the clock that we have: in another time namespace, it was started at another time.
fn has_our_clock(pid: u32) -> bool {
    let clock = |path: fmt::Arguments| {
        let mut target = [0u8; 32];
        let path = Short::<48>::new(path);
        let path = path.c_text().unwrap_or_default();
        // SAFETY: the path ends in NUL, and the kernel writes at most that many bytes.
        let length = unsafe { libc::readlink(path.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
        (length > 0).then_some(target)
    };
    // Kernels before 5.6 have one clock.
    clock(format_args!("/proc/self/ns/time\0"))
        .is_none_or(|ours| clock(format_args!("/proc/{pid}/ns/time\0")) == Some(ours))
}

/// Looks at a process of our pid namespace. `None` where there is none, or the system does not show it.
pub fn look(pid: u32) -> Option<Seen> {
    let (mut seen, threads) = stat(format_args!("/proc/{pid}/stat\0"))?;
    // A process goes on without its first thread.
    if seen.is_ending && threads > 1 && has_running_thread(pid) {
        seen.is_ending = false;
    }
    Some(seen)
}

/// Whether a thread of a process is not ending.
fn has_running_thread(pid: u32) -> bool {
    let path = Short::<48>::new(format_args!("/proc/{pid}/task\0"));
    let mut found = false;
    each_name(path.c_text().unwrap_or_default(), |tid| {
        let is_thread = tid.bytes().all(|byte| byte.is_ascii_digit());
        let thread = is_thread.then(|| stat(format_args!("/proc/{pid}/task/{tid}/stat\0"))).flatten();
        found = thread.is_some_and(|(thread, _)| !thread.is_ending);
        found
    });
    found
}

/// What a `stat` file says, and how many threads the process has.
fn stat(path: fmt::Arguments) -> Option<(Seen, u64)> {
    let path = Short::<64>::new(path);
    let mut text = [0u8; 512];
    let length = files::read(path.c_text()?, &mut text).ok()?;
    parse(&text[..length])
}

/// The name of the program, in parentheses, may hold anything: fields are counted from behind it.
fn parse(stat: &[u8]) -> Option<(Seen, u64)> {
    /// PF_EXITING of the kernel.
    const EXITING: u64 = 4;
    let from = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = stat[from..].split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
    // Field 3.
    let state = *fields.next()?.first()?;
    let number = |field: &[u8]| core::str::from_utf8(field).ok()?.parse::<u64>().ok();
    let flags = number(fields.nth(9 - 4)?)?;
    let threads = number(fields.nth(20 - 10)?)?;
    let started = number(fields.nth(22 - 21)?)?;
    let stack = fields.nth(28 - 23).and_then(number).unwrap_or(0);
    let is_ending = matches!(state, b'Z' | b'X' | b'x') || flags & EXITING != 0;
    Some((Seen { started, stack: (stack >> 4) as u32, is_ending }, threads))
}

/// Whether the process of an entry of the live table runs.
pub fn of(entry: &Entry, own_pid_ns: u64) -> Life {
    if entry.pid_ns != own_pid_ns || own_pid_ns == 0 {
        return Life::Unknown;
    }
    let seen = if shows_ours() { look(entry.pid) } else { None };
    let Some(seen) = seen else {
        return if exists(entry.pid) { Life::Unknown } else { Life::Gone };
    };
    if seen.started != entry.started {
        return if has_our_clock(entry.pid) { Life::Gone } else { Life::Unknown };
    }
    let is_another = seen.stack != 0 && entry.stack != 0 && seen.stack != entry.stack;
    if seen.is_ending || is_another { Life::Gone } else { Life::Runs }
}

/// Whether there is a process of this pid, whoever's it is.
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 is none; the kernel only looks.
    pid != 0 && unsafe { libc::kill(pid as i32, 0) == 0 || crate::sys::files::errno() == libc::EPERM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_from_when_it_begins_to_end() {
        let stat = |state: &str, flags: u32| {
            format!(
                "12 (a ) b) {state} 1 12 12 0 -1 {flags} 1 0 2 0 3 4 5 6 20 0 1 0 4711 100 5 18446744073709551615 1 2 140736 0 0"
            )
        };
        let wanted = Seen { started: 4711, stack: 140736 >> 4, is_ending: false };
        assert_eq!(parse(stat("S", 4194304).as_bytes()), Some((wanted, 1)));
        assert!(parse(stat("R", 4194304 | 4).as_bytes()).unwrap().0.is_ending);
        assert!(parse(stat("Z", 0).as_bytes()).unwrap().0.is_ending);
        for broken in ["", "12 (a", "12 (a) S", "12 (a) S 1 2 x"] {
            assert_eq!(parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_process_below_the_namespace_of_proc_has_several_pids() {
        assert!(
            !has_several_pids(b"Name:\ta\nNSpid:\t12\nVmPeak:\t 3 kB\n") && !has_several_pids(b"Name:\ta\n")
        );
        assert!(has_several_pids(b"Name:\ta\nNSpid:\t4711\t12\n"));
        assert!(shows_ours() && has_our_clock(std::process::id()));
    }

    #[test]
    fn this_process_runs_and_a_child_that_was_waited_for_does_not() {
        let own = look(std::process::id()).expect("this process");
        assert!(!own.is_ending && own.started > 0 && own.stack > 0);
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("its end");
        assert!(look(pid).is_none() && !exists(pid));
    }
}
