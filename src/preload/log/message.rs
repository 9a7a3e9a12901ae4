//! The few messages that a program prints to stderr for cupeer: one line for each problem that would otherwise go
//! unnoticed.

use crate::settings;
use crate::sys::files;
use crate::sys::line::{LONGEST, Line, Tame};
use crate::sys::opened;
use core::ffi::c_int;
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

/// What an errno means, in the words of libc: asked itself, it would take the locks of translations.
pub struct Reason(pub c_int);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.0 {
            libc::EPERM => "Operation not permitted",
            libc::ENOENT => "No such file or directory",
            libc::EINTR => "Interrupted system call",
            libc::EIO => "Input/output error",
            libc::ENXIO => "No such device or address",
            libc::EBADF => "Bad file descriptor",
            libc::EAGAIN => "Resource temporarily unavailable",
            libc::ENOMEM => "Cannot allocate memory",
            libc::EACCES => "Permission denied",
            libc::EBUSY => "Device or resource busy",
            libc::EEXIST => "File exists",
            libc::EXDEV => "Invalid cross-device link",
            libc::ENODEV => "No such device",
            libc::ENOTDIR => "Not a directory",
            libc::EISDIR => "Is a directory",
            libc::EINVAL => "Invalid argument",
            libc::ENFILE => "Too many open files in system",
            libc::EMFILE => "Too many open files",
            libc::ETXTBSY => "Text file busy",
            libc::EFBIG => "File too large",
            libc::ENOSPC => "No space left on device",
            libc::ESPIPE => "Illegal seek",
            libc::EROFS => "Read-only file system",
            libc::EMLINK => "Too many links",
            libc::EPIPE => "Broken pipe",
            libc::ENAMETOOLONG => "File name too long",
            libc::ENOSYS => "Function not implemented",
            libc::ELOOP => "Too many levels of symbolic links",
            libc::EOVERFLOW => "Value too large for defined data type",
            libc::EOPNOTSUPP => "Operation not supported",
            libc::ETIMEDOUT => "Connection timed out",
            libc::ESTALE => "Stale file handle",
            libc::EDQUOT => "Disk quota exceeded",
            other => return write!(f, "error {other}"),
        })
    }
}

/// Says several lines, whole, under the same condition.
#[cold]
#[inline(never)]
pub fn paragraph(text: &[u8]) {
    let stderr = settings::get().stderr;
    if stderr.is_some() && opened::identity(libc::STDERR_FILENO) == stderr {
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
