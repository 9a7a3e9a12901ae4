//! The few words that we say to a person from inside a program: one line on stderr, for what would
//! otherwise go wrong in silence.

use crate::log::{LONGEST, Line, Tame};
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
    let mut line = Tame(Cut(Line::new()));
    let _ = write!(line, "cupeer: {text}");
    let Tame(Cut(mut line)) = line;
    let _ = line.push(b"\n");
    let _ = files::write(libc::STDERR_FILENO, line.bytes());
}

/// A line of which the end is left out where it is too long: better than no end of the line.
struct Cut(Line);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - 1 - self.0.bytes().len();
        self.0.push(&text.as_bytes()[..text.floor_char_boundary(room)])
    }
}

/// Says several lines, whole, under the same condition.
#[cold]
#[inline(never)]
pub fn paragraph(text: &[u8]) {
    let stderr = settings::get().stderr;
    if stderr.is_some() && files::identity(libc::STDERR_FILENO) == stderr {
        let _ = files::write(libc::STDERR_FILENO, text);
    }
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
