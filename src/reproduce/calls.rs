//! The calls of all processes of a recording.

use anyhow::{Context, Result};
use cupeer_record::{Call, Event, Job, Outcome, Process};
use cupeer_report::values::handle_fingerprints;
use std::collections::HashMap;

/// A recorded call, with times that all processes of a host share.
pub struct RecordedCall {
    /// Index of the process in the job.
    pub process: usize,
    pub call: Call,
    /// True if the call is known only as a use of shared memory, which succeeded.
    pub is_use: bool,
    /// Time when the call began, in nanoseconds.
    pub start: u64,
}

impl RecordedCall {
    /// Returns the fingerprint of the handle that the call exports or, if not `exports`, opens, and the process.
    pub fn shared(&self, exports: bool) -> Option<(u64, usize)> {
        let function = self.call.function?.spec();
        let shared = if exports { function.exports() } else { function.opens() };
        Some((handle_fingerprints(&self.call, shared?.handle)?.0, self.process))
    }
}

/// Reads the calls of all processes, ordered by the time when they began.
pub fn read_calls(job: &Job) -> Result<Vec<RecordedCall>> {
    let mut all = Vec::new();
    for (index, process) in job.processes.iter().enumerate() {
        let clock = job.clock(process);
        let calls = read_process_calls(process)?;
        all.extend(calls.into_iter().map(|(call, is_use)| RecordedCall {
            process: index,
            start: clock.realtime(call.start),
            is_use,
            call,
        }));
    }
    sort_by_time(&mut all);
    Ok(all)
}

/// Sorts calls by the time when they began, but no open before the first export of its handle: clocks may differ.
fn sort_by_time(all: &mut [RecordedCall]) {
    all.sort_by_key(|recorded| recorded.start);
    let mut exported: HashMap<u64, u64> = HashMap::new();
    for recorded in all.iter().rev() {
        exported.extend(recorded.shared(true).map(|(handle, _)| (handle, recorded.start)));
    }
    // Later calls of a process stay behind one that is moved.
    let mut earliest: HashMap<usize, u64> = HashMap::new();
    for recorded in all.iter_mut() {
        let least = earliest.entry(recorded.process).or_default();
        let export = recorded.shared(false).and_then(|(handle, _)| exported.get(&handle).copied());
        recorded.start = recorded.start.max(*least).max(export.map_or(0, |export| export + 1));
        *least = recorded.start;
    }
    all.sort_by_key(|recorded| recorded.start);
}

/// Returns the calls of a process with the ends that came late, and the recorded copies.
fn read_process_calls(process: &Process) -> Result<Vec<(Call, bool)>> {
    let mut calls: Vec<(Call, bool)> = Vec::new();
    let mut pending = HashMap::new();
    let mut events = process.events().context("failed to read the calls")?;
    for event in events.by_ref() {
        match event {
            Event::Call(call) => {
                if call.outcome == Outcome::Pending {
                    pending.insert((call.stream, call.seq), calls.len());
                }
                calls.push((call, false));
            }
            Event::Use(call) => calls.push((call, true)),
            Event::LateEnd { stream, seq, .. } => {
                if let Some(place) = pending.remove(&(stream, seq)) {
                    calls[place].0.apply_late_end(&event);
                }
            }
            Event::Mark { .. } => {}
        }
    }
    match events.first_error() {
        Some(error) => Err(anyhow::anyhow!("the calls cannot be read completely: {error}")),
        None => Ok(calls),
    }
}
