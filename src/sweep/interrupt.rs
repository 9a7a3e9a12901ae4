//! The request to end: SIGINT, SIGTERM or SIGHUP. Runs look for it, and the sweep keeps its state.

use cupeer_console::startup;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Notes signals that ask to end from now on, instead of being killed by them.
pub fn watch() -> io::Result<()> {
    // Signals that were ignored at the start (by nohup, for example) stay ignored.
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter();
    signals
        .filter(|signal| !startup::is_ignored(*signal))
        .try_for_each(|signal| signal_hook::flag::register(signal, INTERRUPTED.clone()).map(drop))
}

pub fn is_set() -> bool {
    INTERRUPTED.load(Relaxed)
}
