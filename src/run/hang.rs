//! `cupeer run --on-hang`: notices that no process of the run makes progress, prints what they wait in, keeps it in the recording
//! ([`super::hung`]), and ends the run if that was asked for ([`super::ending`]).
//!
//! Nothing hangs before a process has met a driver. Then, progress is:
//!
//! - a process that meets a driver, begins to record, or ends its recording
//! - a recorded call that brings something new ([`cupeer_record::Follower::fruitful`])
//! - a process that computes, or reads and writes files ([`super::processors`])
//!
//! Time that a process spends waiting for the device, as CUDA does in a loop, is no progress: if there is no recorded call, the
//! stacks of those that compute are looked at. A recorded call that does not return is a hang by its age alone. A rank that is in
//! one sleep, and not in one that hardly ends, goes on by itself, so the others wait for that.

use super::child::End;
use super::ending;
use super::hung::{self, Call};
use super::page::Page;
use super::processors::{Processors, Ready};
use super::watch::descendants;
use crate::args::OnHang as Asked;
use cupeer_console::output;
use cupeer_record::host;
use cupeer_recordings::hang::{ReadWaits, Waits};
use cupeer_recordings::live::{SOME, Watcher};
use cupeer_report::model::{Exit, ExitKind};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of looks in the time after which a process hangs.
const LOOKS: u32 = 8;
/// Longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(1);
/// Factor: a single sleep of up to this many times the limit keeps the other processes from counting as hung.
const LONGEST_SLEEP: u32 = 10;
/// Number of looks while processes end, before the run is judged.
const PATIENCE: u32 = 5;
/// Pause between two of these looks.
const MOMENT: Duration = Duration::from_millis(40);

/// Options and functions for noticing hangs.
pub struct OnHang {
    /// Time without progress that counts as a hang, and the exit status for ending the run.
    pub asked: Asked,
    /// Function that reads what processes wait in.
    pub read: ReadWaits,
    /// Directory of the recording, in which hangs are kept.
    pub record: Option<PathBuf>,
    /// Page in which processes report that they reached a driver.
    pub page: Option<Arc<Page>>,
}

/// A hang that lasted until the run ended.
pub struct Hung {
    /// Exit status of the run if cupeer ended the run because of the hang.
    pub status: Option<u8>,
}

/// Handle of the thread that looks for hangs.
pub struct HangWatcher {
    stop: Sender<End>,
    thread: Option<JoinHandle<Option<Hung>>>,
}

impl HangWatcher {
    /// Starts a thread that looks for hangs of this process's descendants.
    pub fn start(on_hang: OnHang) -> HangWatcher {
        let (stop, stopped) = mpsc::channel();
        let pause = (on_hang.asked.limit / LOOKS).min(LONGEST);
        let thread = std::thread::Builder::new().name("cupeer-hang".into()).spawn(move || {
            let mut progress = HangDetector::new(on_hang);
            loop {
                match stopped.recv_timeout(pause) {
                    Ok(end) => return progress.end(end),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => progress.look(),
                }
                let status = progress.on_hang.asked.exit.filter(|_| !progress.hangs.are_over());
                if status.is_some() {
                    ending::end_all(progress.on_hang.record.as_deref());
                    return Some(Hung { status });
                }
            }
        });
        if let Err(error) = &thread {
            output::complain(&format!("--on-hang has no effect: {error}"));
        }
        HangWatcher { stop, thread: thread.ok() }
    }

