//! The request to end: SIGINT, SIGTERM or SIGHUP. Runs look for it, and the sweep keeps its state.

use cupeer_console::startup;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on such a signal is noted.
pub fn watch() -> io::Result<()> {
    // Signals that nohup ignores stay ignored.
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter();
    signals
        .filter(|signal| !startup::is_ignored(*signal))
        .try_for_each(|signal| signal_hook::flag::register(signal, INTERRUPTED.clone()).map(drop))
}

pub fn is_set() -> bool {
    INTERRUPTED.load(Relaxed)
}
