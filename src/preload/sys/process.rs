//! The identity of this process.

use super::files;
use core::ffi::c_long;
use cupeer_spec::uuid;

/// Returns the pid of the process that owns the recording. In a child of vfork, which shares our memory, that is the parent. If
/// the system does not tell, it is the calling process.
pub fn recording_owner_pid() -> u32 {
    // SAFETY: neither has preconditions.
    let (pid, parent) = unsafe { (libc::getpid() as u32, libc::getppid() as u32) };
    if shares_memory_with(parent) { parent } else { pid }
}

/// Returns true if another process shares our memory; false if the system does not tell.
pub fn shares_memory_with(pid: u32) -> bool {
    const KCMP_VM: c_long = 1;
    // SAFETY: asks the kernel to compare two processes; no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, c_long::from(libc::getpid()), c_long::from(pid), KCMP_VM, 0, 0) == 0 }
}

/// Returns the boot id of the host; all zeros if it is unknown.
pub fn boot_id() -> [u8; 16] {
    let mut text = [0u8; 64];
    let length = files::read(c"/proc/sys/kernel/random/boot_id", &mut text).unwrap_or(0);
    let text = core::str::from_utf8(&text[..length]).unwrap_or_default();
    uuid::parse_uuid(text.trim_end()).unwrap_or_default()
}

/// Returns the id of this thread.
pub fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
