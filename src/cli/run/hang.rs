//! `cupeer run --on-hang`: notices that no process of the run makes progress, prints what they wait in, and keeps it in the
//! recording.
//!
//! Nothing hangs before a process has met a driver. Then, progress is:
//!
//! - a process that meets a driver, begins to record, or ends its recording
//! - a recorded call that brings something new ([`cupeer_record::Follower::fruitful`])
//! - a thread that computes ([`super::processors`])
//!
//! Time that a process spends waiting for the device, as CUDA does in a loop, is no progress: if there is no recorded call, the
//! stacks of those that compute are looked at. A recorded call that does not return is a hang by its age alone. A rank that is in
//! one sleep goes on by itself, so the others wait for that.

use super::page::Page;
use super::processors::{Processors, Ready};
use super::watch::descendants;
use crate::start::output;
use crate::top::reading::{SOME, Watcher};
use crate::why::{self, Read};
use cupeer_record::host;
use cupeer_report::model::ExitKind;
use cupeer_spec::record::job::{HANG, HANG_SUFFIX};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked in the time after which a process hangs, and the longest pause between two looks.
const LOOKS: u32 = 8;
const LONGEST: Duration = Duration::from_secs(1);
/// So many times as long, one sleep keeps the others from hanging.
const LONGEST_SLEEP: u32 = 10;
/// The most hangs of a run that are kept.
const MOST: u32 = 100;

/// What to do when nothing makes progress.
pub struct OnHang {
    /// For how long none has to make progress.
    pub limit: Duration,
    /// Where it is kept.
    pub record: Option<PathBuf>,
    /// Where processes say that they met a driver.
    pub page: Option<Arc<Page>>,
}

/// The thread that looks, as long as this lives.
pub struct Hangs {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Hangs {
    /// Begins to look at the descendants of a process, and at itself.
    pub fn start(pid: libc::pid_t, on_hang: OnHang) -> Hangs {
        let (stop, stopped) = mpsc::channel();
        let pause = (on_hang.limit / LOOKS).min(LONGEST);
        let thread = std::thread::Builder::new().name("cupeer-hang".into()).spawn(move || {
            let mut progress = Progress::new(pid as u32, on_hang);
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                progress.look();
            }
        });
        if let Err(error) = &thread {
            output::complain(&format!("--on-hang has no effect: {error}"));
        }
        Hangs { stop, thread: thread.ok() }
    }
}

