//! The few words that we say to a person from inside a program: one line on stderr, for what would
//! otherwise go wrong in silence.

use crate::log::sink;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Says one line.
pub fn line(text: fmt::Arguments) {
    let mut line = crate::log::Line::new();
    let _ = writeln!(line, "cupeer: {text}");
    sink::write_quietly(libc::STDERR_FILENO, line.bytes());
}

/// Says one line, the first time that it is asked to say any.
pub fn once(text: fmt::Arguments) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        line(text);
    }
}