    /// Stops the thread. Returns the hang if the run hung until its end. If cupeer is ending the run, waits for that.
    pub fn stop(self, end: End) -> Option<Hung> {
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
struct Recorded {
    done: ProgressCounts,
    /// Pids in this namespace of the running processes that record.
    pids: Vec<u32>,
    /// Calls that have not returned, each with its age.
    calls: Vec<(Call, Duration)>,
    /// Number of processes that have failed.
    failed: u64,
}

struct HangDetector {
    on_hang: OnHang,
    calls: Option<Watcher>,
    done: ProgressCounts,
    processors: Processors,
    /// Time of the last progress of any kind.
    idle: Instant,
    /// Time of the last progress other than use of processors.
    unrecorded: Instant,
    /// True if the next hang will be reported: there was progress since the last hang.
    is_armed: bool,
    /// True if processes waited in a loop during the last hang.
    is_in_loop: bool,
    /// Reported calls that have not returned, each with its age.
    overdue: HashMap<Call, Duration>,
    hangs: hung::Hangs,
    /// Time of the last look.
    looked: Instant,
}

impl HangDetector {
    fn new(on_hang: OnHang) -> HangDetector {
        let calls =
            on_hang.record.as_ref().and_then(|record| Watcher::new(std::slice::from_ref(record)).ok());
        let (now, limit) = (Instant::now(), on_hang.asked.limit);
        HangDetector {
            processors: Processors::new(limit),
            hangs: hung::Hangs::new(on_hang.record.clone(), limit),
            on_hang,
            calls,
            done: ProgressCounts::default(),
            idle: now,
            unrecorded: now,
            is_armed: true,
            is_in_loop: false,
            overdue: HashMap::new(),
            looked: now,
        }
    }

    fn look(&mut self) {
        let was_armed = self.is_armed;
        if self.looked.elapsed() >= self.on_hang.asked.limit / 2 {
            // The launcher was stopped, and probably the job with it.
            (self.idle, self.unrecorded) = (Instant::now(), Instant::now());
        }
        let recorded = self.recorded();
        let failed = recorded.failed;
        let found = self.find_hang(&recorded);
        if self.is_armed && !was_armed {
            self.hangs.progress();
        }
        self.hangs.look(|call| recorded.calls.iter().any(|(known, _)| known == call), failed);
        if let Some((read, calls, is_in_loop)) = found {
            (self.is_armed, self.is_in_loop) = (false, is_in_loop);
            self.hangs.add(read, calls, failed, self.on_hang.asked.exit.is_some());
        }
        self.looked = Instant::now();
    }

    /// Looks for a hang that was not reported. Returns what processes wait in, the calls that did not return, and true if
    /// processes wait in a loop.
    fn find_hang(&mut self, recorded: &Recorded) -> Option<(Box<dyn Waits>, Vec<Call>, bool)> {
        let limit = self.on_hang.asked.limit;
        let Recorded { done, pids: ranks, calls, .. } = recorded;
        let (met, is_recorded) = (done.processes[0], !ranks.is_empty());
        // Orphans are children of the launcher.
        let pids = descendants(std::process::id()).split_off(1);
        // A process without a recorded call may be a rank as well.
        let ranks = if is_recorded { ranks } else { &pids };
        let busy = self.processors.look(&pids);
        let now = Instant::now();
        let record = self.on_hang.record.clone();
        self.forget_returned(calls);
        if *done != self.done || met == 0 && !is_recorded {
            (self.done, self.idle, self.unrecorded) = (*done, now, now);
            self.is_armed = true;
            self.processors.forget_sleeps();
        }
        let is_overdue = |(call, age): &&(Call, Duration)| *age >= limit && !self.overdue.contains_key(call);
        let overdue: Vec<_> = calls.iter().filter(is_overdue).cloned().collect();
        if let Some(oldest) = overdue.iter().map(|(_, age)| *age).max().filter(|_| self.is_armed) {
            self.overdue = calls.iter().cloned().collect();
            // Other processes may be making progress at the same time.
            let without = (self.unrecorded.elapsed() >= limit).then_some(oldest);
            let calls = overdue.into_iter().map(|(call, _)| call).collect();
            return Some(((self.on_hang.read)(&pids, record, without), calls, true));
        }
        if !busy.is_empty() {
            self.idle = now;
        }
        self.processors.follow_sleeps(ranks);
        if !self.is_armed {
            // A process that was reported to wait in a loop still uses the processor.
            let mut goes_on = || !busy.is_empty() || self.processors.ready(&pids) == Ready::Surely;
            self.is_armed = !self.is_in_loop && goes_on();
            if self.is_armed {
                self.idle = now;
            }
            return None;
        }
        let (idle, without) = (self.idle.elapsed(), self.unrecorded.elapsed());
        if idle >= limit {
            let most = limit * LONGEST_SLEEP;
            let sleeps = idle < most && ranks.iter().any(|pid| self.processors.sleeps_once(*pid, most));
            let hangs = !sleeps && self.processors.ready(&pids) == Ready::None;
            return hangs.then(|| ((self.on_hang.read)(&pids, record, Some(idle)), Vec::new(), false));
        }
        if without >= limit && !busy.is_empty() {
            let read = (self.on_hang.read)(&pids, record, Some(without));
            if read.wait_for_device(&busy) {
                return Some((read, Vec::new(), true));
            }
            self.unrecorded = now;
        }
        None
    }

    /// Forgets reported calls that have returned. If a call is younger than the reported one of its thread, it is a new call.
    fn forget_returned(&mut self, calls: &[(Call, Duration)]) {
        self.overdue.retain(|known, before| {
            let age = calls.iter().find(|(call, _)| call == known).map(|(_, age)| *age);
            let is_same = age.is_some_and(|age| age >= *before);
            *before = age.unwrap_or_default();
            is_same
        });
    }

    /// Notes the end of the run; returns the hang if the run ended in one.
    fn end(&mut self, end: End) -> Option<Hung> {
        let mut recorded = self.recorded();
        for _ in 0..PATIENCE {
            if self.hangs.are_over() || recorded.pids.is_empty() {
                break;
            }
            std::thread::sleep(MOMENT);
            recorded = self.recorded();
        }
        if end == End::Exited(0) && recorded.pids.is_empty() {
            self.hangs.end(recorded.failed);
        }
        (!self.hangs.are_over()).then_some(Hung { status: None })
    }

    /// Reads the recording, and counts the processes that reached the driver.
    fn recorded(&mut self) -> Recorded {
        let mut recorded = Recorded::default();
        let met = self.on_hang.page.as_ref().map_or(0, |page| page.status().reached.load(Acquire));
        let reading = self.calls.as_mut().and_then(|calls| calls.look(SOME).ok());
        let (mut count, mut ended) = (0, 0);
        let pid_ns = host::pid_ns();
        for process in reading.iter().flat_map(|reading| &reading.jobs).flat_map(|job| &job.processes) {
            count += 1;
            recorded.done.calls = recorded.done.calls.wrapping_add(process.fruitful);
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
