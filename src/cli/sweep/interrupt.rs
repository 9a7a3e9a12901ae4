//! The wish to end: SIGINT, SIGTERM or SIGHUP. Runs look for it, and the sweep keeps its state.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    INTERRUPTED.store(true, Relaxed);
}

/// From here on such a signal is noted.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero bytes are a valid action, and the handler does nothing but store a flag.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            // What nohup ignores stays ignored.
            if old.sa_sigaction != libc::SIG_IGN {
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
                libc::sigaction(signal, &new, std::ptr::null_mut());
            }
        }
    }
}

/// Whether one came.
pub fn is_set() -> bool {
    INTERRUPTED.load(Relaxed)
}
