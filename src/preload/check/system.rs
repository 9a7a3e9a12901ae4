//! Facts about this process from the system, for the rules about virtual memory.

use crate::sys::files::{self, each_name};
use crate::sys::line::ShortText;
use cupeer_rules::decide::Ptrace;

/// Returns true if this process may read any IMEX channel. Machines share memory through these channels.
pub fn has_fabric_channel() -> bool {
    let mut has_one = false;
    each_name(c"/dev/nvidia-caps-imex-channels", |name| {
        let path = ShortText::<64>::new(format_args!("/dev/nvidia-caps-imex-channels/{name}\0"));
        has_one = name.starts_with("channel")
            && path.c_text().is_some_and(|path| {
                // SAFETY: the path ends in NUL.
                unsafe { libc::access(path.as_ptr(), libc::R_OK) == 0 }
            });
        has_one
    });
    has_one
}

/// Returns true if a number is an open file descriptor of this process.
pub fn is_descriptor(fd: i32) -> bool {
    // SAFETY: takes any number.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Returns the settings of the system that decide whether this process may take file descriptors of another
/// process.
pub fn read_ptrace_limits() -> Option<Ptrace> {
    let mut text = [0; 4];
    let length = files::read(c"/proc/sys/kernel/yama/ptrace_scope", &mut text).unwrap_or(0);
    let scope = text[..length].first().filter(|digit| digit.is_ascii_digit()).map_or(0, |digit| digit - b'0');
    /// Header for `capget`: `_LINUX_CAPABILITY_VERSION_3`, and 0 for this thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    const CAP_SYS_PTRACE: u32 = 19;
    let (mut header, mut sets) = (HEADER, [0u32; 6]);
    // SAFETY: the kernel writes three words for each half of the capabilities, of which there are two.
    let result = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    (result == 0).then_some(Ptrace { scope, is_capable: sets[0] & 1 << CAP_SYS_PTRACE != 0 })
}
