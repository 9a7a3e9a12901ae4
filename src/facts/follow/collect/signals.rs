//! Signals that a process received from outside of its run, as its launcher recorded them.

use cupeer_record::{self as record, Job, launcher};
use cupeer_report::endings::{KILL, is_end_request};
use cupeer_report::model::{Asked, Exit, ExitKind};
use cupeer_spec::env;

/// A launcher sees a signal that a process of its group received at most this many nanoseconds later.
const LATE: u64 = 1_000_000_000;
/// A process that ignores a signal is killed at most this many nanoseconds later: schedulers wait up to some minutes.
const GRACE: u64 = 300_000_000_000;

/// Returns the signal from outside because of which a process ended; `None` if the process ended by itself. The process still
/// ran at the first time, and had ended by the second.
pub fn find_ending_signal(
    job: &Job,
    process: &record::Process,
    exit: Exit,
    (ran, ended): (u64, Option<u64>),
) -> Option<Asked> {
    let page = process.variable(env::STATUS)?;
    let ended = ended.unwrap_or(u64::MAX);
    let is_its = |asked: &&launcher::ReceivedSignal| {
        asked.boot_id == process.header.boot_id && page.starts_with(&format!("/proc/{}/", asked.launcher))
    };
    let mut asked = job.signals.iter().filter(is_its).map(|asked| Asked {
        signal: asked.signal,
        sender: Some(asked.name.clone()).filter(|name| !name.is_empty()),
        pid: Some(asked.sender).filter(|pid| *pid != 0),
        at_ns: job.clock(process).realtime_of(asked.at),
    });
    let follows = |asked: &Asked| {
        let is_before = asked.at_ns <= ended.saturating_add(LATE);
        let is_soon = ended == u64::MAX || ended <= asked.at_ns.saturating_add(GRACE);
        match exit.kind {
            ExitKind::Signal if exit.signal == Some(asked.signal) => is_before,
            ExitKind::Signal if exit.signal == Some(KILL) => is_before && is_soon,
            ExitKind::Died => {
                let is_at_once = ended == u64::MAX || ended <= asked.at_ns.saturating_add(LATE);
                is_before && is_at_once && is_end_request(asked.signal)
            }
            ExitKind::Returned if exit.code.is_some_and(|code| code > 0) => {
                is_before && is_soon && is_end_request(asked.signal) && asked.at_ns <= ran.saturating_add(LATE)
            }
            _ => false,
        }
    };
    // The process may have handled earlier signals, so the last one counts.
    asked.rfind(follows)
}
