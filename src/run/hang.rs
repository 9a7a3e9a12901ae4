//! `cupeer run --on-hang`: notices that no process of the run makes progress, prints what they wait in, keeps it in the recording
//! ([`super::hung`]), and ends the run if that was asked for ([`super::ending`]).
//!
//! Nothing hangs before a process has met a driver. Then, progress is:
//!
//! - a process that meets a driver, begins to record, or ends its recording
//! - a recorded call that brings something new ([`cupeer_record::Follower::productive_calls`])
//! - a process that computes, or reads and writes files ([`super::processors`])
//!
//! Time that a process spends waiting for the device, as CUDA does in a loop, is no progress: if there is no recorded call, the
//! stacks of those that compute are looked at. A recorded call that does not return is a hang by its age alone. A rank that is in
//! one sleep, and not in one that hardly ends, goes on by itself, so the others wait for that.

use super::child::ProgramEnd;
use super::ending;
use super::hung::{self, CallThread};
use super::page::StatusPage;
use super::processors::{ProcessorUsage, Readiness};
use super::watch::descendants;
use crate::args::OnHang as Asked;
use cupeer_console::output;
use cupeer_record::host;
use cupeer_recordings::hang::{HangWaits, ReadWaits};
use cupeer_recordings::live::{BLOCKS_PER_REFRESH, Watcher};
use cupeer_report::model::{Exit, ExitKind};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of checks for progress during the time without progress after which a run counts as hung.
const LOOKS_PER_LIMIT: u32 = 8;
/// Longest pause between two checks for progress.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Factor: a single sleep of up to this many times the limit keeps the other processes from counting as hung.
const LONGEST_SLEEP: u32 = 10;
/// Maximum number of checks at the end of a run whether its last processes have ended.
const END_LOOKS: u32 = 5;
/// Pause between two checks at the end of a run.
const END_PAUSE: Duration = Duration::from_millis(40);

/// Options and functions for noticing hangs.
pub struct HangOptions {
    /// Time without progress that counts as a hang, and the exit status for ending the run.
    pub options: Asked,
    /// Function that reads what processes wait in.
    pub read: ReadWaits,
    /// Directory of the recording, in which hangs are kept.
    pub record: Option<PathBuf>,
    /// Page in which processes report that they reached a driver.
    pub page: Option<Arc<StatusPage>>,
}

/// A hang that lasted until the run ended.
pub struct FinalHang {
    /// Exit status of the run if cupeer ended the run because of the hang.
    pub status: Option<u8>,
}

/// Handle of the thread that checks whether the run hangs.
pub struct HangWatcher {
    stop: Sender<ProgramEnd>,
    thread: Option<JoinHandle<Option<FinalHang>>>,
}

impl HangWatcher {
    /// Starts a thread that looks for hangs of this process's descendants.
    pub fn start(on_hang: HangOptions) -> HangWatcher {
        let (stop, stopped) = mpsc::channel();
        let pause = (on_hang.options.limit / LOOKS_PER_LIMIT).min(LONGEST_PAUSE);
        let thread = std::thread::Builder::new().name("cupeer-hang".into()).spawn(move || {
            let mut progress = HangDetector::new(on_hang);
            loop {
                match stopped.recv_timeout(pause) {
                    Ok(end) => return progress.judge_end(end),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => progress.check_progress(),
                }
                let status = progress.on_hang.options.exit.filter(|_| !progress.hangs.is_empty());
                if status.is_some() {
                    ending::end_descendants(progress.on_hang.record.as_deref());
                    return Some(FinalHang { status });
                }
            }
        });
        if let Err(error) = &thread {
            output::print_problem(&format!("--on-hang has no effect: {error}"));
        }
        HangWatcher { stop, thread: thread.ok() }
    }

    /// Stops the thread. Returns the hang if the run hung until its end. If cupeer is ending the run, waits for that.
    pub fn stop(self, end: ProgramEnd) -> Option<FinalHang> {
        // This fails only if the thread has ended already.
        let _ = self.stop.send(end);
        self.thread?.join().ok()?
    }
}

