//! Threads that compute, told from those that poll, sleep in a loop, or wait.
//!
//! A thread computes if it uses a tenth of a processor, or would if it did not have to wait for one. A thread that polls each
//! millisecond uses some hundredths, and so does each of many that do: they are counted one by one. Children that ended count with half of a processor: a loop of short
//! commands, such as `sleep`, uses less. A process also goes on if it reads or writes files that storage has: that takes its time, and
//! little of a processor. What is in memory, such as pipes and files that are polled, does not count.

use procfs::process::{Process, Stat, Syscall, Task};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Divisor of the window: a thread that uses more than a tenth of it computes.
const THREAD_DIVISOR: u32 = 10;
/// Divisor of the window: ended children that used more than half of it compute.
const CHILDREN_DIVISOR: u32 = 2;
/// Processor time up to which a process never counts as computing, however short the window is: the kernel's
/// times are no finer.
const LEAST_TIME: Duration = Duration::from_millis(30);
/// Number of bytes per second that a process must read from or write to storage to count as active.
const STORAGE_RATE: u64 = 64 << 10;
/// Number of times in a window that the threads of a process are read.
const READINGS_PER_WINDOW: u32 = 8;
/// Average processor time between two waits below which a thread counts as polling.
const LONGEST_POLL: Duration = Duration::from_micros(500);

/// Use of processors and storage by a process up to the start of a window.
struct UsageAtStart {
    started: u64,
    began: Instant,
    own: Duration,
    children: Duration,
    /// Number of bytes that were read from or written to storage.
    stored: u64,
    threads: HashMap<i32, SchedulerStats>,
}

/// Scheduler statistics of a thread: its time on a processor, its time in the run queue, and the number of times that it ran.
#[derive(Clone, Copy, Default)]
struct SchedulerStats {
    used: Duration,
    delayed: Duration,
    times: u32,
}

/// Answer to whether a thread of the job would run if it got a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    None,
    /// A thread is ready to run, but may be one that polls.
    Maybe,
    Surely,
}

/// Waits of a process's main thread: their number at the last check, the number of checks that found a new number,
/// and true if the thread existed at the first check.
struct MainThreadWaits {
    waits: u64,
    changes: u32,
    is_first: bool,
}

pub struct ProcessorUsage {
    /// Length of a window; processes that use little in a whole window do not compute.
    limit: Duration,
    processes: HashMap<u32, UsageAtStart>,
    sleeps: HashMap<u32, MainThreadWaits>,
    /// Threads that are or may become ready to run: the processor time that each had used, and the number of times that it had
    /// waited.
    ready: HashMap<(u32, i32), (Duration, u64)>,
}

impl ProcessorUsage {
    pub fn new(limit: Duration) -> ProcessorUsage {
        let (processes, sleeps, ready) = Default::default();
        ProcessorUsage { limit, processes, sleeps, ready }
    }

    /// Returns the processes that computed, read, or wrote since the start of their window.
    pub fn find_active(&mut self, pids: &[u32]) -> Vec<u32> {
        self.processes.retain(|pid, _| pids.contains(pid));
        pids.iter().copied().filter(|pid| self.update_usage(*pid).unwrap_or(false)).collect()
    }

    fn update_usage(&mut self, pid: u32) -> Option<bool> {
        let process = Process::new(pid as i32).ok()?;
        let stat = process.stat().ok()?;
        let (own, children) = (
            duration_from_ticks(stat.utime + stat.stime),
            duration_from_ticks((stat.cutime + stat.cstime).max(0) as u64),
        );
        // If the input and output of a process may not be read, they count as none.
        let stored = process.io().map_or(0, |io| io.read_bytes.wrapping_add(io.write_bytes));
        let is_new = self.processes.get(&pid).is_none_or(|used| used.started != stat.starttime);
        // For a new process, everything since its start counts.
        let begun = || UsageAtStart {
            started: stat.starttime,
            began: Instant::now(),
            own: Duration::ZERO,
            children,
            stored,
            threads: HashMap::new(),
        };
        if is_new {
            self.processes.insert(pid, begun());
        }
        let used = self.processes.get_mut(&pid)?;
        let most = |part: u32| (self.limit / part).max(LEAST_TIME);
        let mut computes = children.saturating_sub(used.children) > most(CHILDREN_DIVISOR);
        computes |= stored.saturating_sub(used.stored) > STORAGE_RATE * self.limit.as_secs().max(1);
        let age = used.began.elapsed();
        let is_over = age >= self.limit;
        let has_used = own.saturating_sub(used.own) > LEAST_TIME && age >= self.limit / READINGS_PER_WINDOW;
        if !(computes || is_over || has_used) {
            return Some(false);
        }
        let threads: HashMap<i32, SchedulerStats> =
            process.tasks().ok()?.flatten().map(|task| (task.tid, read_scheduler_stats(&task))).collect();
        let before = |tid| used.threads.get(tid).copied().unwrap_or_default();
        computes |=
            has_used && threads.iter().any(|(tid, now)| now.has_computed_since(before(tid), most(THREAD_DIVISOR)));
        if computes || is_over {
            *used = UsageAtStart { own, threads, ..begun() };
        }
        Some(computes)
    }

