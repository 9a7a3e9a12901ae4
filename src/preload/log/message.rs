//! The few messages that a person gets from inside a program: one line on stderr for what would otherwise go wrong in
//! silence.

use crate::settings;
use crate::sys::files;
use crate::sys::line::{LONGEST, Line, Tame};
use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Relaxed, SeqCst},
};

/// Says one line, where stderr is still what it was when the program began.
#[cold]
#[inline(never)]
pub fn line(text: fmt::Arguments) {
    let mut line = Tame(Cut(Line::new()));
    let _ = write!(line, "cupeer: {text}");
    let Tame(Cut(mut line)) = line;
    let _ = line.push(b"\n");
    paragraph(line.bytes());
}

/// A line of which the end is left out where it is too long: better than no end of the line.
struct Cut(Line);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - 1 - self.0.bytes().len();
        self.0.push(&text.as_bytes()[..text.floor_char_boundary(room)])
    }
}

/// A text that may not be UTF-8: what is not, is a replacement character.
pub struct Text<'a>(pub &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { f.write_char(char::REPLACEMENT_CHARACTER) }
        })
    }
}

/// What an errno means.
pub struct Reason(pub c_int);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut reason = [0u8; 128];
        // SAFETY: writes at most that many bytes, with a NUL.
        unsafe { libc::strerror_r(self.0, reason.as_mut_ptr().cast(), reason.len()) };
        Text(CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_bytes()).fmt(f)
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

/// Whether this process has met a driver, and what is said when it does; others hear nothing of us.
static HAS_MET: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicPtr<&'static str> = AtomicPtr::new(ptr::null_mut());

/// Says one line when the process meets a driver, or at once where it has.
pub fn when_met(text: &'static &'static str) {
    WAITING.store(ptr::from_ref(text).cast_mut(), SeqCst);
    if HAS_MET.load(SeqCst) {
        say_what_waits();
    }
}

fn say_what_waits() {
    // SAFETY: a text that stays, or null.
    if let Some(text) = unsafe { WAITING.swap(ptr::null_mut(), SeqCst).as_ref() } {
        line(format_args!("{text}"));
    }
}

/// Says what of the settings was not understood, and what waits. Called when the process meets a driver.
#[cold]
#[inline(never)]
pub fn met() {
    for complaint in settings::get().complaints() {
        line(format_args!("{complaint}"));
    }
    HAS_MET.store(true, SeqCst);
    say_what_waits();
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
