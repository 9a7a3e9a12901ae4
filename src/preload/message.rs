//! The few words that we say to a person from inside a program: one line on stderr, for what would
//! otherwise go wrong in silence.

use crate::{files, settings};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Says one line, where stderr is still what it was when the program began.
#[cold]
#[inline(never)]
pub fn line(text: fmt::Arguments) {
    let stderr = settings::get().stderr;
    if stderr.is_none() || files::identity(libc::STDERR_FILENO) != stderr {
        return;
    }
    let mut line = crate::log::Line::new();
    let _ = writeln!(line, "cupeer: {text}");
    let _ = files::write(libc::STDERR_FILENO, line.bytes());
}

/// Says one line, the first time that it is asked to say any.
#[cold]
#[inline(never)]
pub fn once(text: fmt::Arguments) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        line(text);
    }
}
