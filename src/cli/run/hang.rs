//! `cupeer run --on-hang`: notices that no process of the run makes progress, prints what they wait in, and keeps it in the
//! recording.
//!
//! Progress is a process that begins or ends, a recorded call, or time of the processor. Time that a process spends waiting for
//! the device, as CUDA does in a loop, is none: who uses some without any recorded call is looked at.

use super::watch::descendants;
use crate::start::output;
use crate::top::reading::{SOME, Watcher};
use crate::why::{self, Read};
use cupeer_record::host;
use cupeer_spec::record::job::{HANG, HANG_SUFFIX};
use procfs::process::Process;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked in the time after which a process hangs, and the longest pause between two looks.
const LOOKS: u32 = 8;
const LONGEST: Duration = Duration::from_secs(1);
/// This part of the time may be used by a process that waits in a loop, and so many ticks in any case.
const IDLE_SHARE: u32 = 100;
const IDLE_TICKS: u64 = 3;
/// The most hangs of a run that are kept.
const MOST: u32 = 100;

/// What to do when nothing makes progress.
pub struct OnHang {
    /// For how long none has to make progress.
    pub limit: Duration,
    /// Where it is kept.
    pub record: Option<PathBuf>,
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

/// Time of the processor, in ticks, by pid and start.
type Used = HashMap<(u32, u64), u64>;

struct Progress {
    root: u32,
    on_hang: OnHang,
    calls: Option<Watcher>,
    counted: u64,
    used: Used,
    /// Since when nothing at all has happened, and since when nothing but use of the processor has.
    idle: Instant,
    unrecorded: Instant,
    /// Whether the next hang is another one than that which was told of.
    is_armed: bool,
    /// Whether in that one, processes waited in a loop.
    is_in_loop: bool,
    told: u32,
}

impl Progress {
    fn new(root: u32, on_hang: OnHang) -> Progress {
        let calls =
            on_hang.record.as_ref().and_then(|record| Watcher::new(std::slice::from_ref(record)).ok());
        let now = Instant::now();
        Progress {
            root,
            on_hang,
            calls,
            counted: 0,
            used: Used::new(),
            idle: now,
            unrecorded: now,
            is_armed: true,
            is_in_loop: false,
            told: 0,
        }
    }

    fn look(&mut self) {
        let limit = self.on_hang.limit;
        let pids = descendants(self.root);
        let used = used(&pids);
        let counted = self.count();
        let now = Instant::now();
        let is_same = used.len() == self.used.len() && used.keys().all(|key| self.used.contains_key(key));
        if !is_same || counted != self.counted {
            (self.used, self.counted, self.idle, self.unrecorded) = (used, counted, now, now);
            self.is_armed = true;
            return;
        }
        let busy = self.busy(&used);
        if !busy.is_empty() {
            (self.used, self.idle) = (used, now);
        }
        if !self.is_armed {
            // Who was told of for waiting in a loop still uses the processor.
            self.is_armed = !busy.is_empty() && !self.is_in_loop;
            return;
        }
        let without = self.unrecorded.elapsed();
        if self.idle.elapsed() >= limit && !pids.iter().any(|pid| could_run(*pid)) {
            self.tell(why::of_hang(&pids, self.on_hang.record.clone(), self.idle.elapsed()), false);
        } else if without >= limit && !busy.is_empty() {
            let read = why::of_hang(&pids, self.on_hang.record.clone(), without);
            if read.wait_for_device(&busy) {
                self.tell(read, true);
            } else {
                self.unrecorded = now;
            }
        }
    }

    /// The processes that have used more of the processor since the last progress than waiting takes.
    fn busy(&self, used: &Used) -> Vec<u32> {
        // SAFETY: asks for a number.
        let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
        let share = self.on_hang.limit.as_millis() as u64 * ticks / 1000 / u64::from(IDLE_SHARE);
        let most = share.max(IDLE_TICKS);
        let is_busy =
            |(key, now): &(&(u32, u64), &u64)| **now > self.used.get(*key).copied().unwrap_or(0) + most;
        used.iter().filter(is_busy).map(|((pid, _), _)| *pid).collect()
    }

    /// How many calls were recorded.
    fn count(&mut self) -> u64 {
        let reading = self.calls.as_mut().and_then(|calls| calls.look(SOME).ok());
        let processes = reading.iter().flat_map(|reading| &reading.jobs).flat_map(|job| &job.processes);
        processes.fold(0, |sum, process| sum.wrapping_add(process.counts.calls))
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

/// The time of the processor that processes have used.
fn used(pids: &[u32]) -> Used {
    let of = |pid: &u32| {
        let stat = Process::new(*pid as i32).and_then(|process| process.stat()).ok()?;
        let is_over = matches!(stat.state, 'Z' | 'X');
        (!is_over).then_some(((*pid, stat.starttime), stat.utime + stat.stime))
    };
    pids.iter().filter_map(of).collect()
}

/// Returns true if a thread of a process runs, or waits for nothing but a processor: on a busy machine, that may take long.
fn could_run(pid: u32) -> bool {
    let tasks = Process::new(pid as i32).and_then(|process| process.tasks());
    let mut stats = tasks.into_iter().flatten().flatten().filter_map(|task| task.stat().ok());
    stats.any(|stat| stat.state == 'R')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_now_and_then_is_not_busy() {
        let on_hang = OnHang { limit: Duration::from_secs(60), record: None };
        let mut progress = Progress::new(1, on_hang);
        let key = (7, 100);
        progress.used = Used::from([(key, 1000)]);
        // A hundredth of a minute, in ticks.
        let busy = |ticks: u64| progress.busy(&Used::from([(key, 1000 + ticks)]));
        assert_eq!((busy(0), busy(60), busy(61)), (vec![], vec![], vec![7]));
    }
}
