//! The page that the launcher shares with us: where this process tells it that it met a driver.

use crate::settings;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cupeer_spec::status::{MAGIC, Status};

/// Counts this process as one that met a driver, once.
pub fn reached() {
    static PID: AtomicU32 = AtomicU32::new(0);
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    if PID.swap(pid, Relaxed) != pid {
        with(|status| {
            status.reached.fetch_add(1, Relaxed);
        });
    }
}

/// Counts a library whose calls go past us.
pub fn escaped() {
    with(|status| {
        status.escaped.fetch_add(1, Relaxed);
    });
}

/// Counts a process that had to give up its log.
pub fn log_lost() {
    with(|status| {
        status.log_lost.fetch_add(1, Relaxed);
    });
}

/// Counts a process that lost its record, or a part of it.
pub fn record_lost() {
    with(|status| {
        status.record_lost.fetch_add(1, Relaxed);
    });
}

/// Counts a finding that is a warning or an error. Not on the way of a call that is right: it costs some system
/// calls.
pub fn found() {
    with(|status| {
        status.findings.fetch_add(1, Relaxed);
    });
}

/// Opens the page for a moment. Nothing is kept open: programs close what they do not know.
fn with(work: impl FnOnce(&Status)) {
    let Some(path) = &settings::get().status else { return };
    // SAFETY: the path ends in NUL.
    let file = unsafe {
        libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
    };
    if file < 0 {
        return;
    }
    let size = size_of::<Status>();
    // SAFETY: maps a new range; an access beyond the end of a short file is excluded by the check of
    // its size.
    unsafe {
        let mut about: libc::stat = core::mem::zeroed();
        let long_enough = libc::fstat(file, &mut about) == 0 && about.st_size >= size as i64;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let page = if long_enough {
            libc::mmap(core::ptr::null_mut(), size, protection, libc::MAP_SHARED, file, 0)
        } else {
            libc::MAP_FAILED
        };
        libc::close(file);
        if page == libc::MAP_FAILED {
            return;
        }
        let status = &*page.cast::<Status>();
        if status.magic.load(Relaxed) == MAGIC {
            work(status);
        }
        libc::munmap(page, size);
    }
}
