//! The ends of descendants whose parent ended before them, or never waited for them.
//!
//! The kernel gives these to the launcher, which is their subreaper, in place of init: so it learns how they ended. They
//! find another process as their parent; in all else nothing is different for them.

use super::watch::descendants;
use cupeer_record::clock::monotonic_now;
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::end::RecordedEnd;
use std::time::Duration;

/// Maximum number of orphans whose ends are kept; further orphans are reaped without that.
const MOST_KEPT: usize = 4096;
/// Maximum number of checks, after the end of the program, whether the last orphans have ended.
const LAST_LOOKS: u32 = 100;
/// Pause between two checks for the last orphans.
const LAST_PAUSE: Duration = Duration::from_millis(2);

/// A descendant that ended: its pid and start time, its end, and the time on CLOCK_MONOTONIC (nanoseconds) at which the end
/// was seen.
pub type Orphan = ((libc::pid_t, u64), RecordedEnd, u64);

/// Makes this process the subreaper: it becomes the parent of its descendants whose parents end.
pub fn become_subreaper() {
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Reaps orphans as [`reap_orphans`] does, after the program has ended: waits a moment for orphans that are about to end.
pub fn reap_last_orphans(program: libc::pid_t, found: &mut Vec<Orphan>) {
    let own = std::process::id();
    let is_ending = |pid: &u32| {
        let stat = Stat::parse(&std::fs::read(StatPath(pid).to_string()).unwrap_or_default());
        stat.is_some_and(|stat| stat.is_ending && stat.parent == own as i32)
    };
    for _ in 0..LAST_LOOKS {
        reap_orphans(program, found);
        if !descendants(own).iter().any(is_ending) {
            return;
        }
        std::thread::sleep(LAST_PAUSE);
    }
}

/// Reaps the orphans that have ended, and adds their ends to `found`. The started program is left to the launcher's own
/// wait.
pub fn reap_orphans(program: libc::pid_t, found: &mut Vec<Orphan>) {
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
        // The pid stays that of the ended process until the launcher reaps it, so /proc has its start time.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let started = Stat::parse(&stat).map(|stat| stat.started);
        let Some(end) = end_from_waitid(info.si_code, status) else { return };
        found.extend(started.filter(|_| found.len() < MOST_KEPT).map(|started| ((pid, started), end, monotonic_now())));
        // SAFETY: the process is a child that has ended, and nobody else waits for it.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Returns the end that a `waitid` reports; `None` if it reports a stop. The kernel reports stops of a process to its tracer
/// without being asked, and a thread of the launcher traces processes to read their stacks.
fn end_from_waitid(code: i32, status: i32) -> Option<RecordedEnd> {
    match code {
        libc::CLD_EXITED => Some(RecordedEnd::Returned(status as u8)),
        libc::CLD_KILLED | libc::CLD_DUMPED => Some(RecordedEnd::Signal(status as u8)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_for_a_tracer_is_not_an_end() {
        assert_eq!(end_from_waitid(libc::CLD_TRAPPED, libc::SIGTRAP), None);
        assert_eq!(end_from_waitid(libc::CLD_KILLED, libc::SIGTRAP), Some(RecordedEnd::Signal(libc::SIGTRAP as u8)));
    }
}