/// Counts that increase when the run makes progress.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ProgressCounts {
    /// Number of processes that reached a driver, number of recordings, and number of recordings that ended.
    processes: [u64; 3],
    calls: u64,
}

/// State of a run as its recording shows it.
#[derive(Default)]
struct RecordedState {
    done: ProgressCounts,
    /// Pids in this namespace of the running processes that record.
    pids: Vec<u32>,
    /// Calls that have not returned, each with its age.
    calls: Vec<(CallThread, Duration)>,
    /// Number of processes that have failed.
    failed: u64,
}

struct HangDetector {
    on_hang: HangOptions,
    calls: Option<Watcher>,
    done: ProgressCounts,
    processors: ProcessorUsage,
    /// Time of the last progress of any kind.
    last_progress: Instant,
    /// Time of the last progress other than use of processors.
    last_recorded_progress: Instant,
    /// True if the next hang will be reported: there was progress since the last hang.
    is_armed: bool,
    /// True if processes waited in a loop during the last hang.
    is_in_loop: bool,
    /// Reported calls that have not returned, each with its age.
    overdue: HashMap<CallThread, Duration>,
    hangs: hung::HangLog,
    /// Time of the last check for progress.
    last_look: Instant,
}

impl HangDetector {
    fn new(on_hang: HangOptions) -> HangDetector {
        let calls = on_hang.record.as_ref().and_then(|record| Watcher::new(std::slice::from_ref(record)).ok());
        let (now, limit) = (Instant::now(), on_hang.options.limit);
        HangDetector {
            processors: ProcessorUsage::new(limit),
            hangs: hung::HangLog::new(on_hang.record.clone(), limit),
            on_hang,
            calls,
            done: ProgressCounts::default(),
            last_progress: now,
            last_recorded_progress: now,
            is_armed: true,
            is_in_loop: false,
            overdue: HashMap::new(),
            last_look: now,
        }
    }

    fn check_progress(&mut self) {
        let was_armed = self.is_armed;
        if self.last_look.elapsed() >= self.on_hang.options.limit / 2 {
            // The launcher was stopped, and probably the job with it.
            (self.last_progress, self.last_recorded_progress) = (Instant::now(), Instant::now());
        }
        let recorded = self.read_recording();
        let failed = recorded.failed;
        let found = self.find_hang(&recorded);
        if self.is_armed && !was_armed {
            self.hangs.note_progress();
        }
        self.hangs.end_finished(|call| recorded.calls.iter().any(|(known, _)| known == call), failed);
        if let Some((read, calls, is_in_loop)) = found {
            (self.is_armed, self.is_in_loop) = (false, is_in_loop);
            self.hangs.report_hang(read, calls, failed, self.on_hang.options.exit.is_some());
        }
        self.last_look = Instant::now();
    }

