//! Starts and ends of processes.

use cupeer_record::{self as record, Clock, Job};
use cupeer_spec::record::end::RecordedEnd;

/// Returns the time at which the first process of a recording began.
pub fn recording_start(job: &Job) -> u64 {
    job.processes.iter().map(|process| process_start(job, process)).min().unwrap_or(0)
}

/// Returns the time at which a process began.
pub fn process_start(job: &Job, process: &record::Process) -> u64 {
    job.clock(process).realtime(process.header.first.ticks)
}

/// Returns how a process ended, and which program it executed in its place. If the process made a later call,
/// executing the program had failed.
pub fn end_and_executed_program(
    process: &record::Process,
    last_seen: Option<u64>,
    clock: Clock,
) -> (RecordedEnd, Option<String>) {
    let end = process.end();
    let itself = match end {
        RecordedEnd::Executed => RecordedEnd::Unseen,
        RecordedEnd::ExecutedReturned(status) => RecordedEnd::Returned(status),
        RecordedEnd::ExecutedSignal(signal) => RecordedEnd::Signal(signal),
        _ => return (end, None),
    };
    let Some((ticks, program)) = process.executed_program() else { return (end, None) };
    let went_on = last_seen.is_some_and(|seen| seen > clock.realtime(ticks));
    if went_on { (itself, None) } else { (end, Some(program.to_owned())) }
}
