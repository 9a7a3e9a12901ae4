//! Ends all processes of a run.

use super::watch::descendants;
use cupeer_console::output;
use cupeer_launch::job;
use cupeer_report::endings::OURSELVES;
use cupeer_report::names::counted;
use cupeer_spec::proc::{Stat, StatPath};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time in which processes may end after SIGTERM, and then the time in which they may end after SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Pause between two checks which processes have not ended.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends all descendants of this process: sends SIGTERM and, after a grace period, SIGKILL to those that still run. Notes both
/// signals in the recording. Returns when all have ended, or after a second grace period.
pub fn end_descendants(record: Option<&Path>) {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let start = Instant::now();
        let mut left = running_descendants();
        if let Some(record) = record.filter(|_| !left.is_empty()) {
            job::note_signal(record, signal, std::process::id(), OURSELVES);
        }
        left.iter().for_each(|pid| send_signal(*pid, signal));
        while !left.is_empty() && start.elapsed() < GRACE {
            std::thread::sleep(PAUSE);
            left = running_descendants();
            if signal == libc::SIGKILL {
                // A descendant may have started another process.
                left.iter().for_each(|pid| send_signal(*pid, signal));
            }
        }
    }
    if let left @ 1.. = running_descendants().len() {
        output::print_problem(&format!("{} cannot be ended", counted(left as u64, "process")));
    }
}

/// Returns the descendants that have not ended, including orphans, which the kernel gave to this process.
fn running_descendants() -> Vec<u32> {
    let own = std::process::id();
    let runs = |pid: &u32| {
        let stat = Stat::parse(&std::fs::read(StatPath(pid).to_string()).unwrap_or_default());
        stat.is_some_and(|stat| !stat.is_ending || stat.threads > 1)
    };
    descendants(own).into_iter().filter(|pid| *pid != own && runs(pid)).collect()
}

fn send_signal(pid: u32, signal: i32) {
    // SAFETY: kill takes numbers. The process was a descendant a moment ago.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}
