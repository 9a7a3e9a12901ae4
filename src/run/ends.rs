//! Ends of descendants, at the moment when the kernel makes a descriptor of them ready.

use cupeer_record::clock::monotonic;
use cupeer_spec::record::end::Span;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Maximum number of followed processes; ends of other processes are only noticed when somebody looks.
const MOST: usize = 256;

/// Identity of a process: its pid and its start time.
pub type Key = (libc::pid_t, u64);

/// Processes whose ends are awaited by pidfds.
#[derive(Default)]
pub struct Ends {
    followed: Vec<(OwnedFd, Key)>,
    /// Last time at which all followed processes were known to run.
    ran: u64,
}

impl Ends {
    /// Follows a running process, if the kernel supports pidfds.
    pub fn follow(&mut self, process: Key) {
        if self.followed.len() == MOST {
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
    pub fn wanted(&self) -> impl Iterator<Item = libc::pollfd> {
        let wanted =
            |(fd, _): &(OwnedFd, Key)| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        self.followed.iter().map(wanted)
    }

    /// Returns the processes that ended since the last call, each with the span of time in which it ended.
    pub fn take(&mut self) -> Vec<(Key, Span)> {
        let mut all = Vec::new();
        // Processes are asked again after each end: only so the remaining ones are known to have run longer.
        loop {
            let ended = self.ended();
            if ended.is_empty() {
                return all;
            }
            all.extend(ended);
        }
    }

    fn ended(&mut self) -> Vec<(Key, Span)> {
        let now = monotonic();
        let mut fds: Vec<_> = self.wanted().collect();
        // SAFETY: the array has so many elements, whose descriptors are open.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
        let span = Span { after: std::mem::replace(&mut self.ran, now), before: monotonic() };
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
        let mut ends = Ends::default();
        [first.0, second.0].into_iter().for_each(|pid| ends.follow((pid, 7)));
        assert_eq!((ends.take(), ends.wanted().count()), (Vec::new(), 2));
        let mut end = |child: &mut std::process::Child| {
            child.kill().unwrap();
            let mut fds: Vec<_> = ends.wanted().collect();
            // SAFETY: the array has so many elements, whose descriptors are open.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
            ends.take()
        };
        let (earlier, later) = (end(&mut first.1), end(&mut second.1));
        assert_eq!([earlier[0].0, later[0].0], [(first.0, 7), (second.0, 7)]);
        assert!(earlier[0].1.before <= later[0].1.after && later[0].1.after < later[0].1.before);
        [first.1, second.1].iter_mut().for_each(|child| drop(child.wait()));
    }
}
