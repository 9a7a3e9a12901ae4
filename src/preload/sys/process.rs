//! The identity of this process.

use super::files;
use core::ffi::c_long;
use cupeer_spec::uuid;

/// The process whose record this is: where our memory is our parent's, as in a child of vfork, we count as that one. Where
/// the system does not tell, it is not.
pub fn owner() -> u32 {
    // SAFETY: neither has preconditions.
    let (pid, parent) = unsafe { (libc::getpid() as u32, libc::getppid() as u32) };
    if shares_memory_with(parent) { parent } else { pid }
}

/// Whether another process has our memory. Where the system does not tell, the answer is no.
pub fn shares_memory_with(pid: u32) -> bool {
    const KCMP_VM: c_long = 1;
    // SAFETY: asks the kernel to compare two processes; no memory is involved.
    unsafe {
        libc::syscall(libc::SYS_kcmp, c_long::from(libc::getpid()), c_long::from(pid), KCMP_VM, 0, 0) == 0
    }
}

/// The boot id of the host; zero where it is not known.
pub fn boot_id() -> [u8; 16] {
    let mut text = [0u8; 64];
    let length = files::read(c"/proc/sys/kernel/random/boot_id", &mut text).unwrap_or(0);
    let text = core::str::from_utf8(&text[..length]).unwrap_or_default();
    uuid::parse(text.trim_end()).unwrap_or_default()
}
