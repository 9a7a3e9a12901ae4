//! The job of a recording while it is running: the calls that hang by fault plans, and whether any process is left.

use anyhow::{Context, Result, ensure};
use cupeer_console::output::CommandFailure;
use cupeer_record::{Call, Event, FaultFile, Job, Outcome, Process, launcher};
use cupeer_report::names::{clean, counted};
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::{SUFFIX, job};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

/// Exit status of a command that found no call to release and no plan to change.
const NOTHING_STATUS: u8 = 1;

/// A call that a fault plan holds.
pub struct HangingCall {
    /// Name of the rule that holds the call.
    pub rule: String,
    /// Process and function of the call, in words.
    pub place: String,
}

/// Returns an error if no job records to a directory.
pub fn check_recording(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let about = directory.metadata().with_context(|| format!("'{shown}' cannot be read"))?;
    ensure!(about.is_dir(), "'{shown}' is not a directory; name the one that the run records to");
    let is_record = is_record(directory).with_context(|| format!("'{shown}' cannot be read"))?;
    ensure!(is_record, "'{shown}' holds no recording; name the directory that the run records to");
    Ok(())
}

/// Returns true if processes record to a directory itself, rather than to its subdirectories.
fn is_record(directory: &Path) -> io::Result<bool> {
    let is_ours = |name: &str, path: &Path| match name {
        job::FILE => cupeer_recordings::job::read_job_file(path).is_ok_and(|text| text.starts_with(job::FIRST_LINE)),
        _ => name.ends_with(SUFFIX) || FaultFile::is_file_name(name),
    };
    let mut entries = fs::read_dir(directory)?.flatten();
    Ok(entries.any(|entry| is_ours(&entry.file_name().to_string_lossy(), &entry.path())))
}

/// Returns a failure for a command that found nothing to do. It has an exit status of its own, so that a script can
/// distinguish it from a mistake.
pub fn nothing_to_do(sentence: String) -> CommandFailure {
    CommandFailure { sentence, excerpt: None, status: NOTHING_STATUS }
}

/// Returns true if all processes of a job and their launchers have ended.
pub fn has_job_ended(job: &Job, directory: &Path) -> bool {
    let text = cupeer_recordings::job::read_job_file(&directory.join(job::FILE)).unwrap_or_default();
    let mut answers = job.are_alive().into_iter().chain(launcher::are_running(&text));
    !job.processes.is_empty() && answers.all(|answer| answer == Some(false))
}

/// Returns a number of hanging calls in words: `1 call hangs`, or `2 calls hang`.
pub fn format_hanging_count(count: u64) -> String {
    format!("{} hang{}", counted(count, "call"), if count == 1 { "s" } else { "" })
}

/// Returns the calls of a job that a fault plan holds, in processes that may still be running.
pub fn find_hanging_calls(job: &Job) -> Vec<HangingCall> {
    let running = job.processes.iter().zip(job.are_alive()).filter(|(_, alive)| *alive != Some(false));
    running.flat_map(|(process, _)| hanging_calls_of(process)).collect()
}

fn hanging_calls_of(process: &Process) -> Vec<HangingCall> {
    let mut pending: HashMap<(u32, u64), Call> = HashMap::new();
    // A call whose rule cannot be read counts as held.
    for event in process.events().into_iter().flatten() {
        match event {
            Event::Call(call) if call.outcome == Outcome::Pending => {
                pending.insert((call.stream, call.seq), call);
            }
            Event::LateEnd { stream, seq, .. } => drop(pending.remove(&(stream, seq))),
            _ => {}
        }
    }
    let mut calls: Vec<&Call> = pending.values().collect();
    calls.sort_by_key(|call| (call.start, call.stream, call.seq));
    let of_call = |call: &&Call| {
        let hit = call.stopping_fault().filter(|hit| hit.has_effect(did::HANG))?;
        let rank = process.rank().map(|rank| format!("rank {rank}, ")).unwrap_or_default();
        let (function, pid) = (clean(process.function_name(call.number)), process.header.pid);
        let place = format!("{rank}process {pid}, thread {} in {function} ({})", call.tid, clean(&hit.fault_name));
        Some(HangingCall { rule: hit.fault_name.clone(), place })
    };
    calls.iter().filter_map(of_call).collect()
}
