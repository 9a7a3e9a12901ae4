//! The page through which the processes of a run say that they reached the driver.
//!
//! It is a memfd: it has no name, and it is gone with the launcher.

use cupeer_spec::status::{BYTES, EXECUTES, FILE, MAGIC, NAME, Status};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU8, AtomicU32};

/// The launcher's mapping of the page in which the program's processes count and report events.
pub struct StatusPage {
    fd: OwnedFd,
    status: NonNull<Status>,
}

impl StatusPage {
    pub fn new() -> io::Result<StatusPage> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // The system call is made by its number, because glibc has a function for it only since 2.27.
        // SAFETY: the name is a NUL-terminated text.
        let fd = unsafe { libc::syscall(libc::SYS_memfd_create, FILE.as_ptr(), flags) };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: memfd_create has just made it, and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        // The seals keep other processes from shrinking the file: reading beyond its end would kill the launcher.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is a memfd that allows seals.
        let sized = unsafe {
            libc::ftruncate(fd.as_raw_fd(), BYTES as libc::off_t) == 0
                && libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
        };
        if !sized {
            return Err(io::Error::last_os_error());
        }
        let (protection, place) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
        let size = size_of::<Status>();
        // SAFETY: a new shared mapping of a file that has this size, at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(place, size, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let status = NonNull::new(memory.cast()).ok_or_else(io::Error::last_os_error)?;
        let page = StatusPage { fd, status };
        page.status().magic.store(MAGIC, Release);
        Ok(page)
    }

    /// Returns the counts that the processes share.
    pub fn status(&self) -> &Status {
        // SAFETY: the mapping lives as long as `self`, is page-aligned, and holds only atomics, for
        // which any bytes are valid.
        unsafe { self.status.as_ref() }
    }

    /// Returns the path by which other processes open the page.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Returns the number of processes that began with the preload library but without LD_PRELOAD, and the name of the
    /// last of these processes; `None` if there are none.
    pub fn removed_preloads(&self) -> Option<(u32, String)> {
        let count = self.status().dropped.load(Acquire);
        (count > 0).then(|| (count, read_name(&self.status().dropper)))
    }

    /// Writes the pid of the started process to the page. Async-signal-safe, because that process calls this itself.
    pub fn set_launched(&self, pid: libc::pid_t) {
        self.status().launched.store(pid as u32, Release);
    }

    /// Returns the last program of the started process that had the preload library.
    pub fn library_presence(&self) -> LibraryPresence {
        let status = self.status();
        match (status.loaded.load(Acquire), status.ended.load(Acquire)) {
            (0, _) => LibraryPresence::NeverLoaded,
            (_, EXECUTES) => LibraryPresence::MaybeLostAfter(read_name(&status.image)),
            (_, 0) => LibraryPresence::LostAfter(read_name(&status.image)),
            _ => LibraryPresence::KeptToTheEnd,
        }
    }
}

// SAFETY: other threads and processes use the page through its atomics alone, and nothing of `Page` changes.
unsafe impl Send for StatusPage {}
// SAFETY: other threads and processes use the page through its atomics alone, and nothing of `Page` changes.
unsafe impl Sync for StatusPage {}

/// Waits until a word of the page differs from `value`. May return before that.
pub fn wait_for_change(word: &AtomicU32, value: u32) {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: the address of a word of the page, whose mapping the caller holds; a null pointer stands for no limit.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, forever) };
}

/// Wakes all threads that wait for a word of the page.
pub fn wake_waiters(word: &AtomicU32) {
    // SAFETY: the address of a word of the page, whose mapping the caller holds. Nothing is read or written.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, libc::c_int::MAX) };
}

/// Presence of the preload library in the started process.
#[derive(Debug, PartialEq, Eq)]
pub enum LibraryPresence {
    NeverLoaded,
    /// Name of the last program of this process that had the preload library. The library saw neither an orderly end of
    /// that program nor that it executes another one.
    LostAfter(String),
    /// Name of the last program of this process that had the preload library, which was about to execute another program:
    /// the library may be lost there.
    MaybeLostAfter(String),
    KeptToTheEnd,
}

fn read_name(bytes: &[AtomicU8; NAME]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Acquire)).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for StatusPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, has this size, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.status.as_ptr().cast(), size_of::<Status>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn another_opener_counts_on_the_same_page() {
        let page = StatusPage::new().unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(page.path()).unwrap();
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, 0).unwrap();
        let reached = || page.status().reached.load(Acquire);
        assert_eq!((u32::from_ne_bytes(magic), reached()), (MAGIC, 0));
        file.write_all_at(&3u32.to_ne_bytes(), std::mem::offset_of!(Status, reached) as u64).unwrap();
        assert_eq!(reached(), 3);
        assert!(file.set_len(0).is_err());
    }
}
