//! All processes of one command: started, waited for, and none left behind.
//!
//! Between the sweep and the command stands a reaper, a fork of the sweep that adopts the command's orphans. Whatever the
//! command starts is a descendant of it, in whatever session or environment, and nothing else is: no child that the sweep
//! was born with, and none of a run beside this one. The command gets a session of its own, so that a signal of the
//! terminal reaches the sweep and not the command, and a program that asks at the terminal is refused instead of stopped.

use anyhow::{Context, Result};
use cupeer_console::interrupt;
use cupeer_spec::proc::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, ptr};

/// Maximum time between two checks for an interruption of the sweep.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after each round of killing the remaining processes.
const PAUSE: Duration = Duration::from_millis(2);

/// A command and all processes that it starts.
pub struct ProcessTree {
    reaper: Child,
    /// Pipe that delivers the command's wait status. It ends when the reaper ends, which is after all other processes.
    status: PipeReader,
}

impl ProcessTree {
    pub fn start(mut command: Command) -> io::Result<ProcessTree> {
        let (status, writer) = io::pipe()?;
        let to = writer.as_raw_fd();
        // SAFETY: what runs between fork and exec makes system calls and another fork, and allocates nothing.
        unsafe { command.pre_exec(move || insert_reaper(to)) };
        Ok(ProcessTree { reaper: command.spawn()?, status })
    }

    /// Waits for the end of the command. Returns `None` if the time limit was reached or the sweep was interrupted
    /// before.
    pub fn wait_for_command(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let is_readable = self.wait_until_readable(limit);
        if !is_readable {
            return Ok(None);
        }
        let mut status = [0; size_of::<libc::c_int>()];
        self.status.read_exact(&mut status).context("the sweep's own process was killed")?;
        Ok(Some(ExitStatus::from_raw(libc::c_int::from_ne_bytes(status))))
    }

    /// Gives the remaining processes the time `grace` to end, and then kills them. Returns their number.
    pub fn kill_remaining(mut self, grace: Duration) -> Result<usize> {
        let mut killed = BTreeSet::new();
        let mut time = grace;
        // After the command's status, the pipe delivers only its end.
        while !self.wait_for_reaper_end(time)? {
            let left = descendants(self.reaper.id() as i32);
            // Processes of another user cannot be killed.
            if !left.is_empty() && !left.iter().any(|pid| kill_process(*pid)) {
                break;
            }
            killed.extend(left);
            time = PAUSE;
        }
        // This fails if the reaper has ended.
        let _ = self.reaper.kill();
        self.reaper.wait().context("failed to wait for the sweep's own process")?;
        Ok(killed.len())
    }

    fn wait_for_reaper_end(&mut self, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        while self.wait_until_readable(until.saturating_duration_since(Instant::now())) {
            // This reads the command's status, if nobody has read it before, or the end of the pipe.
            if self.status.read(&mut [0; size_of::<libc::c_int>()])? == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until the pipe is readable, the time is over, or the sweep is interrupted. Returns true if the pipe is
    /// readable.
    fn wait_until_readable(&self, time: Duration) -> bool {
        let start = Instant::now();
        loop {
            let left = time.saturating_sub(start.elapsed()).min(CHECK_INTERVAL);
            let mut asked = libc::pollfd { fd: self.status.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, as said. A signal that comes meanwhile is looked at below.
            if unsafe { libc::poll(&mut asked, 1, left.as_micros().div_ceil(1000) as libc::c_int) } == 1 {
                return true;
            }
            if interrupt::is_interrupted() || start.elapsed() >= time {
                return false;
            }
        }
    }
}

/// Makes the newly forked process a reaper, and continues in a child of the reaper, which becomes the command.
/// Async-signal-safe.
fn insert_reaper(status: RawFd) -> io::Result<()> {
    let settle = || {
        // SAFETY: both take numbers, and concern only this process: it ends with the one that started it.
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
    };
    settle();
    // SAFETY: takes a number. The process has one thread, and what its child does is async-signal-safe as well.
    let child = unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::fork()
    };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            settle();
            Ok(())
        }
        command => run_reaper(command, status),
    }
}

/// The reaper's loop: waits for all children, reports how the command ended, and exits after the last child.
fn run_reaper(command: libc::pid_t, status: RawFd) -> ! {
    // These are descriptors of the sweep: the standard library waits until this copy of its pipe is closed, too.
    let close = |from: libc::c_uint, to: libc::c_uint| {
        // SAFETY: nothing in this process uses a descriptor but `status`, which is none of them.
        if from <= to && unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } != 0 {
            // Kernels before 5.9 have no close_range.
            for fd in from..=to.min(0xffff) {
                // SAFETY: nothing in this process uses a descriptor but `status`, which is none of these.
                unsafe { libc::close(fd as RawFd) };
            }
        }
    };
    let kept = status as libc::c_uint;
    close(0, kept.saturating_sub(1));
    close(kept + 1, libc::c_uint::MAX);
    loop {
        let mut ended: libc::c_int = 0;
        // SAFETY: `ended` is an integer, and the calls take no other memory; nobody else waits for these children.
        unsafe {
            match libc::waitpid(-1, &mut ended, 0) {
                -1 if *libc::__errno_location() == libc::ECHILD => libc::_exit(0),
                pid if pid == command => {
                    libc::write(status, ptr::from_ref(&ended).cast(), size_of::<libc::c_int>());
                }
                _ => {}
            }
        }
    }
}

/// Kills a process. Returns true if the process is dying or no longer exists.
fn kill_process(pid: i32) -> bool {
    // SAFETY: a descendant of a reaper of ours that was just looked at.
    let sent = unsafe { libc::kill(pid, libc::SIGKILL) };
    sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

fn descendants(ancestor: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let stat = fs::read(entry.path().join("stat")).ok().and_then(|text| Stat::parse(&text));
        if let Some((pid, stat)) = pid.zip(stat) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}
