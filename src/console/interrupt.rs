//! The request to end a command that runs programs: SIGINT, SIGTERM, or SIGHUP. The command looks for it between runs and during them.

use crate::startup;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

static IS_INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, SIGINT, SIGTERM, and SIGHUP only set a flag, instead of killing this process.
pub fn watch_signals() -> io::Result<()> {
    // Signals that were ignored at the start (by nohup, for example) stay ignored.
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter();
    signals
        .filter(|signal| !startup::is_signal_ignored(*signal))
        .try_for_each(|signal| signal_hook::flag::register(signal, IS_INTERRUPTED.clone()).map(drop))
}

pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Relaxed)
}
