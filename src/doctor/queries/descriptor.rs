//! Tests whether this process may take a file descriptor of a process that is not its child, by pidfd_getfd on its
//! own parent. By default, Yama lets a process trace only its descendants, so the parent stands for any other
//! process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

/// Result of taking a file descriptor from another process.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Descriptor {
    /// The descriptor was taken.
    Taken,
    /// `pidfd_open` failed with this error number.
    NotOpened(i32),
    /// `pidfd_getfd` failed with this error number.
    Refused(i32),
}

/// Takes a file descriptor of the parent process.
pub fn take_descriptor(descriptor: i32) -> Descriptor {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: the calls take numbers alone, and what they return is a descriptor of ours, which is closed at exit.
    unsafe {
        let parent = libc::syscall(libc::SYS_pidfd_open, libc::getppid(), 0);
        if parent < 0 {
            return Descriptor::NotOpened(errno());
        }
        match libc::syscall(libc::SYS_pidfd_getfd, parent, descriptor, 0) {
            ..0 => Descriptor::Refused(errno()),
            _ => Descriptor::Taken,
        }
    }
}