    /// Returns whether some thread waits only for a processor, which may take long on a busy machine. A polling thread can be
    /// found ready, too, but it waits again and again for other things.
    pub fn find_readiness(&mut self, pids: &[u32]) -> Readiness {
        let mut ready = HashMap::new();
        let mut found = Readiness::None;
        // The first check also stores the threads that wait, so that they are known when they become ready.
        let is_first = self.ready.is_empty();
        for pid in pids {
            let tasks = Process::new(*pid as i32).and_then(|process| process.tasks());
            for task in tasks.into_iter().flatten().flatten() {
                let is_ready = task.stat().is_ok_and(|stat| stat.state == 'R');
                let Some(now) = wait_count(&task).filter(|_| is_ready || is_first) else { continue };
                let (ran, key) = (read_scheduler_stats(&task).used, (*pid, task.tid));
                let of = |(had_run, before): &(Duration, u64)| {
                    let waited = u32::try_from(now.saturating_sub(*before)).unwrap_or(u32::MAX);
                    if ran.saturating_sub(*had_run) >= LONGEST_POLL * waited {
                        Readiness::Surely
                    } else {
                        Readiness::None
                    }
                };
                if is_ready {
                    found = found.max(self.ready.get(&key).map_or(Readiness::Maybe, of));
                }
                ready.insert(key, (ran, now));
            }
        }
        self.ready.extend(ready);
        found
    }

    /// Updates the number of waits of each process's main thread.
    pub fn count_sleeps(&mut self, pids: &[u32]) {
        let is_first = self.sleeps.is_empty();
        self.sleeps.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let Some(waits) = main_thread(*pid).and_then(|task| wait_count(&task)) else { continue };
            let sleeps = self.sleeps.entry(*pid).or_insert(MainThreadWaits { waits, changes: 0, is_first });
            sleeps.changes += u32::from(sleeps.waits != waits);
            sleeps.waits = waits;
        }
    }

    /// Forgets all sleeps after progress: the next sleep of each thread counts as its first.
    pub fn forget_sleeps(&mut self) {
        self.sleeps.clear();
        self.ready.clear();
    }

    /// Returns true if the main thread of a process is in its first sleep since the last progress, and if that sleep is no longer
    /// than `most`.
    pub fn is_in_first_sleep(&self, pid: u32, most: Duration) -> bool {
        let is_one = self.sleeps.get(&pid).is_some_and(|sleeps| sleeps.is_first && sleeps.changes <= 1);
        let call = main_thread(pid).filter(|_| is_one).and_then(|task| task.syscall().ok());
        call.and_then(|call| sleep_time(pid, &call)).is_some_and(|time| time <= most)
    }
}

/// Returns the duration of the sleep that a system call makes; `None` if the call is no sleep, or has no time limit. Python
/// sleeps by select without descriptors.
fn sleep_time(pid: u32, call: &Syscall) -> Option<Duration> {
    let Syscall::Blocked { syscall_number, argument_registers, .. } = call else { return None };
    let [first, second, third, _, fifth, _] = *argument_registers;
    let is_at = second as i32 & libc::TIMER_ABSTIME != 0;
    let (place, clock) = match *syscall_number {
        libc::SYS_nanosleep => (first, None),
        libc::SYS_clock_nanosleep => (third, is_at.then_some(first as libc::clockid_t)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select if first == 0 => (fifth, None),
        libc::SYS_pselect6 if first == 0 => (fifth, None),
        _ => return None,
    };
    let mut bytes = [0; 8];
    let memory = File::open(format!("/proc/{pid}/mem")).ok();
    let read = memory.filter(|_| place != 0).map(|memory| memory.read_exact_at(&mut bytes, place));
    // If the time cannot be read, the sleep counts as short.
    let Some(Ok(())) = read else { return (place != 0).then_some(Duration::ZERO) };
    let seconds = u64::try_from(i64::from_ne_bytes(bytes)).unwrap_or(0);
    let now = clock.map_or(0, |clock| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time of a clock, or nothing, to a valid place.
        unsafe { libc::clock_gettime(clock, &mut now) };
        now.tv_sec as u64
    });
    Some(Duration::from_secs(seconds.saturating_sub(now)))
}

fn main_thread(pid: u32) -> Option<Task> {
    Process::new(pid as i32).and_then(|process| process.task_from_tid(pid as i32)).ok()
}

/// Returns the number of times that a thread has waited (voluntary context switches).
fn wait_count(task: &Task) -> Option<u64> {
    task.status().ok()?.voluntary_ctxt_switches
}

impl SchedulerStats {
    /// Returns true if a thread has since `before` used or wanted processors for more than `most`.
    fn has_computed_since(&self, before: SchedulerStats, most: Duration) -> bool {
        let used = self.used.saturating_sub(before.used);
        let wanted = used + self.delayed.saturating_sub(before.delayed);
        let polls = used < LONGEST_POLL * self.times.wrapping_sub(before.times);
        used > most || wanted > most && !polls
    }
}

/// Reads the scheduler statistics of a thread: times in nanoseconds or, if the scheduler does not count them, in ticks.
fn read_scheduler_stats(task: &Task) -> SchedulerStats {
    let text = std::fs::read_to_string(format!("/proc/{}/task/{}/schedstat", task.pid, task.tid));
    let text = text.unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
    let mut nanoseconds = || numbers.next().map_or(Duration::ZERO, Duration::from_nanos);
    let (used, delayed) = (nanoseconds(), nanoseconds());
    let times = numbers.next().map_or(0, |times| times as u32);
    if used.is_zero() {
        let used = task.stat().map_or(Duration::ZERO, |stat: Stat| duration_from_ticks(stat.utime + stat.stime));
        return SchedulerStats { used, ..SchedulerStats::default() };
    }
    SchedulerStats { used, delayed, times }
}

fn duration_from_ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / procfs::ticks_per_second().max(1)))
}
