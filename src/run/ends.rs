//! Ends of descendants, at the moment when the kernel makes a descriptor of them ready.

use cupeer_record::clock::monotonic_now;
use cupeer_spec::record::end::EndSpan;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Maximum number of followed processes; ends of other processes are noticed only at the next search in /proc.
const MOST_FOLLOWED: usize = 256;

/// Identity of a process: its pid and its start time.
pub type ProcessKey = (libc::pid_t, u64);

/// Processes whose ends are awaited by pidfds.
#[derive(Default)]
pub struct EndWatcher {
    followed: Vec<(OwnedFd, ProcessKey)>,
    /// Last time at which all followed processes were known to run.
    last_seen_running: u64,
}

impl EndWatcher {
    /// Follows a running process, if the kernel supports pidfds.
    pub fn follow_process(&mut self, process: ProcessKey) {
        if self.followed.len() == MOST_FOLLOWED {
            return;
        }
        // SAFETY: takes a pid and flags, and gives a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process.0, 0) };
        if fd >= 0 {
            // SAFETY: just made, and nobody else owns it.
            self.followed.push((unsafe { OwnedFd::from_raw_fd(fd as i32) }, process));
        }
    }

    /// Returns the pidfds of the followed processes, for poll.
    pub fn poll_descriptors(&self) -> impl Iterator<Item = libc::pollfd> {
        let wanted =
            |(fd, _): &(OwnedFd, ProcessKey)| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        self.followed.iter().map(wanted)
    }

    /// Returns the processes that ended since the last call, each with the span of time in which it ended.
    pub fn take_ended(&mut self) -> Vec<(ProcessKey, EndSpan)> {
        let mut all = Vec::new();
        // After each end, the remaining processes are polled again, which shows that they ran longer.
        loop {
            let ended = self.poll_ended();
            if ended.is_empty() {
                return all;
            }
            all.extend(ended);
        }
    }

    fn poll_ended(&mut self) -> Vec<(ProcessKey, EndSpan)> {
        let now = monotonic_now();
        let mut fds: Vec<_> = self.poll_descriptors().collect();
        // SAFETY: the array has so many elements, whose descriptors are open.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
        let span = EndSpan { after: std::mem::replace(&mut self.last_seen_running, now), before: monotonic_now() };
        let mut ready = fds.iter().map(|fd| fd.revents != 0);
        let ended = self.followed.extract_if(.., |_| ready.next().unwrap_or(false));
        ended.map(|(_, process)| (process, span)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn ends_are_ordered_by_what_was_seen_between_them() {
        let start = || {
            let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            (child.id() as libc::pid_t, child)
        };
        let (mut first, mut second) = (start(), start());
        let mut ends = EndWatcher::default();
        [first.0, second.0].into_iter().for_each(|pid| ends.follow_process((pid, 7)));
        assert_eq!((ends.take_ended(), ends.poll_descriptors().count()), (Vec::new(), 2));
        let mut end = |child: &mut std::process::Child| {
            child.kill().unwrap();
            let mut fds: Vec<_> = ends.poll_descriptors().collect();
            // SAFETY: the array has so many elements, whose descriptors are open.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
            ends.take_ended()
        };
        let (earlier, later) = (end(&mut first.1), end(&mut second.1));
        assert_eq!([earlier[0].0, later[0].0], [(first.0, 7), (second.0, 7)]);
        assert!(earlier[0].1.before <= later[0].1.after && later[0].1.after < later[0].1.before);
        [first.1, second.1].iter_mut().for_each(|child| drop(child.wait()));
    }
}
