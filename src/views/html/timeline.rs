//! The timeline: the calls of each process over time, in the resolution of a chart.
//!
//! It reads the recording a second time, because bins have a width only after the first and the last moment are known.
//! The memory depends on the number of processes and bins, not on the number of calls: the longest calls of a process
//! are kept one by one, and all calls are counted in bins. Of failures that may be expected, some wait for what follows.

use anyhow::{Context, Result};
use cupeer_record::{Call, Clock, Job, Outcome, Process};
use cupeer_report::expected::{self, Expectation, ProbeQuery};
use cupeer_report::filter::Filter;
use cupeer_report::judged::is_runtime;
use cupeer_report::model::Report;
use cupeer_report::pending::PendingCalls;
use cupeer_report::results::is_usual;
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::mem;

/// Largest number of bins of all processes together.
const MOST_BINS: usize = 60_000;
/// Largest number of bins per process.
const FINEST: usize = 600;
/// Smallest number of bins per process.
const COARSEST: usize = 60;
/// Largest number of calls of all processes together that are kept one by one.
const MOST_CALLS: usize = 6000;
/// Number of calls per process that are kept one by one in any case.
const FEWEST_CALLS: usize = 8;
/// Largest number of failures per process that wait for the next call of their thread. Failures beyond this
/// count as unexpected.
const MOST_WAITING: usize = 50_000;

/// Calls of all processes over time.
#[derive(Serialize)]
pub struct Timeline {
    /// Number of bins. All bins have the same width.
    pub bins: usize,
    pub width_ns: u64,
    /// Names of the functions of the calls that are kept one by one.
    functions: Vec<String>,
    /// Rows in the order of the report's processes.
    pub rows: Vec<TimelineRow>,
    /// Number of calls in the rows.
    pub calls: u64,
    /// Number of the calls in the rows that are kept one by one.
    pub single: u64,
}

/// Calls of one process.
#[derive(Serialize, Default)]
pub struct TimelineRow {
    /// Last time at which the recording shows the process, in nanoseconds since the start of the recording.
    pub until_ns: u64,
    /// Number of calls that began in each bin.
    calls: BinCounts,
    /// Number of failed calls, except expected failures.
    failed: BinCounts,
    longest: Vec<KeptCall>,
}

/// Counts by bin. JSON has only runs of bins that are not empty: `[first, count, count, ...]` for each run.
#[derive(Default)]
struct BinCounts(Vec<u32>);

impl Serialize for BinCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut runs: Vec<Vec<u32>> = Vec::new();
        let mut is_empty = true;
        for (bin, count) in self.0.iter().enumerate() {
            if *count > 0 {
                if is_empty {
                    runs.push(vec![bin as u32]);
                }
                runs.last_mut().expect("it was begun").push(*count);
            }
            is_empty = *count == 0;
        }
        runs.serialize(serializer)
    }
}

/// Call that is kept by itself: its duration, its start, its function, and 1 if it failed unexpectedly. JSON
/// has the fields in this order.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct KeptCall(u64, u64, usize, u8);

/// Reads the record for the processes of its report.
pub fn read_timeline(job: &Job, filter: &Filter, report: &Report) -> Result<Timeline> {
    let began = report.record.began_ns;
    let lasted = report.record.ended_ns.saturating_sub(began).max(1);
    let processes = report.processes.len().max(1);
    let bins = (MOST_BINS / processes).clamp(COARSEST, FINEST);
    let mut reading = TimelineReader {
        filter,
        began,
        width_ns: lasted.div_ceil(bins as u64),
        bins,
        most: (MOST_CALLS / processes).max(FEWEST_CALLS),
        functions: BTreeMap::new(),
        has_damaged: job.faults.iter().any(|file| !file.damaged.is_empty()),
    };
    let by_proc: HashMap<&str, &Process> =
        job.processes.iter().map(|process| (process.proc.as_str(), process)).collect();
    let mut rows = Vec::new();
    let (mut calls, mut single) = (0, 0);
    for process in &report.processes {
        let row = by_proc.get(&*process.proc).map(|found| reading.read_process(found, job.clock(found)));
        let row = row.transpose()?.unwrap_or_default();
        calls += row.calls.0.iter().map(|count| u64::from(*count)).sum::<u64>();
        single += row.longest.len() as u64;
        rows.push(row);
    }
    let mut functions = vec![String::new(); reading.functions.len()];
    for (name, number) in reading.functions {
        functions[number] = name;
    }
    Ok(Timeline { bins, width_ns: reading.width_ns, functions, rows, calls, single })
}

/// Returns true if a call failed in a way in which calls of working programs do not fail.
fn has_failed_unusually(call: &Call) -> bool {
    let is_unusual = |result| call.injected || !is_usual(call.function, result);
    matches!(call.outcome, Outcome::Returned(result) if result != 0 && is_unusual(result))
}

struct TimelineReader<'a> {
    filter: &'a Filter,
    began: u64,
    width_ns: u64,
    bins: usize,
    most: usize,
    functions: BTreeMap<String, usize>,
    /// True if a fault plan damaged handles. A failed open is then not an answer to a probe.
    has_damaged: bool,
}

/// State of reading the events of one process.
struct ProcessReading<'a> {
    process: &'a Process,
    clock: Clock,
    row: TimelineRow,
    longest: BinaryHeap<Reverse<KeptCall>>,
    /// Failures that are expected if the thread makes the follow-up call of the probe. Otherwise, they count
    /// as failed.
    waiting: HashMap<ProbeQuery, Vec<ShownCall<'a>>>,
    /// Number of failures in `waiting`, including those that were resolved.
    waited: usize,
}

