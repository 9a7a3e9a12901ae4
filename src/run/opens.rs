//! Tells when somebody opens the driver, so that a process that uses it for a short time is not missed between two looks.
//!
//! The kernel names the file, not the process: whoever is told looks at all processes.

use super::ends::EndWatcher;
use std::ffi::CString;
use std::io::{PipeReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Control device of NVIDIA's driver: every process that uses a GPU opens it.
const CONTROL: &str = "/dev/nvidiactl";

/// Reason why a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The other end of the pipe was closed.
    Stopped,
    /// A process has opened the driver since the last wait.
    Opened,
    /// A followed process has ended.
    Ended,
    /// The time was over.
    Timeout,
}

/// Watch (inotify) for opens of a driver's file; `None` if the file cannot be watched.
pub struct DriverOpenWatch(Option<OwnedFd>);

impl DriverOpenWatch {
    /// Watches a driver's file or, without a chosen driver, NVIDIA's control device.
    pub fn watch(driver: Option<&Path>) -> DriverOpenWatch {
        // SAFETY: takes flags, and gives a new descriptor or -1.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd == -1 {
            return DriverOpenWatch::disabled();
        }
        // SAFETY: just made, and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let path = driver.unwrap_or(Path::new(CONTROL)).as_os_str().as_bytes();
        let is_watched = CString::new(path).is_ok_and(|path| {
            // SAFETY: the descriptor is an inotify instance, and the path ends in NUL.
            unsafe { libc::inotify_add_watch(fd.as_raw_fd(), path.as_ptr(), libc::IN_OPEN) != -1 }
        });
        DriverOpenWatch(is_watched.then_some(fd))
    }

    /// Returns a value that watches nothing.
    pub fn disabled() -> DriverOpenWatch {
        DriverOpenWatch(None)
    }

    /// Waits until the pipe's other end is closed, the driver is opened, a followed process ends, or the time `most` is
    /// over.
    pub fn wait_for_event(&self, stopped: &PipeReader, ends: &EndWatcher, most: Duration) -> WakeReason {
        // Poll ignores a descriptor of -1.
        let own = self.0.as_ref().map_or(-1, |fd| fd.as_raw_fd());
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = vec![wanted(stopped.as_raw_fd()), wanted(own)];
        fds.extend(ends.poll_descriptors());
        let most = most.as_micros().div_ceil(1000).try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: the array has so many elements, whose descriptors are open or -1.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, most) };
        match fds.iter().position(|fd| fd.revents != 0) {
            Some(0) => WakeReason::Stopped,
            Some(1) => {
                self.drain_events();
                WakeReason::Opened
            }
            Some(_) => WakeReason::Ended,
            None => WakeReason::Timeout,
        }
    }

    fn drain_events(&self) {
        let Some(file) = self.0.as_ref().and_then(|fd| fd.try_clone().ok()).map(std::fs::File::from) else {
            return;
        };
        let mut events = [0; 4096];
        while matches!((&file).read(&mut events), Ok(1..)) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn an_open_file_and_the_end_wake_and_nothing_else_does() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(600));
        let opens = DriverOpenWatch::watch(Some(file.path()));
        assert_eq!(opens.wait_for_event(&reader, &EndWatcher::default(), short), WakeReason::Timeout);
        (0..1000).for_each(|_| drop(File::open(file.path()).unwrap()));
        assert_eq!(opens.wait_for_event(&reader, &EndWatcher::default(), long), WakeReason::Opened);
        assert_eq!(opens.wait_for_event(&reader, &EndWatcher::default(), short), WakeReason::Timeout);
        let missing = DriverOpenWatch::watch(Some(Path::new("/nowhere/libcuda.so.1")));
        assert_eq!(missing.wait_for_event(&reader, &EndWatcher::default(), short), WakeReason::Timeout);
        drop(writer);
        assert_eq!(
            [opens, missing].map(|opens| opens.wait_for_event(&reader, &EndWatcher::default(), long)),
            [WakeReason::Stopped, WakeReason::Stopped]
        );
    }
}
