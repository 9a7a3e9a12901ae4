//! The ends of descendants whose parent ended before them, or never waited for them.
//!
//! The kernel gives these to the launcher, which is their subreaper, in place of init: so it learns how they ended. They
//! find another process as their parent; in all else nothing is different for them.

use super::watch::descendants;
use cupeer_record::clock::monotonic;
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::End;
use std::time::Duration;

/// Maximum number of ends that are kept.
const MOST: usize = 4096;
/// Number of looks while the last orphans end.
const PATIENCE: u32 = 100;
/// Pause between two of these looks.
const MOMENT: Duration = Duration::from_millis(2);

/// A descendant that ended: its pid and start time, its end, and the time on CLOCK_MONOTONIC (nanoseconds) at which the end
/// was seen.
pub type Orphan = ((libc::pid_t, u64), End, u64);

/// Makes this process the subreaper: it becomes the parent of its descendants whose parents end.
pub fn adopt() {
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Reaps orphans as [`reap`] does, after the program has ended: waits a moment for orphans that are about to end.
pub fn reap_the_last(program: libc::pid_t, found: &mut Vec<Orphan>) {
    let own = std::process::id();
    let is_ending = |pid: &u32| {
        let stat = Stat::parse(&std::fs::read(StatPath(pid).to_string()).unwrap_or_default());
        stat.is_some_and(|stat| stat.is_ending && stat.parent == own as i32)
    };
    for _ in 0..PATIENCE {
        reap(program, found);
        if !descendants(own).iter().any(is_ending) {
            return;
        }
        std::thread::sleep(MOMENT);
    }
}

/// Reaps the orphans that have ended, and adds their ends to `found`. The started program is left to the launcher's own
/// wait.
pub fn reap(program: libc::pid_t, found: &mut Vec<Orphan>) {
    loop {
        // SAFETY: all-zero bytes are a valid siginfo, which the call fills.
        let (got, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_ALL, 0, &mut info, flags), info)
        };
        // SAFETY: the call filled it for a child, or left it zero.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if got != 0 || pid == 0 || pid == program {
            return;
        }
        // Until somebody waits for the process, no other process gets its pid.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let started = Stat::parse(&stat).map(|stat| stat.started);
        let Some(end) = end(info.si_code, status) else { return };
        found
            .extend(started.filter(|_| found.len() < MOST).map(|started| ((pid, started), end, monotonic())));
        // SAFETY: the process is a child that has ended, and nobody else waits for it.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Returns the end that a `waitid` reports; `None` if it reports a stop. The kernel reports stops of a process to its tracer
/// without being asked, and a thread of the launcher traces processes to read their stacks.
fn end(code: i32, status: i32) -> Option<End> {
    match code {
        libc::CLD_EXITED => Some(End::Returned(status as u8)),
        libc::CLD_KILLED | libc::CLD_DUMPED => Some(End::Signal(status as u8)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_for_a_tracer_is_not_an_end() {
        assert_eq!(end(libc::CLD_TRAPPED, libc::SIGTRAP), None);
        assert_eq!(end(libc::CLD_KILLED, libc::SIGTRAP), Some(End::Signal(libc::SIGTRAP as u8)));
    }
}