    /// Looks for a hang that was not reported. Returns what processes wait in, the calls that did not return, and true if
    /// processes wait in a loop.
    fn find_hang(&mut self, recorded: &RecordedState) -> Option<(Box<dyn HangWaits>, Vec<CallThread>, bool)> {
        let limit = self.on_hang.options.limit;
        let RecordedState { done, pids: ranks, calls, .. } = recorded;
        let (met, is_recorded) = (done.processes[0], !ranks.is_empty());
        // Orphans are children of the launcher.
        let pids = descendants(std::process::id()).split_off(1);
        // A process without a recorded call may be a rank as well.
        let ranks = if is_recorded { ranks } else { &pids };
        let busy = self.processors.find_active(&pids);
        let now = Instant::now();
        let record = self.on_hang.record.clone();
        self.forget_returned(calls);
        if *done != self.done || met == 0 && !is_recorded {
            (self.done, self.last_progress, self.last_recorded_progress) = (*done, now, now);
            self.is_armed = true;
            self.processors.forget_sleeps();
        }
        let is_overdue = |(call, age): &&(CallThread, Duration)| *age >= limit && !self.overdue.contains_key(call);
        let overdue: Vec<_> = calls.iter().filter(is_overdue).cloned().collect();
        if let Some(oldest) = overdue.iter().map(|(_, age)| *age).max().filter(|_| self.is_armed) {
            self.overdue = calls.iter().cloned().collect();
            // Other processes may be making progress at the same time.
            let without = (self.last_recorded_progress.elapsed() >= limit).then_some(oldest);
            let calls = overdue.into_iter().map(|(call, _)| call).collect();
            return Some(((self.on_hang.read)(&pids, record, without), calls, true));
        }
        if !busy.is_empty() {
            self.last_progress = now;
        }
        self.processors.count_sleeps(ranks);
        if !self.is_armed {
            // A process that was reported to wait in a loop still uses the processor.
            let mut goes_on = || !busy.is_empty() || self.processors.find_readiness(&pids) == Readiness::Surely;
            self.is_armed = !self.is_in_loop && goes_on();
            if self.is_armed {
                self.last_progress = now;
            }
            return None;
        }
        let (idle, without) = (self.last_progress.elapsed(), self.last_recorded_progress.elapsed());
        if idle >= limit {
            let most = limit * LONGEST_SLEEP;
            let sleeps = idle < most && ranks.iter().any(|pid| self.processors.is_in_first_sleep(*pid, most));
            let hangs = !sleeps && self.processors.find_readiness(&pids) == Readiness::None;
            return hangs.then(|| ((self.on_hang.read)(&pids, record, Some(idle)), Vec::new(), false));
        }
        if without >= limit && !busy.is_empty() {
            let read = (self.on_hang.read)(&pids, record, Some(without));
            if read.are_waiting_for_device(&busy) {
                return Some((read, Vec::new(), true));
            }
            self.last_recorded_progress = now;
        }
        None
    }

    /// Forgets reported calls that have returned. If a call is younger than the reported one of its thread, it is a new call.
    fn forget_returned(&mut self, calls: &[(CallThread, Duration)]) {
        self.overdue.retain(|known, before| {
            let age = calls.iter().find(|(call, _)| call == known).map(|(_, age)| *age);
            let is_same = age.is_some_and(|age| age >= *before);
            *before = age.unwrap_or_default();
            is_same
        });
    }

    /// Notes the end of the run; returns the hang if the run ended in one.
    fn judge_end(&mut self, end: ProgramEnd) -> Option<FinalHang> {
        let mut recorded = self.read_recording();
        for _ in 0..END_LOOKS {
            if self.hangs.is_empty() || recorded.pids.is_empty() {
                break;
            }
            std::thread::sleep(END_PAUSE);
            recorded = self.read_recording();
        }
        if end == ProgramEnd::Exited(0) && recorded.pids.is_empty() {
            self.hangs.end_all(recorded.failed);
        }
        (!self.hangs.is_empty()).then_some(FinalHang { status: None })
    }

    /// Reads the recording, and counts the processes that reached the driver.
    fn read_recording(&mut self) -> RecordedState {
        let mut recorded = RecordedState::default();
        let met = self.on_hang.page.as_ref().map_or(0, |page| page.status().reached.load(Acquire));
        let reading = self.calls.as_mut().and_then(|calls| calls.take_sample(BLOCKS_PER_REFRESH).ok());
        let (mut count, mut ended) = (0, 0);
        let pid_ns = host::pid_ns();
        for process in reading.iter().flat_map(|reading| &reading.jobs).flat_map(|job| &job.processes) {
            count += 1;
            recorded.done.calls = recorded.done.calls.wrapping_add(process.productive_calls);
            if !matches!(process.exit.kind, ExitKind::Running | ExitKind::Unseen) {
                ended += 1;
                recorded.failed += u64::from(has_failed(&process.exit));
                continue;
            }
            recorded.pids.extend(Some(process.header.pid).filter(|_| Some(process.header.pid_ns) == pid_ns));
            let call = |(_, tid, age): &(String, u32, Option<u64>)| {
                Some(((process.proc.clone(), *tid), Duration::from_nanos((*age)?)))
            };
            recorded.calls.extend(process.unreturned.iter().filter_map(call));
        }
        recorded.done.processes = [met.into(), count, ended];
        recorded
    }
}

/// Returns true if an exit is known to be a failure.
fn has_failed(exit: &Exit) -> bool {
    !matches!((exit.kind, exit.code), (ExitKind::Returned, Some(0) | None) | (ExitKind::Executed, _))
}