impl Drop for Hangs {
    fn drop(&mut self) {
        // Fails only where the thread is gone already.
        let _ = self.stop.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What of a run changes when it makes progress.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Done {
    /// Processes that met a driver, have a recording, and ended it.
    processes: [u64; 3],
    calls: u64,
}

/// What the recording has of a run.
#[derive(Default)]
struct Recorded {
    done: Done,
    /// The processes that record and run, by their pids here.
    pids: Vec<u32>,
    /// Calls that have not returned: process and thread, and how long ago they began.
    calls: Vec<((String, u32), Duration)>,
}

struct Progress {
    root: u32,
    on_hang: OnHang,
    calls: Option<Watcher>,
    done: Done,
    processors: Processors,
    /// Since when nothing at all has happened, and since when nothing but use of the processor has.
    idle: Instant,
    unrecorded: Instant,
    /// Whether the next hang is another one than that which was told of.
    is_armed: bool,
    /// Whether in that one, processes waited in a loop.
    is_in_loop: bool,
    /// The calls that were told of, until they return, and their ages.
    overdue: HashMap<(String, u32), Duration>,
    told: u32,
}

impl Progress {
    fn new(root: u32, on_hang: OnHang) -> Progress {
        let calls =
            on_hang.record.as_ref().and_then(|record| Watcher::new(std::slice::from_ref(record)).ok());
        let now = Instant::now();
        Progress {
            root,
            processors: Processors::new(on_hang.limit),
            on_hang,
            calls,
            done: Done::default(),
            idle: now,
            unrecorded: now,
            is_armed: true,
            is_in_loop: false,
            overdue: HashMap::new(),
            told: 0,
        }
    }

    fn look(&mut self) {
        let limit = self.on_hang.limit;
        let Recorded { done, pids: ranks, calls } = self.recorded();
        let (met, is_recorded) = (done.processes[0], !ranks.is_empty());
        let pids = descendants(self.root);
        // A process without a recorded call may be a rank as well.
        let ranks = if ranks.is_empty() { pids.clone() } else { ranks };
        let busy = self.processors.look(&pids);
        let now = Instant::now();
        let record = self.on_hang.record.clone();
        // A call that is younger than the one before is another one.
        self.overdue.retain(|known, before| {
            let age = calls.iter().find(|(call, _)| call == known).map(|(_, age)| *age);
            let is_same = age.is_some_and(|age| age >= *before);
            *before = age.unwrap_or_default();
            is_same
        });
        if done != self.done || met == 0 && !is_recorded {
            (self.done, self.idle, self.unrecorded) = (done, now, now);
            self.is_armed = true;
            self.processors.forget_sleeps();
        }
        let overdue = calls.iter().filter(|(call, age)| *age >= limit && !self.overdue.contains_key(call));
        if let Some(oldest) = overdue.map(|(_, age)| *age).max().filter(|_| self.is_armed) {
            self.overdue = calls.into_iter().collect();
            // Others may make progress all the while.
            let without = (self.unrecorded.elapsed() >= limit).then_some(oldest);
            return self.tell(why::of_hang(&pids, record, without), true);
        }
        if !busy.is_empty() {
            self.idle = now;
        }
        self.processors.follow_sleeps(&ranks);
        if !self.is_armed {
            // A process that was told of for waiting in a loop still uses the processor.
            let mut goes_on = || !busy.is_empty() || self.processors.ready(&pids) == Ready::Surely;
            self.is_armed = !self.is_in_loop && goes_on();
            if self.is_armed {
                self.idle = now;
            }
            return;
        }
        let (idle, without) = (self.idle.elapsed(), self.unrecorded.elapsed());
        if idle >= limit {
            let sleeps =
                idle < limit * LONGEST_SLEEP && ranks.iter().any(|pid| self.processors.sleeps_once(*pid));
            if !sleeps && self.processors.ready(&pids) == Ready::None {
                self.tell(why::of_hang(&pids, record, Some(idle)), false);
            }
        } else if without >= limit && !busy.is_empty() {
            let read = why::of_hang(&pids, record, Some(without));
            if read.wait_for_device(&busy) {
                self.tell(read, true);
            } else {
                self.unrecorded = now;
            }
        }
    }

    /// Reads the recording, and asks for the processes that met a driver.
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

    fn tell(&mut self, read: Read, is_in_loop: bool) {
        (self.is_armed, self.is_in_loop) = (false, is_in_loop);
        if read.is_empty() || self.told == MOST {
            return;
        }
        self.told += 1;
        output::explain(|style| read.text(false, style));
        let Some(record) = &self.on_hang.record else { return };
        match keep(record, self.told, &read) {
            Ok(path) => {
                output::complain(&format!("all stacks are kept in {}", crate::start::home::place(&path)))
            }
            Err(error) => {
                output::complain(&format!("cannot keep the stacks in {}: {error}", record.display()))
            }
        }
    }
}

/// Keeps what was read in a recording, for those who may read that.
fn keep(record: &Path, number: u32, read: &Read) -> io::Result<PathBuf> {
    let boot = host::boot_id().map(host::short).unwrap_or_default();
    let path = record.join(format!("{HANG}{boot}-{}-{number}{HANG_SUFFIX}", std::process::id()));
    let is_shared = record.metadata()?.permissions().mode() & 0o020 != 0;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    if is_shared {
        file.set_permissions(std::fs::Permissions::from_mode(0o660))?;
    }
    file.write_all(&serde_json::to_vec_pretty(read.document())?)?;
    file.write_all(b"\n")?;
    Ok(path)
}