/// Facts about a call to show: its function, its time, its duration, the time of its last repetition, and the
/// number of repetitions.
struct ShownCall<'a> {
    name: &'a str,
    at: u64,
    took: u64,
    until: u64,
    times: u64,
}

impl TimelineReader<'_> {
    fn read_process(&mut self, process: &Process, clock: Clock) -> Result<TimelineRow> {
        let empty = || BinCounts(vec![0; self.bins]);
        let row = TimelineRow { calls: empty(), failed: empty(), ..TimelineRow::default() };
        let (longest, waiting) = (BinaryHeap::new(), HashMap::new());
        let mut read = ProcessReading { process, clock, row, longest, waiting, waited: 0 };
        let mut pending = PendingCalls::default();
        let ends = self.filter.until().is_some();
        let events = process.events();
        for event in events.with_context(|| format!("failed to read {}", process.path.display()))? {
            if ends && !self.filter.is_before_end(read.clock.realtime(event.start())) {
                continue;
            }
            if let Some(call) = pending.take_completed(&event) {
                self.add_returned(&call, &mut read);
            }
        }
        for call in pending.into_unfinished() {
            let shown = self.call_to_show(&call, &read);
            self.add_call(shown, false, &mut read);
        }
        for shown in mem::take(&mut read.waiting).into_values().flatten() {
            self.add_call(Some(shown), true, &mut read);
        }
        let ProcessReading { mut row, longest, clock, .. } = read;
        let last = clock.realtime(process.header.last.ticks);
        let last = self.filter.until().map_or(last, |until| last.min(until));
        row.until_ns = row.until_ns.max(last.saturating_sub(self.began));
        row.longest = longest.into_iter().map(|Reverse(single)| single).collect();
        row.longest.sort_by_key(|single| single.1);
        Ok(row)
    }

    /// Adds a call that returned, and finds out whether it failed unexpectedly.
    fn add_returned<'a>(&mut self, call: &Call, read: &mut ProcessReading<'a>) {
        let mut standing = Expectation::Unexpected;
        if let Some(function) = call.function {
            if !read.waiting.is_empty()
                && let Some(question) = expected::query_answered_by(function, call)
            {
                for shown in read.waiting.remove(&question).into_iter().flatten() {
                    self.add_call(Some(shown), false, read);
                }
            }
            if !(self.has_damaged && function.spec().opens().is_some()) {
                standing = Expectation::of(read.process, function, call);
            }
        }
        let shown = self.call_to_show(call, read);
        let has_failed = match standing {
            Expectation::Unexpected => has_failed_unusually(call),
            Expectation::Expected(_) => false,
            Expectation::Undecided(_, question) if read.waited < MOST_WAITING => {
                read.waited += usize::from(shown.is_some());
                return read.waiting.entry(question).or_default().extend(shown);
            }
            Expectation::Undecided(..) => true,
        };
        self.add_call(shown, has_failed, read);
    }

    /// Returns the facts about a call to show if the filter selects it.
    fn call_to_show<'a>(
        &self,
        call: &Call,
        ProcessReading { process, clock, .. }: &ProcessReading<'a>,
    ) -> Option<ShownCall<'a>> {
        let begun = clock.realtime(call.start);
        // The driver calls that a runtime call makes show its work.
        if is_runtime(call.function) || !self.filter.has_call(call, begun) {
            return None;
        }
        Some(ShownCall {
            name: process.function_name(call.number),
            at: begun.saturating_sub(self.began),
            took: clock.between(call.start, call.end),
            until: clock.realtime(call.last_end()).saturating_sub(self.began),
            times: call.call_count(),
        })
    }

    fn add_call(
        &mut self,
        shown: Option<ShownCall>,
        has_failed: bool,
        ProcessReading { row, longest, .. }: &mut ProcessReading,
    ) {
        let Some(ShownCall { name, at, took, until, times }) = shown else { return };
        let bin = ((at / self.width_ns) as usize).min(self.bins - 1);
        row.calls.0[bin] = row.calls.0[bin].saturating_add(1);
        row.failed.0[bin] = row.failed.0[bin].saturating_add(u32::from(has_failed));
        if times > 1 {
            let last = ((until / self.width_ns) as usize).clamp(bin, self.bins - 1);
            // The times of repeated calls are unknown, so spread them evenly over the bins.
            let (bins, calls) = ((last - bin + 1) as u64, times - 1);
            for (i, bin) in (bin..=last).enumerate() {
                let more = u32::try_from(calls / bins + u64::from((i as u64) < calls % bins));
                let more = more.unwrap_or(u32::MAX);
                row.calls.0[bin] = row.calls.0[bin].saturating_add(more);
                row.failed.0[bin] = row.failed.0[bin].saturating_add(if has_failed { more } else { 0 });
            }
            row.until_ns = row.until_ns.max(until);
        }
        row.until_ns = row.until_ns.max(at.saturating_add(took));
        if longest.len() >= self.most && longest.peek().is_some_and(|Reverse(least)| took <= least.0) {
            return;
        }
        let next = self.functions.len();
        let function = match self.functions.get(name) {
            Some(known) => *known,
            None => *self.functions.entry(name.to_owned()).or_insert(next),
        };
        longest.push(Reverse(KeptCall(took, at, function, has_failed.into())));
        if longest.len() > self.most {
            longest.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_bins_are_left_out() {
        let json = |counts: &[u32]| serde_json::to_string(&BinCounts(counts.to_vec())).unwrap();
        assert_eq!(json(&[0, 0, 0]), "[]");
        assert_eq!(json(&[1, 2, 0, 0, 3]), "[[0,1,2],[4,3]]");
    }
}
