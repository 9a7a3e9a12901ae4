//! Since when a thread waits: when it ran last, as the scheduler knows it.

use std::collections::HashMap;
use std::fs;

/// Reader of the times at which threads last ran. Each processor has its own scheduler clock, which is read on that processor.
#[derive(Default)]
pub struct LastRunReader {
    /// Current time of each processor's scheduler clock, in milliseconds.
    now: HashMap<usize, Option<f64>>,
}

impl LastRunReader {
    /// Returns the nanoseconds since a thread last ran; `None` if the kernel does not report it.
    pub fn ns_since_run(&mut self, pid: i32, tid: i32, processor: Option<i32>) -> Option<u64> {
        let ran = last_ran_ms(&format!("/proc/{pid}/task/{tid}/sched"))?;
        let processor = usize::try_from(processor?).ok()?;
        let now = (*self.now.entry(processor).or_insert_with(|| scheduler_clock(processor)))?;
        Some(((now - ran).max(0.0) * 1e6) as u64)
    }
}

/// Returns the time at which the thread of a `sched` file last ran, in milliseconds of its processor's scheduler clock.
fn last_ran_ms(path: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with("se.exec_start"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Returns the current time of a processor's scheduler clock in milliseconds: moves this thread to that processor, if permitted,
/// and reads when this thread last ran.
fn scheduler_clock(processor: usize) -> Option<f64> {
    // SAFETY: all-zero bytes are an empty set, the calls read and write sets of the given size, and the number is below
    // that of the set's bits.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if processor >= 8 * size || libc::sched_getaffinity(0, size, &mut before) != 0 {
            return last_ran_ms("/proc/thread-self/sched");
        }
        libc::CPU_SET(processor, &mut one);
        libc::sched_setaffinity(0, size, &one);
        let now = last_ran_ms("/proc/thread-self/sched");
        libc::sched_setaffinity(0, size, &before);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_ran_before_it_waited() {
        use std::sync::mpsc;
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let waits = std::thread::spawn(move || {
            // SAFETY: asks for a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            let _ = stopped.recv();
        });
        let tid = told.recv().unwrap();
        let pid = std::process::id() as i32;
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
        let processor = stat.rsplit(')').next().unwrap().split(' ').nth(37).unwrap().parse().unwrap();
        let ago = || LastRunReader::default().ns_since_run(pid, tid, Some(processor));
        if let Some(before) = ago() {
            let start = std::time::Instant::now();
            while ago().unwrap() < before + 20_000_000 {
                assert!(start.elapsed().as_secs() < 120, "it waits longer and longer");
            }
        }
        drop(stop);
        waits.join().unwrap();
    }
}
